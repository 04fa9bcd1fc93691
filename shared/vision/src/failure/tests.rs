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

fn with_call<T>(test: impl FnOnce(Call<'_>) -> T) -> T {
    let target = Target::new(Provider::OpenAi, "gpt-5.1");
    let page = PageRequest {
        system_prompt: "Transcribe the page.".into(),
        context_text: "The quarterly loss was 41 million.".into(),
        image: None,
        max_output_tokens: 10,
        temperature: None,
    };
    test(Call { target: &target, page: &page, key: Some(KEY) })
}

/// The name of the error class in the tables below.
fn class(error: &VisionError) -> &'static str {
    match error {
        VisionError::Transient { .. } => "transient",
        VisionError::Exhausted { .. } => "exhausted",
        VisionError::Configuration { scope: Scope::Provider, .. } => "provider",
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
        ("provider", &[401, 403]),
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
fn the_detail_has_the_code_and_the_message_but_no_secret() {
    let detail = |message: &str| {
        let body = json!({"error": {"type": "requests", "code": "rate_limit_exceeded", "message": message}});
        with_call(|call| call.failure(&reply(429, body)).to_string())
    };
    assert_eq!(detail("Slow down."), "openai gpt-5.1: HTTP 429 rate_limit_exceeded: Slow down.");
    assert_eq!(
        detail("Key hunter2secret is busy"),
        "openai gpt-5.1: HTTP 429 rate_limit_exceeded: Key [key] is busy"
    );
    let without_message = "openai gpt-5.1: HTTP 429 rate_limit_exceeded";
    assert_eq!(detail("bad text: The quarterly loss was 41 million."), without_message);
    assert!(detail(&"very ".repeat(10_000)).chars().count() < 300);
}

#[test]
fn a_content_filter_that_answers_400_is_a_refusal() {
    let blocked = json!({"type": "error", "error": {"type": "invalid_request_error",
        "message": "Output blocked by content filtering policy"}});
    assert!(is_refusal(&reply(400, blocked)));
    assert!(is_refusal(&reply(400, json!({"error": {"code": "content_filter"}}))));
    assert!(!is_refusal(&reply(400, json!({"error": {"code": "invalid_image"}}))));
    assert!(!is_refusal(&reply(500, json!({"error": {"code": "content_filter"}}))));
}
