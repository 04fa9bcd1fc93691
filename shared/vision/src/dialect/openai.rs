//! OpenAI's chat completions API, which many other servers implement too.
//!
//! Documented at developers.openai.com/api/docs/api-reference/chat, rate-limit headers at
//! .../guides/rate-limits, errors at .../guides/error-codes, image detail at .../guides/images-vision.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::vision::{Allowance, Finish, Quota, RequestImage, VisionError};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::{Deserialize, Serialize};

use super::{
    Call, Completion, Dialect, Request, Used,
    completion::{Content, Tokens},
    image::DataUrl,
    tuning::OpenAiTuning,
};
use crate::{
    rate_limit::{header, number},
    settings::Endpoint,
};

pub(super) struct OpenAi;

/// Who serves the API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// OpenAI or Azure.
    OpenAi,
    /// Another one, which may know only the older and simpler parts of the API.
    Compatible,
}

#[async_trait]
impl Dialect for OpenAi {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let headers = call.bearer()?.map(|key| (AUTHORIZATION, key)).into_iter().collect();
        let server = if endpoint.is_custom() { Server::Compatible } else { Server::OpenAi };
        let body = call.json(&body(call, server))?;
        Ok(Request { url: endpoint.url(call, "/chat/completions")?, headers, body })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let Choice { message, finish_reason } = response.choices.into_iter().next()?;
        // OpenRouter reports an error of the server behind it so.
        if finish_reason.as_deref() == Some("error") {
            return None;
        }
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
        // It may have been served in another tier than was requested.
        let is_flex = response.service_tier.is_none_or(|tier| tier == "flex");
        let used = Used { is_flex, ..response.usage.unwrap_or_default().used() };
        Some(Completion { text, finish, used })
    }

    fn allowance(&self, headers: &HeaderMap) -> Allowance {
        Allowance {
            requests: quota(headers, "requests"),
            tokens: quota(headers, "tokens"),
            ..Allowance::default()
        }
    }

    fn rate_limit_reset(&self, headers: &HeaderMap) -> Option<Duration> {
        let quotas = ["requests", "tokens"].into_iter().filter_map(|limit| quota(headers, limit));
        quotas.filter(|quota| quota.left == 0).map(|quota| quota.resets_in).max()
    }
}

