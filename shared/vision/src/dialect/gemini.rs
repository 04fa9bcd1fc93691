//! Google's Gemini API, `generateContent`.
//!
//! Requests, responses and finish reasons are documented at ai.google.dev/api/generate-content, thinking
//! levels at ai.google.dev/gemini-api/docs/generate-content/thinking, errors at
//! ai.google.dev/gemini-api/docs/troubleshooting and, for `details`, in google.rpc (`RetryInfo`,
//! `ErrorInfo`). There are no rate-limit headers: a refused call names its wait in the body.

use async_trait::async_trait;
use everypage_core::ports::vision::{Finish, VisionError};
use reqwest::header::HeaderName;
use serde::{Deserialize, Serialize};

use super::{Call, Completion, Dialect, Request, Used, image::Base64, tuning::version};
use crate::{
    failure::{ErrorBody, Meaning},
    settings::{Endpoint, path_segment},
};

pub(super) struct Gemini;

#[async_trait]
impl Dialect for Gemini {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let key = call.secret_header(call.key.unwrap_or_default())?;
        let headers = vec![(HeaderName::from_static("x-goog-api-key"), key)];
        let model = path_segment(&call.target.model);
        let url = endpoint.url(call, &format!("/models/{model}:generateContent"))?;
        Ok(Request { url, headers, body: call.json(&body(call))? })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let usage = response.usage_metadata.unwrap_or_default();
        let used = Used {
            input: usage.prompt_token_count,
            cached: usage.cached_content_token_count.min(usage.prompt_token_count),
            output: usage.candidates_token_count.saturating_add(usage.thoughts_token_count),
            // It may have been served in another tier than was requested.
            is_flex: usage.service_tier.is_none_or(|tier| tier.eq_ignore_ascii_case("flex")),
            ..Used::default()
        };
        let Some(candidate) = response.candidates.into_iter().next() else {
            // The filter blocked the page before the model saw it.
            response.prompt_feedback?.block_reason?;
            return Some(Completion { text: String::new(), finish: Finish::Refusal, used });
        };
        let finish = match candidate.finish_reason.as_deref() {
            Some("STOP" | "FINISH_REASON_UNSPECIFIED") | None => Finish::Complete,
            Some("MAX_TOKENS") => Finish::Length,
            // SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII, LANGUAGE, OTHER: the answer was
            // withheld, in whole or in part.
            Some(_) => Finish::Refusal,
        };
        let parts = candidate.content.map(|content| content.parts).unwrap_or_default();
        let text = parts.into_iter().filter(|part| !part.thought).filter_map(|part| part.text).collect();
        Some(Completion { text, finish, used })
    }

    fn meaning(&self, error: &ErrorBody) -> Option<Meaning> {
        match error.kind.as_deref() {
            // A wrong key is a 400.
            Some("INVALID_ARGUMENT") if error.has_reason("API_KEY_INVALID") => Some(Meaning::BadAccess),
            // No billing account, or a region in which the API is not offered.
            Some("FAILED_PRECONDITION") => Some(Meaning::BadAccess),
            _ => None,
        }
    }
}

fn body<'a>(call: Call<'a>) -> Body<'a> {
    let page = call.page;
    let part = |text: &'a str| Part::Text(text);
    let image = page
        .image
        .as_ref()
        .map(|image| Part::InlineData(InlineData { mime_type: image.format.mime(), data: Base64(image) }));
    let text = Some(page.context_text.as_str()).filter(|text| !text.trim().is_empty()).map(part);
    let system = Some(page.system_prompt.as_str()).filter(|prompt| !prompt.is_empty());
    Body {
        system_instruction: system.map(|prompt| Content { role: None, parts: vec![part(prompt)] }),
        contents: [Content { role: Some("user"), parts: image.into_iter().chain(text).collect() }],
        generation_config: GenerationConfig {
            max_output_tokens: call.max_output_tokens,
            media_resolution: page.image.is_some().then_some("MEDIA_RESOLUTION_HIGH"),
            ..generation_config(&call.target.model, page.temperature)
        },
        service_tier: call.is_flex().then_some("FLEX"),
    }
}

