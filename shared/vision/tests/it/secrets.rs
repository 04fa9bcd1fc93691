//! API keys: when they are required, and that they are never shown.

use everypage_core::{
    ports::vision::{Scope, Vision, VisionError},
    secret::Secret,
};
use everypage_testkit::{
    canned_server::CannedServer,
    provider::{Script, ScriptedProvider},
};
use everypage_vision::{HttpVision, VisionSettings};

use crate::support::{KEY, page, settings, soon, targets};

fn with_key(mut settings: VisionSettings, key: Option<&str>) -> HttpVision {
    for access in settings.access.values_mut() {
        access.api_key = key.map(Secret::new);
    }
    HttpVision::new(settings).unwrap()
}

#[tokio::test]
async fn without_a_key_no_provider_is_called() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let [openai, anthropic] = targets();
    for key in [None, Some(""), Some(" \n")] {
        let official = with_key(settings("https://api.openai.com/v1/", &provider.anthropic_base_url()), key);
        for target in [&openai, &anthropic] {
            let error = soon(official.read_page(target, &page(1))).await.err().unwrap();
            assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("{} {}: no API key is set", target.provider, target.model));
        }
    }
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn a_compatible_server_may_need_no_key() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let local = with_key(settings(&provider.openai_base_url(), &provider.anthropic_base_url()), None);
    assert!(soon(local.read_page(&targets()[0], &page(1))).await.is_ok());
    assert!(!provider.calls()[0].with_key);
}

#[tokio::test]
async fn a_key_that_is_no_valid_header_is_a_configuration_error() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let urls = settings(&provider.openai_base_url(), &provider.anthropic_base_url());
    let adapter = with_key(urls, Some("hunter2\nsecret"));
    for target in targets() {
        let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
        assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    let bodies = [
        r#"{"error":{"message":"bad key: {authorization}{x-api-key}","type":"{x-api-key}{authorization}","code":null}}"#,
        r#"{"error":"bad key: {authorization}{x-api-key}"}"#,
        "<p>{authorization}{x-api-key}</p>",
    ];
    for body in bodies {
        for head in
            ["HTTP/1.1 401 Unauthorized", "HTTP/1.1 500 Oops", "HTTP/1.1 200 OK", "HTTP/1.1 418 Teapot"]
        {
            let server = CannedServer::start(head, body).await;
            let adapter = HttpVision::new(settings(&server.url, &server.url)).unwrap();
            for target in targets() {
                let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
                assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
            }
            assert!(server.requests().iter().all(|request| request.contains(KEY)), "the key was never sent");
        }
    }
}

#[test]
fn debug_output_has_no_key() {
    let settings = settings("http://127.0.0.1:1/v1", "http://127.0.0.1:1");
    let shown = format!("{settings:?} {:#?}", HttpVision::new(settings.clone()).unwrap());
    assert!(shown.contains("127.0.0.1") && !shown.contains(KEY), "{shown}");
}
