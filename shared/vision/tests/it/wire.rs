//! The request on the wire, and the use of connections.

use everypage_core::{
    ports::vision::{PageRequest, Vision, VisionError},
    providers::target::{Provider, Target},
};
use everypage_testkit::canned_server::{CannedServer, header};
use everypage_vision::HttpVision;
use serde_json::Value;

use crate::support::{KEY, page, settings, soon, targets};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
/// A valid response of every dialect.
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"content":"hi",
    "output":{"message":{"content":[{"text":"hi"}]}},"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"pages":[{"markdown":"hi"}]}"#;

#[tokio::test]
async fn each_provider_gets_its_path_headers_and_limit() {
    let server = CannedServer::start(OK, ANSWER).await;
    let adapter = HttpVision::new(settings(|provider| match provider {
        Provider::OpenAi | Provider::Mistral => format!("{}/v1/", server.url),
        Provider::Gemini => format!("{}/v1beta/", server.url),
        Provider::Anthropic | Provider::Azure | Provider::Bedrock => format!("{}/", server.url),
    }));
    let adapter = adapter.unwrap();
    for target in targets() {
        assert_eq!(soon(adapter.read_page(&target, &page(1))).await.ok().unwrap().text, "hi");
    }
    let requests = server.requests();
    let body =
        |request: &str| serde_json::from_str::<Value>(request.split_once("\r\n\r\n").unwrap().1).unwrap();

    assert!(requests[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", requests[0]);
    assert_eq!(header(&requests[0], "authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(header(&requests[0], "content-type"), Some("application/json"));
    assert!(header(&requests[0], "user-agent").unwrap().starts_with("everypage/"));
    assert_eq!(body(&requests[0])["max_tokens"], 500);

    assert!(requests[1].starts_with("POST /v1/messages HTTP/1.1\r\n"), "{}", requests[1]);
    assert_eq!(header(&requests[1], "x-api-key"), Some(KEY));
    assert_eq!(header(&requests[1], "anthropic-version"), Some("2023-06-01"));
    assert_eq!(header(&requests[1], "authorization"), None);
    assert_eq!(body(&requests[1])["system"], "Transcribe the page as Markdown.");

    let gemini = "POST /v1beta/models/gemini-3.8-flash:generateContent HTTP/1.1\r\n";
    assert!(requests[2].starts_with(gemini), "{}", requests[2]);
    assert_eq!(header(&requests[2], "x-goog-api-key"), Some(KEY));
    assert_eq!(body(&requests[2])["generationConfig"]["maxOutputTokens"], 500);

    assert!(requests[3].starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n"), "{}", requests[3]);
    assert_eq!(header(&requests[3], "api-key"), Some(KEY));
    assert_eq!(header(&requests[3], "authorization"), None);
    assert_eq!(body(&requests[3])["model"], "gpt-4.1");

    assert!(requests[4].starts_with("POST /v1/ocr HTTP/1.1\r\n"), "{}", requests[4]);
    assert_eq!(header(&requests[4], "authorization"), Some(format!("Bearer {KEY}").as_str()));
    let bedrock = "POST /model/global.anthropic.claude-sonnet-4-6/converse HTTP/1.1\r\n";
    assert!(requests[5].starts_with(bedrock), "{}", requests[5]);
    assert_eq!(header(&requests[5], "authorization"), Some(format!("Bearer {KEY}").as_str()));

    let document = &body(&requests[4])["document"];
    assert_eq!(document["type"], "image_url");
    assert!(document["image_url"].as_str().unwrap().starts_with("data:image/jpeg;base64,"));
}

#[tokio::test]
async fn azure_with_an_api_version_has_the_deployment_in_the_path() {
    let server = CannedServer::start(OK, ANSWER).await;
    for path in ["", "/openai", "/openai/v1"] {
        let mut settings = settings(|_| format!("{}{path}", server.url));
        if let Some(access) = settings.access.get_mut(&Provider::Azure) {
            access.api_version = Some("2024-10-21".into());
        }
        let adapter = HttpVision::new(settings).unwrap();
        let deployment = Target::new(Provider::Azure, "our gpt");
        assert_eq!(soon(adapter.read_page(&deployment, &page(1))).await.ok().unwrap().text, "hi");
    }
    for request in server.requests() {
        let expected =
            "POST /openai/deployments/our%20gpt/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n";
        assert!(request.starts_with(expected), "{request}");
    }
}

#[tokio::test]
async fn no_request_asks_for_a_longer_answer_than_its_model_gives() {
    let server = CannedServer::start(OK, ANSWER).await;
    let adapter = HttpVision::new(settings(|_| server.url.clone())).unwrap();
    let long = PageRequest { max_output_tokens: 200_000, ..page(1) };
    for model in ["claude-haiku-4-5", "claude-of-tomorrow"] {
        soon(adapter.read_page(&Target::new(Provider::Anthropic, model), &long)).await.ok().unwrap();
    }
    let limits = server.requests().into_iter().map(|request| {
        serde_json::from_str::<Value>(request.split_once("\r\n\r\n").unwrap().1).unwrap()["max_tokens"]
            .clone()
    });
    assert_eq!(limits.collect::<Vec<_>>(), [64_000, 200_000]);
}

#[tokio::test]
async fn sequential_calls_share_one_connection() {
    let server = CannedServer::start(OK, ANSWER).await;
    let adapter = HttpVision::new(settings(|_| server.url.clone())).unwrap();
    for number in 1..=5 {
        soon(adapter.read_page(&targets()[0], &page(number))).await.ok().unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = CannedServer::start("HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere", "").await;
    let adapter = HttpVision::new(settings(|_| server.url.clone())).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Unknown { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_content_length_over_the_limit_fails_before_the_body_is_read() {
    let server = CannedServer::start("HTTP/1.1 200 OK\r\nx-pad: 1", ANSWER).await;
    let mut settings = settings(|_| server.url.clone());
    settings.max_response_bytes = ANSWER.len() - 1;
    let adapter = HttpVision::new(settings).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(
        matches!(&error, VisionError::Transient { detail, .. } if detail.contains("over the limit")),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_error_status_counts_even_when_its_body_is_broken() {
    let server = CannedServer::start(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ntransfer-encoding: chunked",
        "zz",
    )
    .await;
    let adapter = HttpVision::new(settings(|_| server.url.clone())).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Exhausted { retry_after: Some(_), .. }), "{error:?}");
}
