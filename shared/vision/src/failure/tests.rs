use std::time::Duration;

use everypage_core::{ports::vision::PageRequest, providers::target::Provider};
use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;

const KEY: &str = "hunter2secret";

fn reply(status: u16, body: impl ToString) -> Reply {
    let headers = HeaderMap::from_iter([(reqwest::header::RETRY_AFTER, "7".parse().unwrap())]);
    Reply { status: StatusCode::from_u16(status).unwrap(), headers, body: body.to_string().into_bytes() }
}

fn with_call_to<T>(provider: Provider, model: &str, test: impl FnOnce(Call<'_>) -> T) -> T {
    let target = Target::new(provider, model);
    let page = PageRequest {
        system_prompt: "Transcribe the page.".into(),
        context_text: "The quarterly loss was 41 million.".into(),
        image: None,
        max_output_tokens: 10,
        temperature: None,
        service_tier: Default::default(),
    };
    test(Call { target: &target, page: &page, key: Some(KEY), max_output_tokens: 10 })
}

fn with_call<T>(test: impl FnOnce(Call<'_>) -> T) -> T {
    with_call_to(Provider::OpenAi, "gpt-5.1", test)
}

/// The name of the error class in the tables below.
fn class(error: &VisionError) -> &'static str {
    match error {
        VisionError::Transient { .. } => "transient",
        VisionError::Exhausted { .. } => "exhausted",
        VisionError::Configuration { scope: Scope::Provider, .. } => "provider",
        VisionError::Configuration { scope: Scope::Access, .. } => "access",
        VisionError::Configuration { scope: Scope::Model, .. } => "model",
        VisionError::Request { .. } => "request",
        VisionError::Unknown { .. } => "unknown",
    }
}

#[test]
fn every_status_has_its_class() {
    let table = [
        ("transient", &[408, 409, 500, 502, 503, 504, 520, 529][..]),
        ("exhausted", &[402, 429]),
        ("provider", &[401]),
        ("access", &[403]),
        ("model", &[404]),
        ("request", &[400, 413, 422]),
        ("unknown", &[301, 307, 405, 410, 418, 451]),
    ];
    for (expected, statuses) in table {
        for status in statuses {
            for body in ["", "<html>", "{}", r#"{"error":{"message":"no"}}"#] {
                let error = with_call(|call| call.failure(&reply(*status, body)));
                assert_eq!(class(&error), expected, "{status} {body}");
                assert!(error.to_string().starts_with(&format!("openai gpt-5.1: HTTP {status}")), "{error}");
            }
        }
    }
}

#[test]
fn the_body_can_change_the_class_of_the_status() {
    let table = [
        (429, json!({"error": {"code": "insufficient_quota"}}), "exhausted"),
        (403, json!({"error": {"type": "insufficient_quota"}}), "exhausted"),
        (400, json!({"error": {"code": "billing_hard_limit_reached"}}), "exhausted"),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API."}}),
            "exhausted",
        ),
        (
            402,
            json!({"type": "error", "error": {"type": "billing_error", "message": "Payment"}}),
            "exhausted",
        ),
        (504, json!({"type": "error", "error": {"type": "timeout_error", "message": "Late"}}), "transient"),
        (429, json!({"error": {"code": "resource_unavailable"}}), "exhausted"),
        (403, json!({"error": {"code": "model_not_found"}}), "model"),
        (400, json!({"error": {"code": "model_not_found"}}), "model"),
        (200, json!({"error": {"code": 429, "message": "upstream"}}), "exhausted"),
        (200, json!({"error": {"code": "401"}}), "provider"),
        (200, json!({"error": {"code": 7}}), "transient"),
        (200, json!({"error": "overloaded"}), "transient"),
        (200, json!({"id": "x"}), "transient"),
    ];
    for (status, body, expected) in table {
        let reply = reply(status, &body);
        let error = with_call(|call| match status {
            200 => call.not_an_answer(&reply),
            _ => call.failure(&reply),
        });
        assert_eq!(class(&error), expected, "{status} {body}");
        if let VisionError::Exhausted { retry_after, .. } = error {
            assert_eq!(retry_after, Some(Duration::from_secs(7)));
        }
    }
}

#[test]
fn the_detail_has_the_status_and_the_code_and_no_word_of_the_message() {
    let detail = |code: &str| {
        let message = "Slow down: The quarterly loss was 41 million.";
        let body = json!({"error": {"type": "requests", "code": code, "message": message}});
        with_call(|call| call.failure(&reply(429, body)).to_string())
    };
    assert_eq!(detail("rate_limit_exceeded"), "openai gpt-5.1: HTTP 429 rate_limit_exceeded");
    assert_eq!(detail(KEY), "openai gpt-5.1: HTTP 429 [key]");
    for hostile in ["The quarterly loss", "\u{1b}[2J", "a\u{202e}b", &"x".repeat(65)] {
        assert_eq!(detail(hostile), "openai gpt-5.1: HTTP 429", "{hostile:?}");
    }
}

