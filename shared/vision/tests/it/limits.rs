//! Limits: the size of a response, and the calls in flight.

use std::sync::Arc;

use everypage_core::ports::vision::{Vision, VisionError};
use everypage_testkit::provider::{Behaviour, Outcome, Script, ScriptedProvider};
use everypage_vision::{HttpVision, VisionSettings};

use crate::support::{adapter, page, settings, soon, targets};

#[tokio::test]
async fn an_endless_response_is_cut_off_early() {
    let provider = ScriptedProvider::start(Behaviour::Huge { bytes: 1_000_000_000_000 }).await.unwrap();
    let settings = settings(|one| provider.base_url(one));
    let adapter = HttpVision::new(VisionSettings { max_response_bytes: 64 * 1024, ..settings }).unwrap();
    for target in targets() {
        let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
        assert!(
            matches!(&error, VisionError::Transient { detail, .. } if detail.contains("over the limit of 65536 bytes")),
            "{error}"
        );
    }
    soon(provider.until(|counts| counts.in_flight == 0)).await;
    for call in provider.calls() {
        assert_eq!(call.outcome, Outcome::Disconnected);
        // The bytes over the limit were in the buffers of the sockets.
        assert!(call.bytes_sent < 10_000_000, "{} bytes were sent", call.bytes_sent);
    }
}

#[tokio::test]
async fn calls_in_flight_are_counted_by_model() {
    let provider = ScriptedProvider::start(Behaviour::Hang).await.unwrap();
    let adapter = Arc::new(adapter(&provider));
    let mut calls = tokio::task::JoinSet::new();
    for number in 1..=5 {
        let adapter = Arc::clone(&adapter);
        let target = targets()[usize::from(number > 3)].clone();
        calls.spawn(async move { adapter.read_page(&target, &page(number)).await });
    }
    soon(provider.until(|counts| counts.in_flight == 5)).await;
    assert_eq!((provider.max_in_flight("gpt-5.1"), provider.max_in_flight("claude-haiku-4-5")), (3, 2));

    calls.shutdown().await;
    soon(provider.until(|counts| counts.in_flight == 0)).await;
    assert_eq!((provider.calls_to("gpt-5.1"), provider.calls_to("claude-haiku-4-5")), (3, 2));
    assert_eq!(provider.counts().disconnected, 5);
}

#[tokio::test]
async fn sequential_calls_are_never_in_flight_together() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    for number in 1..=50 {
        soon(adapter.read_page(&targets()[0], &page(number))).await.ok().unwrap();
    }
    assert_eq!((provider.calls_to("gpt-5.1"), provider.max_in_flight("gpt-5.1")), (50, 1));
}
