//! Webhooks to a receiver on loopback.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use everypage_core::{
    notify::webhook,
    ports::hooks::{HookError, Hooks, WebhookRequest},
    secret::Secret,
};
use everypage_outbound::HttpWebhooks;
use everypage_testkit::canned_server::{CannedServer, header};
use hmac::{Hmac, Mac};
use sha2::Sha256;

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn call(url: &str) -> WebhookRequest {
    let (id, body) = ("msg_1", "{\"type\":\"job.success\"}");
    let secret = Secret::new(format!("whsec_{SECRET}"));
    WebhookRequest {
        url: format!("{url}/hook?x=1"),
        headers: vec![
            ("content-type", "application/json".into()),
            ("webhook-id", id.into()),
            ("webhook-timestamp", "7".into()),
            ("webhook-signature", webhook::sign(&secret, id, 7, body)),
        ],
        body: body.into(),
    }
}

#[tokio::test]
async fn a_message_arrives_unchanged_and_its_signature_is_valid() {
    let receiver = CannedServer::start("HTTP/1.1 204 No Content", "").await;
    HttpWebhooks::new(true).unwrap().post(&call(&receiver.url)).await.unwrap();
    let requests = receiver.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1"), "{head}");
    assert_eq!(body, "{\"type\":\"job.success\"}");
    for (name, value) in call("").headers {
        assert_eq!(header(head, name), Some(value.as_str()));
    }
    // What a receiver does, as Standard Webhooks has it.
    let signature = header(head, "webhook-signature").unwrap().strip_prefix("v1,").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64.decode(SECRET).unwrap()).unwrap();
    mac.update(format!("msg_1.7.{body}").as_bytes());
    mac.verify_slice(&BASE64.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn only_2xx_counts_as_delivered_and_redirects_are_not_followed() {
    let elsewhere = CannedServer::start("HTTP/1.1 200 OK", "").await;
    let moved: &'static str =
        Box::leak(format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}", elsewhere.url).into_boxed_str());
    for (head, status) in
        [(moved, "307"), ("HTTP/1.1 500 Internal Server Error", "500"), ("HTTP/1.1 410 Gone", "410")]
    {
        let receiver = CannedServer::start(head, "the receiver's secret").await;
        let error = HttpWebhooks::new(true).unwrap().post(&call(&receiver.url)).await.unwrap_err();
        assert!(matches!(&error, HookError::Failed(why) if why.contains(status)), "{error:?}");
        assert!(!error.to_string().contains("the receiver's secret"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn private_addresses_are_refused_by_number_and_by_name_unless_allowed() {
    let receiver = CannedServer::start("HTTP/1.1 200 OK", "").await;
    let hooks = HttpWebhooks::new(false).unwrap();
    let error = hooks.post(&call(&receiver.url)).await.unwrap_err();
    assert!(matches!(&error, HookError::Refused(why) if why.contains("WEBHOOK_ALLOW_PRIVATE")), "{error:?}");
    let by_name = receiver.url.replace("127.0.0.1", "localhost");
    let error = hooks.post(&call(&by_name)).await.unwrap_err();
    assert!(error.to_string().contains("private network"), "{error:?}");
    assert_eq!(receiver.connections(), 0);
    assert!(HttpWebhooks::new(true).unwrap().post(&call(&by_name)).await.is_ok());
}