#[test]
fn a_content_filter_that_answers_400_is_a_refusal() {
    let is_refusal =
        |status, body: serde_json::Value| with_call(|call| call.is_refusal(&reply(status, body)));
    let blocked = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "Output blocked by content filtering policy"}});
    assert!(is_refusal(400, blocked));
    assert!(is_refusal(400, json!({"error": {"code": "content_filter"}})));
    assert!(!is_refusal(400, json!({"error": {"code": "invalid_image"}})));
    assert!(!is_refusal(500, json!({"error": {"code": "content_filter"}})));
}

#[test]
fn errors_that_only_one_provider_has_are_understood() {
    let gemini_key = json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}});
    let gemini_place = json!({"error": {"code": 400, "message": "User location is not supported",
        "status": "FAILED_PRECONDITION"}});
    let gemini_image = json!({"error": {"code": 400, "message": "Unable to process input image",
        "status": "INVALID_ARGUMENT"}});
    let gemini_busy = json!([{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}]);
    let azure_name = json!({"error": {"code": "DeploymentNotFound", "message": "no such deployment"}});
    let mistral_name = json!({"object": "error", "message": "Invalid model: x", "type": "invalid_model",
        "param": null, "code": "1500"});
    let mistral_key = json!({"detail": "Unauthorized"});
    let bedrock = |status, kind: &'static str, message: &str| {
        let mut reply = reply(status, json!({ "message": message }));
        reply.headers.insert("x-amzn-errortype", format!("{kind}:http://x").parse().unwrap());
        with_call_to(Provider::Bedrock, "m", |call| call.failure(&reply))
    };
    for (status, kind, message, expected) in [
        (400, "ValidationException", "The provided model identifier is invalid.", "model"),
        (
            400,
            "ValidationException",
            "Invocation of model ID m with on-demand throughput isn't supported.",
            "model",
        ),
        (400, "ValidationException", "The image is not valid.", "request"),
        (400, "ServiceQuotaExceededException", "quota", "exhausted"),
        (403, "AccessDeniedException", "You don't have access to the model.", "model"),
        (403, "UnrecognizedClientException", "The security token is invalid.", "provider"),
        (424, "ModelErrorException", "oops", "transient"),
        (429, "ThrottlingException", "Too many tokens", "exhausted"),
        (429, "ModelNotReadyException", "not ready", "transient"),
    ] {
        let error = bedrock(status, kind, message);
        assert_eq!(class(&error), expected, "{error}");
        assert_eq!(error.to_string(), format!("bedrock m: HTTP {status} {kind}"));
    }
    let table = [
        (Provider::Gemini, 400, gemini_key, "provider", "HTTP 400 INVALID_ARGUMENT"),
        (Provider::Gemini, 400, gemini_place, "provider", "HTTP 400 FAILED_PRECONDITION"),
        (Provider::Gemini, 400, gemini_image, "request", "HTTP 400 INVALID_ARGUMENT"),
        (Provider::Gemini, 503, gemini_busy, "transient", "HTTP 503 UNAVAILABLE"),
        (Provider::Azure, 404, azure_name, "model", "HTTP 404 DeploymentNotFound"),
        (Provider::Mistral, 400, mistral_name, "model", "HTTP 400 1500"),
        (Provider::Mistral, 401, mistral_key, "provider", "HTTP 401"),
    ];
    for (provider, status, body, expected, detail) in table {
        let error = with_call_to(provider, "m", |call| call.failure(&reply(status, &body)));
        assert_eq!(class(&error), expected, "{body}");
        assert_eq!(error.to_string(), format!("{provider} m: {detail}"));
    }
}

#[test]
fn gemini_names_its_wait_in_the_body() {
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}});
    let mut reply = reply(429, body);
    let wait = |reply: &Reply| match with_call_to(Provider::Gemini, "m", |call| call.failure(reply)) {
        VisionError::Exhausted { retry_after, .. } => retry_after,
        error => panic!("{error}"),
    };
    assert_eq!(wait(&reply), Some(Duration::from_secs(7)), "a header is more explicit");
    reply.headers.clear();
    assert_eq!(wait(&reply), Some(Duration::from_millis(34_500)));
}

