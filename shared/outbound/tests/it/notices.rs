//! Notices by webhook and by e-mail, against servers on loopback.

use std::sync::Arc;

use everypage_core::{
    ids::TenantId,
    notify::webhook,
    ports::notifier::{Channel, Notice, NoticeKind, Notifier},
    secret::Secret,
    settings::Settings,
};
use everypage_outbound::notifiers;
use everypage_testkit::{canned_server::CannedServer, clock::VirtualClock};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    task::JoinHandle,
};

fn notice() -> Notice {
    Notice {
        id: "01HX".into(),
        tenant: TenantId::new("acme"),
        kind: NoticeKind::Approval,
        responsible: Some("Ann Smith <ann@example.org>".into()),
        subject: "A plan of 3.20 USD waits for approval: Übersicht.pdf".into(),
        body: "AI would read 40 pages.\nApprove it: everypage jobs approve j1".into(),
    }
}

/// The only channel of these variables.
fn channel(variables: &[(&str, &str)]) -> Arc<dyn Notifier> {
    let read = Settings::read(|name| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    });
    let settings = read.unwrap().settings;
    notifiers(&settings.notify, Arc::new(VirtualClock::default())).unwrap().remove(0)
}

#[tokio::test]
async fn a_webhook_is_signed_and_says_what_to_do() {
    let server = CannedServer::start("HTTP/1.1 204 No Content", "").await;
    let notifier = channel(&[("NOTIFY_URL", &server.url), ("NOTIFY_SECRET", "a secret of the receiver")]);
    assert_eq!(notifier.channel(), Channel::Webhook);
    notifier.notify(&notice()).await.unwrap();
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default().to_owned()
    };
    let time = header("webhook-timestamp").parse().unwrap();
    let secret = Secret::new("a secret of the receiver");
    assert_eq!(header("webhook-signature"), webhook::sign(&secret, &header("webhook-id"), time, body));
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["type"], &body["data"]["tenant"]), (&"notice.approval".into(), &"acme".into()));
    assert!(body["text"].as_str().unwrap().contains("everypage jobs approve j1"));
}

#[tokio::test]
async fn a_webhook_that_answers_an_error_is_a_fault_without_the_url() {
    let server = CannedServer::start("HTTP/1.1 500 Oops", "").await;
    let url = format!("{}/T0/secret-token", server.url);
    let notifier = channel(&[("NOTIFY_URL", &url), ("NOTIFY_SECRET", "s")]);
    let error = notifier.notify(&notice()).await.unwrap_err().to_string();
    assert!(error.contains("500") && !error.contains("secret-token"), "{error}");
}

/// A mail server for one message, on loopback; returns its address and the lines that it received.
async fn mail_server() -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let lines = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let (mut received, mut in_data) = (Vec::new(), false);
        writer.write_all(b"220 test ESMTP\r\n").await.unwrap();
        let mut lines = BufReader::new(reader).lines();
        while let Some(line) = lines.next_line().await.unwrap_or(None) {
            let answer: &[u8] = match line.split(' ').next().unwrap_or_default() {
                "." => {
                    in_data = false;
                    b"250 queued\r\n"
                }
                _ if in_data => b"",
                "EHLO" => b"250-test\r\n250 8BITMIME\r\n",
                "DATA" => {
                    in_data = true;
                    b"354 go ahead\r\n"
                }
                "QUIT" => b"221 bye\r\n",
                _ => b"250 ok\r\n",
            };
            received.push(line.clone());
            writer.write_all(answer).await.unwrap();
            if line == "QUIT" {
                break;
            }
        }
        received
    });
    (address, lines)
}

#[tokio::test]
async fn an_email_goes_to_the_responsible_person() {
    let (address, received) = mail_server().await;
    let server = format!("smtp://{address}");
    let notifier = channel(&[
        ("NOTIFY_SMTP_URL", &server),
        ("NOTIFY_FROM", "Everypage <everypage@example.org>"),
        ("DEFAULT_RESPONSIBLE", "ops@example.org"),
    ]);
    assert_eq!(notifier.channel(), Channel::Email);
    notifier.notify(&notice()).await.unwrap();
    drop(notifier);
    let received = received.await.unwrap().join("\n");
    for part in [
        "MAIL FROM:<everypage@example.org>",
        "RCPT TO:<ann@example.org>",
        "Message-ID: <01HX@everypage>",
        "Approve it: everypage jobs approve j1",
        "Tenant: acme",
    ] {
        assert!(received.contains(part), "{part} is missing in\n{received}");
    }
}

#[tokio::test]
async fn a_mail_server_that_is_gone_is_a_fault() {
    let notifier =
        channel(&[("NOTIFY_SMTP_URL", "smtp://127.0.0.1:9"), ("DEFAULT_RESPONSIBLE", "ops@example.org")]);
    assert!(notifier.notify(&notice()).await.is_err());
}
