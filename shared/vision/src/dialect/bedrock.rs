//! Amazon Bedrock's Converse API, for the models of several companies.
//!
//! Documented at docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html with its errors,
//! inference profiles at .../userguide/inference-profiles-support.html. Requests are signed for the service
//! `bedrock` (SigV4), or carry a Bedrock API key (.../userguide/api-keys.html). There are no rate-limit
//! headers.

use async_trait::async_trait;
use everypage_core::ports::{
    signer::Signable,
    vision::{Finish, VisionError},
};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{
    Call, Completion, Dialect, Request, Used,
    image::Base64,
    tuning::{ClaudeFields, ClaudeTuning, is_worth_caching},
};
use crate::{
    failure::{ErrorBody, Meaning},
    settings::{Endpoint, path_segment},
};

const SERVICE: &str = "bedrock";

pub(super) struct Bedrock;

#[async_trait]
impl Dialect for Bedrock {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let signer = endpoint.signer.as_deref();
        let region = endpoint.region.as_deref().or_else(|| signer.and_then(|signer| signer.region()));
        let no_region = || call.misconfigured("no AWS region is set (BEDROCK_REGION or AWS_REGION)");
        let path = format!("/model/{}/converse", path_segment(&call.target.model));
        let url = match (endpoint.has_base_url(), region) {
            (true, _) => endpoint.url(call, &path)?,
            (false, Some(region)) => format!("https://bedrock-runtime.{region}.amazonaws.com{path}"),
            (false, None) => return Err(no_region()),
        };
        let body = call.json(&body(call))?;
        if let Some(key) = call.bearer()? {
            return Ok(Request { url, headers: vec![(AUTHORIZATION, key)], body });
        }
        let Some(signer) = signer else {
            let what = "there are no AWS credentials: this program was built without AWS (set BEDROCK_API_KEY, or \
                        build with --features aws)";
            return Err(call.misconfigured(what));
        };
        let region = region.ok_or_else(no_region)?;
        let signable = Signable { service: SERVICE, region, url: &url, body: &body };
        let signed = signer.sign(signable).await.map_err(|reason| call.misconfigured(&reason))?;
        let headers = signed.into_iter().filter_map(|(name, value)| {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        });
        let headers = headers.collect();
        Ok(Request { url, headers, body })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let finish = match response.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("content_filtered" | "guardrail_intervened" | "refusal") => Finish::Refusal,
            // end_turn, stop_sequence, and values that are added later.
            _ => Finish::Complete,
        };
        let usage = response.usage.unwrap_or_default();
        let (read, written) = (usage.cache_read_input_tokens, usage.cache_write_input_tokens);
        let used = Used {
            input: usage.input_tokens.saturating_add(read).saturating_add(written),
            cached: read,
            cache_written: written,
            output: usage.output_tokens,
            pages: 0,
            is_flex: response.service_tier.is_none_or(|tier| tier.kind == "flex"),
        };
        // Blocks of another kind, such as reasoning, have no text.
        let text = response.output.message.content.into_iter().filter_map(|block| block.text).collect();
        Some(Completion { text, finish, used })
    }

    fn meaning(&self, error: &ErrorBody) -> Option<Meaning> {
        let is_model = ["model identifier is invalid", "on-demand throughput", "end of its life"];
        match error.kind.as_deref()? {
            "ValidationException" if is_model.iter().any(|phrase| error.mentions(phrase)) => {
                Some(Meaning::UnknownModel)
            }
            // Access is granted model by model; a bad signature or token has names of its own.
            "AccessDeniedException" => Some(Meaning::UnknownModel),
            "UnrecognizedClientException" | "InvalidSignatureException" => Some(Meaning::BadAccess),
            "ServiceQuotaExceededException" => Some(Meaning::Exhausted),
            "ModelErrorException" | "ModelNotReadyException" => Some(Meaning::Transient),
            _ => None,
        }
    }
}