/// What is left of one limit, and when it is full again. Azure has -1 where it does not know.
fn quota(headers: &HeaderMap, limit: &str) -> Option<Quota> {
    let remaining = header(headers, &format!("x-ratelimit-remaining-{limit}"))?.parse::<f64>().ok()?;
    let reset = header(headers, &format!("x-ratelimit-reset-{limit}"))?;
    let resets_in = go_duration(reset).or_else(|| number(reset, 1.0))?;
    let whole = header(headers, &format!("x-ratelimit-limit-{limit}")).and_then(|value| value.parse().ok());
    (remaining >= 0.0).then_some(Quota { left: remaining as u64, limit: whole, resets_in })
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

/// Many compatible servers know only the older name of the output limit, which OpenAI's newer models
/// reject, and neither reasoning effort nor image detail.
pub(super) fn body(call: Call<'_>, server: Server) -> Body<'_> {
    let (model, page, limit) = (&call.target.model, call.page, call.max_output_tokens);
    let is_openai = server == Server::OpenAi;
    let user = match &page.image {
        None => MessageContent::Text(&page.context_text),
        Some(image) => MessageContent::Parts(parts(&page.context_text, image, is_openai)),
    };
    let system = Some(&page.system_prompt).filter(|prompt| !prompt.is_empty());
    let system = system.map(|prompt| Message { role: "system", content: MessageContent::Text(prompt) });
    let tuning = match server {
        Server::OpenAi => OpenAiTuning::of(model, page.temperature),
        Server::Compatible => {
            OpenAiTuning { reasoning_effort: None, temperature: Some(page.temperature.unwrap_or(0.0)) }
        }
    };
    Body {
        model,
        messages: system.into_iter().chain([Message { role: "user", content: user }]).collect(),
        max_tokens: (!is_openai).then_some(limit),
        max_completion_tokens: is_openai.then_some(limit),
        reasoning_effort: tuning.reasoning_effort,
        temperature: tuning.temperature,
        service_tier: call.is_flex().then_some("flex"),
    }
}

fn parts<'a>(context: &'a str, image: &'a RequestImage, is_openai: bool) -> Vec<Part<'a>> {
    let text = Some(context).filter(|text| !text.is_empty()).map(|text| Part::Text { text });
    let image =
        Part::ImageUrl { image_url: ImageUrl { url: DataUrl(image), detail: is_openai.then_some("high") } };
    text.into_iter().chain([image]).collect()
}

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
}

#[derive(Deserialize)]
struct Response {
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    service_tier: Option<String>,
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
    use everypage_core::ports::vision::{PageRequest, ServiceTier};
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect_tests::{page, with_call};

    fn sent(image: bool, server: Server) -> Value {
        let page = page(image, "Page 1 of 2");
        with_call("openai", "gpt-5.4", &page, |call| serde_json::to_value(body(call, server)).unwrap())
    }

    #[test]
    fn the_request_is_what_the_api_documents() {
        assert_eq!(
            sent(true, Server::OpenAi),
            json!({
                "model": "gpt-5.4",
                "messages": [
                    { "role": "system", "content": "be exact" },
                    { "role": "user", "content": [
                        { "type": "text", "text": "Page 1 of 2" },
                        { "type": "image_url",
                            "image_url": { "url": "data:image/jpeg;base64,/9j/", "detail": "high" } },
                    ] },
                ],
                "max_completion_tokens": 77,
                "reasoning_effort": "none",
                "temperature": 0.0,
            })
        );
    }

    #[test]
    fn a_compatible_server_gets_the_older_limit_and_nothing_that_it_may_not_know() {
        assert_eq!(
            sent(false, Server::Compatible),
            json!({
                "model": "gpt-5.4",
                "messages": [
                    { "role": "system", "content": "be exact" },
                    { "role": "user", "content": "Page 1 of 2" },
                ],
                "max_tokens": 77,
                "temperature": 0.0,
            })
        );
        let image = sent(true, Server::Compatible);
        assert_eq!(
            image["messages"][1]["content"][1]["image_url"],
            json!({ "url": "data:image/jpeg;base64,/9j/" })
        );
    }

    #[test]
    fn a_cheap_call_asks_for_the_flex_tier_and_costs_what_it_was_served_in() {
        let cheap = PageRequest { service_tier: ServiceTier::Flex, ..page(true, "Page 1 of 2") };
        let sent = with_call("openai", "gpt-5.4", &cheap, |call| {
            serde_json::to_value(body(call, Server::OpenAi)).unwrap()
        });
        assert_eq!(sent["service_tier"], "flex");
        for (served, is_flex) in [(json!("flex"), true), (json!("default"), false), (json!(null), true)] {
            let body = json!({ "choices": [{ "message": { "content": "hi" } }], "service_tier": served });
            assert_eq!(OpenAi.parse(body.to_string().as_bytes()).unwrap().used.is_flex, is_flex, "{body}");
        }
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
                "usage": { "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
                    "prompt_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 3 } } });
            let parsed = OpenAi.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), (text, finish), "{body}");
            assert_eq!((parsed.used.input, parsed.used.cached, parsed.used.output), (10, 4, 2));
            assert_eq!(parsed.used.cache_written, 3);
        }
    }

    /// Documented at docs.vllm.ai (openai_compatible_server), docs.ollama.com/api/openai-compatibility,
    /// lmstudio.ai/docs/api and openrouter.ai/docs/responses.
    #[test]
    fn the_answers_of_compatible_servers_are_parsed() {
        let usage = json!({ "prompt_tokens": 24, "completion_tokens": 5, "total_tokens": 29 });
        let table = [
            (
                "vllm",
                json!({ "index": 0, "message": { "role": "assistant", "content": "hi", "refusal": null,
                    "annotations": null, "audio": null, "function_call": null, "tool_calls": [],
                    "reasoning_content": null }, "logprobs": null, "finish_reason": "stop", "stop_reason": null }),
                json!({ "service_tier": null, "system_fingerprint": null, "prompt_logprobs": null,
                    "kv_transfer_params": null, "usage": { "prompt_tokens": 24, "completion_tokens": 5,
                    "total_tokens": 29, "prompt_tokens_details": null } }),
            ),
            (
                "ollama",
                json!({ "index": 0, "message": { "role": "assistant", "content": "hi" }, "finish_reason": "stop" }),
                json!({ "system_fingerprint": "fp_ollama", "usage": usage }),
            ),
            (
                "lm studio",
                json!({ "index": 0, "logprobs": null, "finish_reason": "stop",
                    "message": { "role": "assistant", "content": "hi" } }),
                json!({ "usage": usage, "stats": { "tokens_per_second": 51.4, "stop_reason": "eosFound" },
                    "model_info": { "arch": "qwen3vl", "format": "gguf" }, "runtime": { "name": "llama.cpp" } }),
            ),
            (
                "openrouter",
                json!({ "index": 0, "logprobs": null, "finish_reason": "stop", "native_finish_reason": "STOP",
                    "message": { "role": "assistant", "content": "hi", "refusal": null, "reasoning": null } }),
                json!({ "provider": "Google", "usage": { "prompt_tokens": 24, "completion_tokens": 5,
                    "total_tokens": 29, "cost": 0.0001, "is_byok": false, "prompt_tokens_details": {
                    "cached_tokens": 0, "cache_write_tokens": 0 }, "completion_tokens_details": { "reasoning_tokens": 0 } } }),
            ),
        ];
        for (server, choice, mut body) in table {
            body["id"] = json!("chatcmpl-923");
            body["object"] = json!("chat.completion");
            body["model"] = json!("qwen3-vl");
            body["choices"] = json!([choice]);
            let parsed = OpenAi.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), ("hi", Finish::Complete), "{server}");
            assert_eq!((parsed.used.input, parsed.used.cached, parsed.used.output), (24, 0, 5), "{server}");
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
