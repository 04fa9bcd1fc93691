//! The request as it is on the wire, and what the connection does.

use everypage_core::ports::vision::{Vision, VisionError};
use everypage_providers::Providers;
use serde_json::Value;

use crate::{
    canned::{Canned, header},
    support::{KEY, page, settings, soon, targets},
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
/// Both vendors' answers at once.
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"content":"hi"}"#;

#[tokio::test]
async fn each_vendor_gets_its_path_headers_and_limit() {
    let server = Canned::start(OK, ANSWER).await;
    let with_slashes = format!("{}/", server.url);
    let adapter = Providers::new(settings(&format!("{}/v1/", server.url), &with_slashes)).unwrap();
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
async fn one_connection_serves_call_after_call() {
    let server = Canned::start(OK, ANSWER).await;
    let adapter = Providers::new(settings(&server.url, &server.url)).unwrap();
    for number in 1..=5 {
        soon(adapter.read_page(&targets()[0], &page(number))).await.ok().unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Canned::start("HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere", "").await;
    let adapter = Providers::new(settings(&server.url, &server.url)).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Unknown { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_announced_length_over_the_limit_is_not_even_read() {
    let server = Canned::start("HTTP/1.1 200 OK\r\nx-pad: 1", ANSWER).await;
    let mut settings = settings(&server.url, &server.url);
    settings.max_response_bytes = ANSWER.len() - 1;
    let adapter = Providers::new(settings).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(
        matches!(&error, VisionError::Transient { detail } if detail.contains("over the limit")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_failed_status_counts_even_when_its_body_is_broken() {
    let server =
        Canned::start("HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ntransfer-encoding: chunked", "zz")
            .await;
    let adapter = Providers::new(settings(&server.url, &server.url)).unwrap();
    let error = soon(adapter.read_page(&targets()[0], &page(1))).await.err().unwrap();
    assert!(matches!(error, VisionError::Exhausted { retry_after: Some(_), .. }), "{error:?}");
}
