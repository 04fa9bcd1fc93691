//! Anthropic's messages API.
//!
//! Documented at platform.claude.com/docs/en/api/messages, errors at .../api/errors, rate-limit headers at
//! .../api/rate-limits.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::vision::{Allowance, Finish, Quota, VisionError};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{
    Call, Completion, Dialect, Request,
    completion::{Content, Tokens},
    image::Base64,
    tuning::{ClaudeFields, ClaudeTuning, is_worth_caching},
};
use crate::{
    rate_limit::{header, tightest, until},
    settings::Endpoint,
};

pub(super) struct Anthropic;

#[async_trait]
impl Dialect for Anthropic {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let key = call.secret_header(call.key.unwrap_or_default())?;
        let headers = vec![
            (HeaderName::from_static("x-api-key"), key),
            (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01")),
        ];
        let body = call.json(&body(call))?;
        Ok(Request { url: endpoint.url(call, "/v1/messages")?, headers, body })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let finish = match response.stop_reason.as_deref() {
            Some("refusal") => Finish::Refusal,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            // end_turn, stop_sequence, and values that are added later.
            _ => Finish::Complete,
        };
        let used = response.usage.unwrap_or_default().used();
        Some(Completion { text: response.content.text(), finish, used })
    }

    fn allowance(&self, headers: &HeaderMap) -> Allowance {
        let quota = |limit: &str| {
            let left = header(headers, &format!("anthropic-ratelimit-{limit}-remaining"))?.parse().ok()?;
            let reset = header(headers, &format!("anthropic-ratelimit-{limit}-reset"))?.parse().ok()?;
            let whole = header(headers, &format!("anthropic-ratelimit-{limit}-limit"));
            let whole = whole.and_then(|value| value.parse().ok());
            Some(Quota { left, limit: whole, resets_in: until(headers, reset)? })
        };
        Allowance {
            requests: quota("requests"),
            // `tokens` is a limit of the workspace, or of both kinds together.
            tokens: tightest(["tokens", "input-tokens"].map(quota)),
            output_tokens: quota("output-tokens"),
            exceeded: None,
        }
    }

    fn rate_limit_reset(&self, headers: &HeaderMap) -> Option<Duration> {
        let reset = |limit: &str| {
            let remaining = header(headers, &format!("anthropic-ratelimit-{limit}-remaining"));
            let remaining = remaining.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
            let value = header(headers, &format!("anthropic-ratelimit-{limit}-reset"));
            until(headers, value.filter(|_| remaining == 0)?.parse().ok()?)
        };
        ["requests", "tokens", "input-tokens", "output-tokens"].into_iter().filter_map(reset).max()
    }
}