fn body(call: Call<'_>) -> Body<'_> {
    let page = call.page;
    let model = &call.target.model;
    let image = page.image.as_ref().map(|image| {
        let format = image.format.mime().trim_start_matches("image/");
        Block::Image(Image { format, source: Source { bytes: Base64(image) } })
    });
    let text = Some(page.context_text.as_str()).filter(|text| !text.trim().is_empty()).map(Block::Text);
    let system = Some(page.system_prompt.as_str()).filter(|prompt| !prompt.is_empty());
    let has_cache = model.contains("anthropic.claude-") || model.contains("amazon.nova-");
    let is_cached = has_cache && is_worth_caching(&page.system_prompt);
    let cache_point = is_cached.then_some(Block::CachePoint(CachePoint { kind: "default" }));
    let tuning = match model.split_once("claude-") {
        Some((_, name)) => ClaudeTuning::of(name, page.temperature),
        None => ClaudeTuning {
            fields: ClaudeFields::default(),
            temperature: Some(page.temperature.unwrap_or(0.0)),
        },
    };
    Body {
        system: system.map(Block::Text).into_iter().chain(cache_point).collect(),
        messages: [Message { role: "user", content: image.into_iter().chain(text).collect() }],
        inference_config: InferenceConfig {
            max_tokens: call.max_output_tokens,
            temperature: tuning.temperature,
        },
        additional_model_request_fields: tuning.fields,
        service_tier: call.is_flex().then_some(WantedTier { kind: "flex" }),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: [Message<'a>; 1],
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "ClaudeFields::is_empty")]
    additional_model_request_fields: ClaudeFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<WantedTier>,
}

#[derive(Serialize)]
struct WantedTier {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Block<'a> {
    Text(&'a str),
    Image(Image<'a>),
    /// What comes before it is cached.
    CachePoint(CachePoint),
}

#[derive(Serialize)]
struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Image<'a> {
    format: &'static str,
    source: Source<'a>,
}

#[derive(Serialize)]
struct Source<'a> {
    bytes: Base64<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    output: Output,
    stop_reason: Option<String>,
    service_tier: Option<ServedTier>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct ServedTier {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Output {
    message: ResponseMessage,
}

#[derive(Deserialize)]
struct ResponseMessage {
    content: Vec<ResponseBlock>,
}

#[derive(Deserialize)]
struct ResponseBlock {
    text: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::vision::{PageRequest, ServiceTier};
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect_tests::{page, with_call};

    fn sent(model: &str) -> Value {
        with_call("bedrock", model, &page(true, "Page 1 of 2"), |call| {
            serde_json::to_value(body(call)).unwrap()
        })
    }

    #[test]
    fn the_request_is_what_the_api_documents() {
        assert_eq!(
            sent("global.anthropic.claude-sonnet-4-6"),
            json!({
                "system": [{ "text": "be exact" }],
                "messages": [{ "role": "user", "content": [
                    { "image": { "format": "jpeg", "source": { "bytes": "/9j/" } } },
                    { "text": "Page 1 of 2" },
                ] }],
                "inferenceConfig": { "maxTokens": 77, "temperature": 0.0 },
            })
        );
        let thinking = sent("us.anthropic.claude-sonnet-5");
        assert_eq!(thinking["inferenceConfig"], json!({ "maxTokens": 77 }));
        assert_eq!(thinking["additionalModelRequestFields"], json!({ "thinking": { "type": "disabled" } }));
        let always = sent("global.anthropic.claude-opus-5-5");
        assert_eq!(always["additionalModelRequestFields"], json!({ "output_config": { "effort": "low" } }));
        let cheap = PageRequest { service_tier: ServiceTier::Flex, ..page(true, "") };
        let cheap =
            with_call("bedrock", "amazon.nova-pro-v1:0", &cheap, |call| serde_json::to_value(body(call)));
        assert_eq!(cheap.unwrap()["serviceTier"], json!({ "type": "flex" }));
        let long = PageRequest { system_prompt: "x".repeat(5000), ..page(true, "") };
        let cached =
            with_call("bedrock", "amazon.nova-pro-v1:0", &long, |call| serde_json::to_value(body(call)));
        assert_eq!(cached.unwrap()["system"][1], json!({ "cachePoint": { "type": "default" } }));
        assert_eq!(sent("amazon.nova-2-lite-v1:0")["inferenceConfig"]["temperature"], 0.0);
    }

    #[test]
    fn responses_of_every_shape_are_parsed() {
        let table = [
            ("end_turn", json!([{ "text": "hi" }]), "hi", Finish::Complete),
            ("max_tokens", json!([{ "text": "hi" }]), "hi", Finish::Length),
            ("content_filtered", json!([]), "", Finish::Refusal),
            ("guardrail_intervened", json!([{ "text": "no" }]), "no", Finish::Refusal),
            (
                "end_turn",
                json!([{ "reasoningContent": { "reasoningText": { "text": "hm" } } }, { "text": "a" }, { "text": "b" }]),
                "ab",
                Finish::Complete,
            ),
        ];
        for (reason, content, text, finish) in table {
            let body = json!({ "output": { "message": { "role": "assistant", "content": content } },
                "stopReason": reason, "usage": { "inputTokens": 7, "outputTokens": 2, "totalTokens": 12,
                "cacheReadInputTokens": 3 }, "metrics": { "latencyMs": 5 } });
            let parsed = Bedrock.parse(body.to_string().as_bytes()).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.finish), (text, finish), "{body}");
            assert_eq!((parsed.used.input, parsed.used.cached, parsed.used.output), (10, 3, 2));
        }
        for body in ["", "null", "{}", r#"{"output":{}}"#, r#"{"output":{"message":{}}}"#] {
            assert!(Bedrock.parse(body.as_bytes()).is_none(), "{body}");
        }
    }
}
