//! OpenAI's chat completions API, which many other servers implement too.

use std::time::Duration;

use async_trait::async_trait;
use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use everypage_core::ports::vision::{Allowance, Finish, PageRequest, Quota, RequestImage, VisionError};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::{Deserialize, Serialize, Serializer};

use super::{
    Call, Completion, Dialect, Request,
    completion::{Content, Tokens},
};
use crate::{
    rate_limit::{header, number},
    settings::BaseUrl,
};

pub(super) struct OpenAi;

#[async_trait]
impl Dialect for OpenAi {
    async fn request(&self, call: Call<'_>, base: &BaseUrl) -> Result<Request, VisionError> {
        let headers = match call.key {
            Some(key) => vec![(AUTHORIZATION, call.secret_header(&format!("Bearer {key}"))?)],
            None => vec![],
        };
        let body = call.json(&body(&call.target.model, call.page, base.custom))?;
        Ok(Request { url: base.join("/chat/completions"), headers, body })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let Choice { message, finish_reason } = response.choices.into_iter().next()?;
        let is_refused = message.refusal.is_some_and(|refusal| !refusal.is_empty())
            || message.content.as_ref().is_some_and(Content::has_refusal);
        let finish = match finish_reason.as_deref() {
            Some("content_filter") => Finish::Refusal,
            _ if is_refused => Finish::Refusal,
            Some("length" | "abort") => Finish::Length,
            // Compatible servers have other values for a normal end ("eos_token") or none at all.
            _ => Finish::Complete,
        };
        let text = message.content.map(Content::text).unwrap_or_default();
        let tokens = response.usage.unwrap_or_default();
        Some(Completion { text, finish, input_tokens: tokens.input(), output_tokens: tokens.output() })
    }

    fn allowance(&self, headers: &HeaderMap) -> Allowance {
        Allowance { requests: quota(headers, "requests"), tokens: quota(headers, "tokens") }
    }

    fn rate_limit_reset(&self, headers: &HeaderMap) -> Option<Duration> {
        let quotas = ["requests", "tokens"].into_iter().filter_map(|limit| quota(headers, limit));
        quotas.filter(|quota| quota.left == 0).map(|quota| quota.resets_in).max()
    }
}

/// What is left of one limit, and when it is full again.
fn quota(headers: &HeaderMap, limit: &str) -> Option<Quota> {
    let remaining = header(headers, &format!("x-ratelimit-remaining-{limit}"))?.parse::<f64>().ok()?;
    let reset = header(headers, &format!("x-ratelimit-reset-{limit}"))?;
    let resets_in = go_duration(reset).or_else(|| number(reset, 1.0))?;
    let whole = header(headers, &format!("x-ratelimit-limit-{limit}")).and_then(|value| value.parse().ok());
    Some(Quota { left: remaining.max(0.0) as u64, limit: whole, resets_in })
}

/// Parses the notation of the programming language Go: `1m30.5s`, `250ms`, `6m0s`.
fn go_duration(value: &str) -> Option<Duration> {
    let mut rest = value;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.saturating_add(number(count, seconds)?);
        rest = tail;
    }
    (!value.is_empty()).then_some(total)
}

/// `custom`: another server than OpenAI's. Many compatible servers know only the older name of the
/// output limit, which OpenAI's newer models reject.
fn body<'a>(model: &'a str, page: &'a PageRequest, custom: bool) -> Body<'a> {
    let limit = page.max_output_tokens;
    let user = match &page.image {
        None => MessageContent::Text(&page.context_text),
        Some(image) => MessageContent::Parts(parts(&page.context_text, image)),
    };
    let system = Some(&page.system_prompt).filter(|prompt| !prompt.is_empty());
    let system = system.map(|prompt| Message { role: "system", content: MessageContent::Text(prompt) });
    Body {
        model,
        messages: system.into_iter().chain([Message { role: "user", content: user }]).collect(),
        max_tokens: custom.then_some(limit),
        max_completion_tokens: (!custom).then_some(limit),
        temperature: page.temperature,
    }
}

fn parts<'a>(context: &'a str, image: &'a RequestImage) -> Vec<Part<'a>> {
    let text = Some(context).filter(|text| !text.is_empty()).map(|text| Part::Text { text });
    let image = Part::ImageUrl { image_url: ImageUrl { url: DataUrl(image) } };
    text.into_iter().chain([image]).collect()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: MessageContent<'a>,
}