fn body(call: Call<'_>) -> Body<'_> {
    let (model, page) = (&call.target.model, call.page);
    // The image comes first, as Anthropic advises; an empty text block would be rejected.
    let image = page.image.as_ref().map(|image| Part::Image {
        source: Source { kind: "base64", media_type: image.format.mime(), data: Base64(image) },
    });
    let text =
        Some(&page.context_text).filter(|text| !text.trim().is_empty()).map(|text| Part::Text { text });
    let tuning = ClaudeTuning::of(model, page.temperature);
    Body {
        model,
        max_tokens: call.max_output_tokens,
        system: system(&page.system_prompt),
        messages: [Message { role: "user", content: image.into_iter().chain(text).collect() }],
        temperature: tuning.temperature,
        fields: tuning.fields,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<System<'a>>,
    messages: [Message<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(flatten)]
    fields: ClaudeFields,
}

fn system(prompt: &str) -> Option<System<'_>> {
    match prompt {
        "" => None,
        prompt if is_worth_caching(prompt) => {
            let cache_control = CacheControl { kind: "ephemeral" };
            Some(System::Cached([SystemBlock { kind: "text", text: prompt, cache_control }]))
        }
        prompt => Some(System::Plain(prompt)),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum System<'a> {
    Plain(&'a str),
    Cached([SystemBlock<'a>; 1]),
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: Base64<'a>,
}

#[derive(Deserialize)]
struct Response {
    content: Content,
    stop_reason: Option<String>,
    usage: Option<Tokens>,
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::vision::PageRequest;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect_tests::{page, with_call};

    fn sent(context: &str, image: bool) -> Value {
        with_call("anthropic", "claude-haiku-4-5", &page(image, context), |call| {
            serde_json::to_value(body(call)).unwrap()
        })
    }

    #[test]
    fn the_request_is_what_the_api_documents() {
        assert_eq!(
            sent("Page 1 of 2", true),
            json!({
                "model": "claude-haiku-4-5",
                "max_tokens": 77,
                "system": "be exact",
                "messages": [{ "role": "user", "content": [
                    { "type": "image", "source": { "type": "base64", "media_type": "image/jpeg", "data": "/9j/" } },
                    { "type": "text", "text": "Page 1 of 2" },
                ] }],
                "temperature": 0.0,
            })
        );
        assert_eq!(sent(" \n", true)["messages"][0]["content"].as_array().unwrap().len(), 1);
        assert_eq!(sent("text", false)["messages"][0]["content"][0]["text"], "text");
    }

    #[test]
    fn thinking_is_turned_off_where_it_can_be() {
        let sent = |model: &str| {
            with_call("anthropic", model, &page(true, ""), |call| serde_json::to_value(body(call)).unwrap())
        };
        let (off, always) = (sent("claude-sonnet-5-5"), sent("claude-opus-5-5"));
        assert_eq!(
            (&off["thinking"], &off["output_config"]),
            (&json!({ "type": "between_tools" }), &Value::Null)
        );
        assert_eq!(
            (&always["thinking"], &always["output_config"]),
            (&Value::Null, &json!({ "effort": "low" }))
        );
    }

    #[test]
    fn a_long_system_prompt_is_cached() {
        let long = PageRequest { system_prompt: "x".repeat(5000), ..page(true, "Page 1 of 2") };
        let sent = with_call("anthropic", "claude-haiku-4-5", &long, |call| serde_json::to_value(body(call)));
        let block = &sent.unwrap()["system"][0];
        assert_eq!((&block["type"], &block["cache_control"]["type"]), (&json!("text"), &json!("ephemeral")));
    }

    #[test]
    fn responses_of_every_shape_are_parsed() {
        let table = [
            (json!([{ "type": "text", "text": "hi" }]), "end_turn", "hi", Finish::Complete),
            (json!([{ "type": "text", "text": "hi" }]), "stop_sequence", "hi", Finish::Complete),
            (json!([{ "type": "text", "text": "hi" }]), "max_tokens", "hi", Finish::Length),
            (json!([]), "refusal", "", Finish::Refusal),
            (json!("hi"), "end_turn", "hi", Finish::Complete),
            (
                json!([{ "type": "thinking", "thinking": "hm", "text": "hm" }, { "type": "text", "text": "a" }, { "type": "text", "text": "b" }]),
                "end_turn",
                "ab",
                Finish::Complete,
            ),
        ];
        for (content, reason, text, finish) in table {
            let body = json!({ "type": "message", "content": content, "stop_reason": reason,
                "usage": { "input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 2 } });
            let parsed = Anthropic.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), (text, finish), "{body}");
            assert_eq!((parsed.used.input, parsed.used.cached, parsed.used.output), (10, 3, 2));
        }
    }

    #[test]
    fn the_tokens_of_answers_are_a_limit_of_their_own() {
        let limit = |name: &str, left: &str, whole: &str| {
            [("remaining", left), ("limit", whole), ("reset", "2025-11-16T12:00:30Z")].map(
                |(field, value)| {
                    let header = format!("anthropic-ratelimit-{name}-{field}");
                    (HeaderName::try_from(header).unwrap(), HeaderValue::try_from(value).unwrap())
                },
            )
        };
        let date = (reqwest::header::DATE, HeaderValue::from_static("Sun, 16 Nov 2025 12:00:00 GMT"));
        let limits = [
            limit("input-tokens", "400000", "500000"),
            limit("output-tokens", "2000", "80000"),
            limit("tokens", "402000", "580000"),
        ];
        let headers: HeaderMap = limits.into_iter().flatten().chain([date]).collect();
        let allowance = Anthropic.allowance(&headers);
        let left = |quota: Option<Quota>| quota.map(|quota| (quota.left, quota.limit));
        assert_eq!(left(allowance.tokens), Some((400_000, Some(500_000))));
        assert_eq!(left(allowance.output_tokens), Some((2000, Some(80_000))));
        assert_eq!(allowance.requests, None);
    }

    #[test]
    fn any_other_response_is_rejected() {
        for body in ["", "null", "[]", "{}", r#"{"content":null}"#, r#"{"content":[7]}"#, r#"{"choices":[]}"#]
        {
            assert!(Anthropic.parse(body.as_bytes()).is_none(), "{body}");
        }
    }
}