/// The lowest thinking that the model allows. Google advises against a temperature from Gemini 3 on.
fn generation_config(model: &str, temperature: Option<f32>) -> GenerationConfig {
    let level = |level| Some(ThinkingConfig::Level { thinking_level: level });
    let budget = |tokens| Some(ThinkingConfig::Budget { thinking_budget: tokens });
    let is_lite = model.contains("flash-lite");
    let is_flash = model.contains("flash");
    let (thinking_config, zero) = match version(model) {
        Some((2, 5)) if is_flash => (budget(0), Some(0.0)),
        Some((2, 5)) => (budget(128), Some(0.0)),
        Some((..=2, _)) => (None, Some(0.0)),
        Some((3, minor)) if is_lite || is_flash && minor < 7 => (level("minimal"), None),
        Some(_) => (level("low"), None),
        None => (None, None),
    };
    GenerationConfig {
        max_output_tokens: 0,
        temperature: temperature.or(zero),
        media_resolution: None,
        thinking_config,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: [Content<'a>; 1],
    generation_config: GenerationConfig,
    /// Not in camel case, as it is documented.
    #[serde(rename = "service_tier", skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Part<'a> {
    Text(&'a str),
    InlineData(InlineData<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'static str,
    data: Base64<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_resolution: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ThinkingConfig {
    Level { thinking_level: &'static str },
    Budget { thinking_budget: u32 },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<CandidateContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CandidateContent {
    #[serde(default)]
    parts: Vec<CandidatePart>,
}

#[derive(Deserialize)]
struct CandidatePart {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UsageMetadata {
    prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
    service_tier: Option<String>,
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::vision::{PageRequest, ServiceTier};
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect_tests::{page, with_call};

    fn sent(model: &str, image: bool, context: &str) -> Value {
        with_call("gemini", model, &page(image, context), |call| serde_json::to_value(body(call)).unwrap())
    }

    #[test]
    fn the_request_is_what_the_api_documents() {
        assert_eq!(
            sent("gemini-3.8-flash", true, "Page 1 of 2"),
            json!({
                "systemInstruction": { "parts": [{ "text": "be exact" }] },
                "contents": [{ "role": "user", "parts": [
                    { "inlineData": { "mimeType": "image/jpeg", "data": "/9j/" } },
                    { "text": "Page 1 of 2" },
                ] }],
                "generationConfig": {
                    "maxOutputTokens": 77,
                    "mediaResolution": "MEDIA_RESOLUTION_HIGH",
                    "thinkingConfig": { "thinkingLevel": "low" },
                },
            })
        );
        let text = sent("gemini-3.8-flash", false, "Page 1 of 2");
        assert_eq!(text["contents"][0]["parts"], json!([{ "text": "Page 1 of 2" }]));
        assert_eq!(text["generationConfig"].get("mediaResolution"), None);
    }

    #[test]
    fn a_cheap_call_asks_for_the_flex_tier() {
        let cheap = PageRequest { service_tier: ServiceTier::Flex, ..page(true, "Page 1 of 2") };
        let sent = with_call("gemini", "gemini-3.8-flash", &cheap, |call| serde_json::to_value(body(call)));
        assert_eq!(sent.unwrap()["service_tier"], "FLEX");
        for (served, is_flex) in [(json!("flex"), true), (json!("standard"), false), (json!(null), true)] {
            let body = json!({ "candidates": [{ "content": { "parts": [{ "text": "hi" }] } }],
                "usageMetadata": { "promptTokenCount": 3, "serviceTier": served } });
            assert_eq!(Gemini.parse(body.to_string().as_bytes()).unwrap().used.is_flex, is_flex, "{body}");
        }
    }

    #[test]
    fn each_model_thinks_as_little_as_it_can() {
        let table = [
            ("gemini-3.8-flash", json!({ "thinkingLevel": "low" }), None),
            ("gemini-3.6-flash", json!({ "thinkingLevel": "minimal" }), None),
            ("gemini-3.5-flash-lite", json!({ "thinkingLevel": "minimal" }), None),
            ("gemini-3.1-pro-preview", json!({ "thinkingLevel": "low" }), None),
            ("gemini-2.5-flash", json!({ "thinkingBudget": 0 }), Some(0.0)),
            ("gemini-2.5-pro", json!({ "thinkingBudget": 128 }), Some(0.0)),
            ("gemini-flash-latest", Value::Null, None),
        ];
        for (model, thinking, temperature) in table {
            let config = sent(model, true, "")["generationConfig"].clone();
            assert_eq!(config["thinkingConfig"], thinking, "{model}");
            assert_eq!(config["temperature"].as_f64(), temperature, "{model}");
        }
    }

    #[test]
    fn responses_of_every_shape_are_parsed() {
        let parts = |text: &str| json!({ "role": "model", "parts": [{ "text": text }] });
        let table = [
            (json!([{ "content": parts("hi"), "finishReason": "STOP" }]), "hi", Finish::Complete),
            (json!([{ "content": parts("hi") }]), "hi", Finish::Complete),
            (json!([{ "content": parts("hi"), "finishReason": "MAX_TOKENS" }]), "hi", Finish::Length),
            (json!([{ "finishReason": "SAFETY" }]), "", Finish::Refusal),
            (json!([{ "content": parts("half"), "finishReason": "RECITATION" }]), "half", Finish::Refusal),
            (json!([{ "content": { "role": "model" }, "finishReason": "STOP" }]), "", Finish::Complete),
            (
                json!([{ "content": { "parts": [{ "text": "hm", "thought": true }, { "text": "a" }, { "text": "b" }] },
                    "finishReason": "STOP" }]),
                "ab",
                Finish::Complete,
            ),
        ];
        for (candidates, text, finish) in table {
            let body = json!({ "candidates": candidates, "usageMetadata": { "promptTokenCount": 10,
                "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3 } });
            let parsed = Gemini.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), (text, finish), "{body}");
            assert_eq!((parsed.used.input, parsed.used.cached, parsed.used.output), (10, 4, 5));
        }
        let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } });
        let parsed = Gemini.parse(blocked.to_string().as_bytes()).unwrap();
        assert_eq!((parsed.text.as_str(), parsed.finish), ("", Finish::Refusal));
    }

    #[test]
    fn any_other_response_is_rejected() {
        for body in
            ["", "null", "[]", "{}", r#"{"candidates":[]}"#, r#"{"candidates":7}"#, r#"{"choices":[]}"#]
        {
            assert!(Gemini.parse(body.as_bytes()).is_none(), "{body}");
        }
    }
}