/// A plain string without an image: servers for text models accept nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

/// Encoded while it is written, so that the image is in memory once as bytes and once as JSON.
struct DataUrl<'a>(&'a RequestImage);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(RequestImage { format, bytes }) = self;
        serializer.collect_str(&format_args!(
            "data:{};base64,{}",
            format.mime(),
            Base64Display::new(bytes, &STANDARD)
        ))
    }
}

#[derive(Deserialize)]
struct Response {
    choices: Vec<Choice>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    message: ResponseMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponseMessage {
    content: Option<Content>,
    refusal: Option<String>,
}

#[cfg(test)]
mod tests {
    use everypage_core::document::ImageFormat;
    use serde_json::{Value, json};

    use super::*;

    fn sent(image: bool, custom: bool) -> Value {
        let image = image
            .then(|| RequestImage { format: ImageFormat::Jpeg, bytes: b"\xff\xd8\xff".as_slice().into() });
        let request = PageRequest {
            system_prompt: "be exact".into(),
            context_text: "Page 1 of 2".into(),
            image,
            max_output_tokens: 77,
            temperature: None,
        };
        serde_json::to_value(body("gpt-5.1", &request, custom)).unwrap()
    }

    #[test]
    fn the_request_is_what_the_api_documents() {
        assert_eq!(
            sent(true, false),
            json!({
                "model": "gpt-5.1",
                "messages": [
                    { "role": "system", "content": "be exact" },
                    { "role": "user", "content": [
                        { "type": "text", "text": "Page 1 of 2" },
                        { "type": "image_url", "image_url": { "url": "data:image/jpeg;base64,/9j/" } },
                    ] },
                ],
                "max_completion_tokens": 77,
            })
        );
    }

    #[test]
    fn a_server_at_another_base_url_gets_the_older_limit_and_plain_text() {
        let sent = sent(false, true);
        assert_eq!(sent["max_tokens"], 77);
        assert_eq!(sent.get("max_completion_tokens"), None);
        assert_eq!(sent["messages"][1]["content"], "Page 1 of 2");
    }

    #[test]
    fn responses_of_every_shape_are_parsed() {
        let table = [
            (json!({ "content": "hi" }), json!("stop"), "hi", Finish::Complete),
            (json!({ "content": "hi" }), json!(null), "hi", Finish::Complete),
            (json!({ "content": "hi" }), json!("length"), "hi", Finish::Length),
            (json!({ "content": "hi" }), json!("content_filter"), "hi", Finish::Refusal),
            (json!({ "content": null, "refusal": "I can't" }), json!("stop"), "", Finish::Refusal),
            (json!({ "content": "hi", "refusal": null }), json!("stop"), "hi", Finish::Complete),
            (
                json!({ "content": [{ "type": "text", "text": "a" }, { "text": "b" }] }),
                json!("stop"),
                "ab",
                Finish::Complete,
            ),
            (
                json!({ "content": [{ "type": "refusal", "refusal": "no" }] }),
                json!("stop"),
                "",
                Finish::Refusal,
            ),
        ];
        for (message, reason, text, finish) in table {
            let body = json!({ "choices": [{ "message": message, "finish_reason": reason }],
                "usage": { "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 } });
            let parsed = OpenAi.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), (text, finish), "{body}");
            assert_eq!((parsed.input_tokens, parsed.output_tokens), (10, 2));
        }
    }

    #[test]
    fn any_other_response_is_rejected() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":[{}]}"#,
            r#"{"choices":[{"message":7}]}"#,
        ] {
            assert!(OpenAi.parse(body.as_bytes()).is_none(), "{body}");
        }
    }

    #[test]
    fn go_durations() {
        let table = [
            ("1s", Some(1.0)),
            ("6m0s", Some(360.0)),
            ("1h2m3.5s", Some(3723.5)),
            ("250ms", Some(0.25)),
            ("500us", Some(0.0005)),
            ("0", None),
            ("", None),
            ("s", None),
            ("1.2.3s", None),
            ("5 s", None),
            ("3 fortnights", None),
        ];
        for (value, seconds) in table {
            assert_eq!(go_duration(value).map(|wait| wait.as_secs_f64()), seconds, "{value:?}");
        }
    }
}
