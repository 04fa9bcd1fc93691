//! The request on the wire, and the use of connections.

use everypage_core::ports::vision::{Vision, VisionError};
use everypage_testkit::canned_server::{CannedServer, header};
use everypage_vision::HttpVision;
use serde_json::Value;

use crate::support::{KEY, page, settings, soon, targets};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
/// A valid response of both dialects.
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"content":"hi"}"#;

#[tokio::test]
async fn each_provider_gets_its_path_headers_and_limit() {
    let server = CannedServer::start(OK, ANSWER).await;
    let with_slashes = format!("{}/", server.url);
    let adapter = HttpVision::new(settings(&format!("{}/v1/", server.url), &with_slashes)).unwrap();
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
}

#[tokio::test]
async fn sequential_calls_share_one_connection() {
    let server = CannedServer::start(OK, ANSWER).await;
    let adapter = HttpVision::new(settings(&server.url, &server.url)).unwrap();
    for number in 1..=5 {
        soon(adapter.read_page(&targets()[0], &page(number))).await.ok().unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = CannedServer::start("HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere", "").await;
    let adapter = HttpVision::new(settings(&server.url, &server.url)).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Unknown { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_content_length_over_the_limit_fails_before_the_body_is_read() {
    let server = CannedServer::start("HTTP/1.1 200 OK\r\nx-pad: 1", ANSWER).await;
    let mut settings = settings(&server.url, &server.url);
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
    let adapter = HttpVision::new(settings(&server.url, &server.url)).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Exhausted { retry_after: Some(_), .. }), "{error:?}");
}
