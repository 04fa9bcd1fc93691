//! The log as OTLP, to a collector on loopback.

use std::time::Duration;

use everypage_core::settings::Settings;
use everypage_outbound::OtlpLogs;
use everypage_testkit::canned_server::CannedServer;
use tracing::{error_span, info, warn};
use tracing_subscriber::{filter::Targets, prelude::*};

/// As bytes of a message they are readable.
const TRACE: &str = "41414141414141414141414141414141";

fn logs(variables: &[(&str, &str)]) -> Option<OtlpLogs> {
    let read = Settings::read(|name| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    });
    OtlpLogs::from_settings(&read.unwrap().settings, "everypage-test").unwrap()
}

#[tokio::test]
async fn lines_of_the_log_reach_the_collector_with_their_trace_and_fields() {
    let server = CannedServer::start("HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf", "").await;
    let exported = logs(&[
        ("OTEL_LOGS_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20k"),
    ])
    .unwrap();
    let filter: Targets = "error,everypage=info".parse().unwrap();
    let log = tracing_subscriber::registry().with(filter).with(exported.clone());
    tracing::subscriber::with_default(log, || {
        let span = error_span!(target: "everypage::test", "page", job = "the-job", trace = TRACE);
        let entered = span.enter();
        warn!(target: "everypage::test", attempt = 3, reason = "no answer\u{1b}[2J\u{202e}", "it did not work");
        // Below the level, and of the client that sends the log.
        tracing::debug!(target: "everypage::test", "too quiet");
        tracing::error!(target: "reqwest::connect", "about the sending");
        drop(entered);
        info!(target: "everypage::test", "without a trace");
    });
    exported.flush().await;
    let arrived = async {
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), arrived).await.unwrap();
    let request = server.requests().concat();
    assert!(request.starts_with("POST /v1/logs "), "{request}");
    assert!(request.to_ascii_lowercase().contains("authorization: bearer k"), "{request}");
    for part in [
        "it did not work",
        "WARN",
        "no answer\u{fffd}[2J",
        "the-job",
        "everypage-test",
        "AAAAAAAAAAAAAAAA",
        "without a trace",
    ] {
        assert!(request.contains(part), "{part} is missing: {request}");
    }
    for part in ["too quiet", "about the sending", "\u{1b}[2J", "\u{202e}"] {
        assert!(!request.contains(part), "{part}: {request}");
    }
}

#[test]
fn nothing_is_exported_unless_it_is_asked_for() {
    assert!(logs(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")]).is_none());
    let faults =
        Settings::read(|name| (name == "OTEL_LOGS_EXPORTER").then(|| "otlp".to_owned())).unwrap_err();
    assert!(faults.iter().any(|fault| fault.contains("OTEL_EXPORTER_OTLP_ENDPOINT")), "{faults:?}");
}