/// The errors of servers that speak OpenAI's API, as they are documented: docs.vllm.ai (serving,
/// `ErrorResponse`), docs.ollama.com/api/errors, lmstudio.ai/docs (OpenAI compatibility),
/// openrouter.ai/docs/api/reference/errors.
#[test]
fn compatible_servers_are_understood() {
    let table = [
        (
            "vllm",
            404,
            json!({"error": {"message": "The model `x` does not exist.", "type": "NotFoundError",
            "param": "model", "code": 404}}),
            "model",
        ),
        (
            "vllm",
            400,
            json!({"object": "error", "message": "At most 1 image(s) may be provided in one prompt.",
            "type": "BadRequestError", "param": null, "code": 400}),
            "request",
        ),
        ("vllm", 503, json!({"detail": "engine is dead"}), "transient"),
        (
            "ollama",
            404,
            json!({"error": {"message": "model \"x\" not found, try pulling it first",
            "type": "not_found_error", "param": null, "code": null}}),
            "model",
        ),
        (
            "ollama",
            500,
            json!({"error": {"message": "model requires more system memory", "type": "api_error"}}),
            "transient",
        ),
        (
            "ollama",
            503,
            json!({"error": "server busy, please try again. maximum pending requests exceeded"}),
            "transient",
        ),
        (
            "lm studio",
            404,
            json!({"error": {"message": "Model not found", "type": "invalid_request_error",
            "param": "model", "code": "model_not_found"}}),
            "model",
        ),
        (
            "lm studio",
            400,
            json!({"error": "Model does not support images. Please use a model that does."}),
            "request",
        ),
        ("openrouter", 402, json!({"error": {"code": 402, "message": "Insufficient credits"}}), "exhausted"),
        (
            "openrouter",
            429,
            json!({"error": {"code": 429, "message": "Rate limit exceeded",
            "metadata": {"headers": {"X-RateLimit-Remaining": "0"}}}}),
            "exhausted",
        ),
        (
            "openrouter",
            502,
            json!({"error": {"code": 502, "message": "Provider returned error",
            "metadata": {"provider_name": "x", "raw": "upstream"}}}),
            "transient",
        ),
        (
            "openrouter",
            401,
            json!({"error": {"code": 401, "message": "No auth credentials found"}}),
            "provider",
        ),
        (
            "openrouter",
            404,
            json!({"error": {"code": 404, "message": "No endpoints found that support image input"}}),
            "model",
        ),
        (
            "openrouter",
            200,
            json!({"choices": [{"message": {"content": ""}, "finish_reason": "error",
            "error": {"code": 502, "message": "upstream"}}]}),
            "transient",
        ),
    ];
    for (server, status, body, expected) in table {
        let reply = reply(status, &body);
        let error = with_call(|call| match status {
            200 if dialect(Provider::OpenAi).parse(&reply.body).is_some() => panic!("{body}"),
            200 => call.not_an_answer(&reply),
            _ => call.failure(&reply),
        });
        assert_eq!(class(&error), expected, "{server}: {body}");
    }
    let flagged = json!({"error": {"code": 403, "message": "openai/x requires moderation. Your input was flagged",
        "metadata": {"reasons": ["violence"], "flagged_input": "The quarterly loss…", "provider_name": "OpenAI"}}});
    assert!(with_call(|call| call.is_refusal(&reply(403, &flagged))), "another model may read the page");
}

/// Remaining calls and the time until the limit is full, as OpenAI announces them.
fn out_of_requests(kind: &str, with_limit: bool) -> Reply {
    let message = "Rate limit reached on tokens per min (TPM)";
    let mut reply =
        reply(429, json!({"error": {"type": kind, "code": "rate_limit_exceeded", "message": message}}));
    let limit = with_limit.then_some(("x-ratelimit-limit-requests", "60"));
    let left = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "60s")];
    reply.headers = limit
        .into_iter()
        .chain(left)
        .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    reply
}

#[test]
fn a_limit_of_known_size_is_not_waited_for_until_it_is_full() {
    let failed = |reply: &Reply| match with_call(|call| call.failure(reply)) {
        VisionError::Exhausted { retry_after, allowance, .. } => (retry_after, allowance),
        error => panic!("{error}"),
    };
    let (wait, allowance) = failed(&out_of_requests("requests", true));
    assert_eq!((wait, allowance.requests.and_then(|quota| quota.limit)), (None, Some(60)));
    assert_eq!(allowance.exceeded, Some(Exceeded::Requests));
    let (wait, allowance) = failed(&out_of_requests("tokens", false));
    assert_eq!((wait, allowance.exceeded), (Some(Duration::from_secs(60)), Some(Exceeded::Tokens)));
    // Where there is no type, the message tells.
    assert_eq!(failed(&out_of_requests("rate_limit_error", false)).1.exceeded, Some(Exceeded::Tokens));
    let mut asked = out_of_requests("requests", true);
    asked.headers.insert("retry-after", "3".parse().unwrap());
    assert_eq!(failed(&asked).0, Some(Duration::from_secs(3)));
}
