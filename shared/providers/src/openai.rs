//! OpenAI's chat completions, as spoken by OpenAI and by many other servers.

use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use everypage_core::ports::vision::{Finish, PageRequest, RequestImage};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue, InvalidHeaderValue};
use serde::{Deserialize, Serialize, Serializer};

use crate::reading::{Content, Reading, Tokens};

pub(crate) const PATH: &str = "/chat/completions";

pub(crate) fn headers(key: Option<&str>) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
    let Some(key) = key else { return Ok(Vec::new()) };
    let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
    value.set_sensitive(true);
    Ok(vec![(AUTHORIZATION, value)])
}

/// `custom`: not OpenAI's own address. Many compatible servers know only the older name of the
/// output limit, which OpenAI's newer models refuse.
pub(crate) fn body(model: &str, request: &PageRequest, custom: bool) -> serde_json::Result<Vec<u8>> {
    let limit = request.max_output_tokens;
    let user = match &request.image {
        None => Said::Text(&request.context_text),
        Some(image) => Said::Parts(parts(&request.context_text, image)),
    };
    let system = Some(&request.system_prompt).filter(|prompt| !prompt.is_empty());
    let system = system.map(|prompt| Message { role: "system", content: Said::Text(prompt) });
    serde_json::to_vec(&Body {
        model,
        messages: system.into_iter().chain([Message { role: "user", content: user }]).collect(),
        max_tokens: custom.then_some(limit),
        max_completion_tokens: (!custom).then_some(limit),
    })
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
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Said<'a>,
}

/// Without an image the content is a plain string: servers for text models take nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
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
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    message: Reply,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Reply {
    content: Option<Content>,
    refusal: Option<String>,
}

/// `None` when the answer lacks what the API promises.
pub(crate) fn read(body: &[u8]) -> Option<Reading> {
    let completion: Completion = serde_json::from_slice(body).ok()?;
    let Choice { message, finish_reason } = completion.choices.into_iter().next()?;
    let declined = message.refusal.is_some_and(|refusal| !refusal.is_empty())
        || message.content.as_ref().is_some_and(Content::has_refusal);
    let finish = match finish_reason.as_deref() {
        Some("content_filter") => Finish::Refusal,
        _ if declined => Finish::Refusal,
        Some("length" | "abort") => Finish::Length,
        // Compatible servers have their own words for the normal end ("eos_token", none at all).
        _ => Finish::Complete,
    };
    let text = message.content.map(Content::text).unwrap_or_default();
    Some(Reading { text, finish, tokens: completion.usage.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use everypage_core::domain::document::ImageFormat;
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
        };
        serde_json::from_slice(&body("gpt-5.1", &request, custom).unwrap()).unwrap()
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
    fn a_server_of_another_address_gets_the_older_limit_and_plain_text() {
        let sent = sent(false, true);
        assert_eq!(sent["max_tokens"], 77);
        assert_eq!(sent.get("max_completion_tokens"), None);
        assert_eq!(sent["messages"][1]["content"], "Page 1 of 2");
    }

    #[test]
    fn answers_are_read_in_every_shape() {
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
            let reading = read(body.to_string().as_bytes()).unwrap();
            assert_eq!((reading.text.as_str(), reading.finish), (text, finish), "{body}");
            assert_eq!((reading.tokens.input(), reading.tokens.output()), (10, 2));
        }
    }

    #[test]
    fn anything_else_is_no_answer() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":[{}]}"#,
            r#"{"choices":[{"message":7}]}"#,
        ] {
            assert!(read(body.as_bytes()).is_none(), "{body}");
        }
    }
}
