//! Webhooks to a real receiver.

use everypage_core::{
    domain::{secret::Secret, webhook},
    ports::hooks::{Call, HookError, Hooks},
};
use everypage_providers::HttpHooks;

use crate::canned::{Canned, header};

fn call(url: &str) -> Call {
    let (id, body) = ("msg_1", "{\"type\":\"job.success\"}");
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    Call {
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
async fn a_message_arrives_as_it_was_signed() {
    let receiver = Canned::start("HTTP/1.1 204 No Content", "").await;
    HttpHooks::new(true).unwrap().post(&call(&receiver.url)).await.unwrap();
    let requests = receiver.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1"), "{head}");
    assert_eq!(body, "{\"type\":\"job.success\"}");
    for (name, value) in call("").headers {
        assert_eq!(header(head, name), Some(value.as_str()));
    }
}

#[tokio::test]
async fn whatever_is_not_2xx_is_not_delivered_and_no_redirect_is_followed() {
    let elsewhere = Canned::start("HTTP/1.1 200 OK", "").await;
    let moved: &'static str =
        Box::leak(format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}", elsewhere.url).into_boxed_str());
    for (head, words) in
        [(moved, "307"), ("HTTP/1.1 500 Internal Server Error", "500"), ("HTTP/1.1 410 Gone", "410")]
    {
        let receiver = Canned::start(head, "secret of theirs").await;
        let error = HttpHooks::new(true).unwrap().post(&call(&receiver.url)).await.unwrap_err();
        assert!(matches!(&error, HookError::Failed(why) if why.contains(words)), "{error:?}");
        assert!(!error.to_string().contains("secret of theirs"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn this_machine_is_not_called_unless_that_is_allowed_by_number_or_by_name() {
    let receiver = Canned::start("HTTP/1.1 200 OK", "").await;
    let hooks = HttpHooks::new(false).unwrap();
    let error = hooks.post(&call(&receiver.url)).await.unwrap_err();
    assert!(matches!(&error, HookError::Refused(why) if why.contains("WEBHOOK_ALLOW_PRIVATE")), "{error:?}");
    let by_name = receiver.url.replace("127.0.0.1", "localhost");
    let error = hooks.post(&call(&by_name)).await.unwrap_err();
    assert!(error.to_string().contains("private network"), "{error:?}");
    assert_eq!(receiver.connections(), 0);
    assert!(HttpHooks::new(true).unwrap().post(&call(&by_name)).await.is_ok());
}
