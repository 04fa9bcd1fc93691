//! No HTTP client of the program uses a proxy that its environment names: it would see every key and document.

use std::{process::Stdio, sync::Arc};

use everypage_core::{
    ids::TenantId,
    money::MicroUsd,
    ports::{
        hooks::{Hooks, WebhookRequest},
        notifier::{Notice, NoticeKind, Notifier},
        payments::{Charge, Payments},
        traces::Traces,
        vision::{PageRequest, ServiceTier, Vision},
    },
    settings::Settings,
    trace::{Span, SpanKind, TraceContext},
};
use everypage_local::LogNotifier;
use everypage_outbound::{HttpPayments, HttpWebhooks, OtlpLogs, OtlpTraces, notifiers};
use everypage_system::SystemClock;
use everypage_testkit::canned_server::CannedServer;
use everypage_vision::HttpVision;
use jiff::Timestamp;
use tokio::process::Command;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

const RECEIVER: &str = "EVERYPAGE_TEST_RECEIVER";

/// One path per client.
const PATHS: [&str; 6] = ["/vision", "/payments", "/webhook", "/notice", "/otlp/v1/traces", "/otlp/v1/logs"];

#[tokio::test]
async fn no_client_uses_a_proxy_of_the_environment() {
    let receiver = CannedServer::start("HTTP/1.1 200 OK", "{}").await;
    let proxy = CannedServer::start("HTTP/1.1 200 OK", "{}").await;
    // Proxies are read from the environment, which a test must not change: a process of its own has it.
    let mut calls = Command::new(std::env::current_exe().unwrap());
    calls.args(["--ignored", "--exact", "proxies::call_with_every_client"]).env_clear();
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        calls.env(name, &proxy.url);
    }
    let ended = calls.env(RECEIVER, &receiver.url).stdin(Stdio::null()).output().await.unwrap();
    let output = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && output.contains("1 passed"), "{output}");
    let requests = receiver.requests();
    for path in PATHS {
        assert!(
            requests.iter().any(|request| request.starts_with(&format!("POST {path}"))),
            "{path} not called"
        );
    }
    assert_eq!(proxy.connections(), 0, "{:?}", proxy.requests());
}

#[tokio::test]
#[ignore = "the other test runs it, with proxies in its environment"]
#[expect(clippy::disallowed_methods, reason = "the address of the test that started this process")]
async fn call_with_every_client() {
    let receiver = std::env::var(RECEIVER).unwrap();
    let [vision, payments, webhook, notice, ..] = PATHS.map(|path| format!("{receiver}{path}"));
    let otlp = format!("{receiver}/otlp");
    let settings = Settings::read(|name| match name {
        "OPENAI_BASE_URL" => Some(vision.clone()),
        "OPENAI_API_KEY" | "PAYMENT_API_KEY" | "NOTIFY_SECRET" => Some("a key of the test".to_owned()),
        "PAYMENT_URL" => Some(payments.clone()),
        "CREDIT_PRICE_USD" => Some("0.05".to_owned()),
        "NOTIFY_URL" => Some(notice.clone()),
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(otlp.clone()),
        "OTEL_LOGS_EXPORTER" => Some("otlp".to_owned()),
        _ => None,
    });
    let settings = settings.unwrap().settings;
    // What the receiver answers is nothing that any of them expects: it is enough that it is asked.
    let page = PageRequest {
        system_prompt: "p".into(),
        context_text: "c".into(),
        image: None,
        max_output_tokens: 10,
        temperature: None,
        service_tier: ServiceTier::Standard,
    };
    let target = "openai:gpt-test".parse().unwrap();
    let _ = HttpVision::from_settings(&settings).unwrap().read_page(&target, &page).await;
    let charge = Charge {
        key: "k".into(),
        tenant: TenantId::new("acme"),
        credits: 1,
        amount: MicroUsd(1),
        method: None,
    };
    let _ = HttpPayments::from_settings(&settings).unwrap().charge(&charge).await;
    let message = WebhookRequest { url: webhook, headers: vec![], body: "{}".into() };
    HttpWebhooks::new(true).unwrap().post(&message).await.unwrap();
    let notice = Notice {
        id: "n".into(),
        tenant: TenantId::new("acme"),
        kind: NoticeKind::Approval,
        responsible: None,
        subject: "s".into(),
        body: "b".into(),
    };
    let channels = notifiers(&settings.notify, Arc::new(SystemClock)).unwrap();
    channels[0].notify(&notice).await.unwrap();
    let traces = OtlpTraces::from_settings(&settings, "test").unwrap().unwrap();
    traces.record(Span {
        context: TraceContext { trace: 1, span: 1, sampled: true },
        parent: None,
        name: "test",
        kind: SpanKind::Internal,
        start: Timestamp::UNIX_EPOCH,
        end: Timestamp::UNIX_EPOCH,
        attributes: vec![],
        error: None,
    });
    traces.flush().await;
    let logs = OtlpLogs::from_settings(&settings, "test").unwrap().unwrap();
    let log = tracing_subscriber::registry().with(logs.clone()).set_default();
    LogNotifier.notify(&notice).await.unwrap();
    drop(log);
    logs.flush().await;
}
