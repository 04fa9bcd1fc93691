//! Keys: needed or not, and never shown.

use everypage_core::{
    domain::secret::Secret,
    ports::vision::{Scope, Vision, VisionError},
};
use everypage_providers::{Providers, Settings};
use everypage_testkit::provider::{Script, ScriptedProvider};

use crate::{
    canned::Canned,
    support::{KEY, page, settings, soon, targets},
};

fn without_keys(mut settings: Settings, key: Option<&str>) -> Providers {
    settings.openai.api_key = key.map(Secret::new);
    settings.anthropic.api_key = key.map(Secret::new);
    Providers::new(settings).unwrap()
}

#[tokio::test]
async fn without_a_key_nobody_is_asked() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let [openai, anthropic] = targets();
    for key in [None, Some(""), Some(" \n")] {
        let official =
            without_keys(settings("https://api.openai.com/v1/", &provider.anthropic_base_url()), key);
        for target in [&openai, &anthropic] {
            let error = soon(official.read_page(target, &page(1))).await.err().unwrap();
            assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("{} {}: no API key is set", target.provider, target.model));
        }
    }
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn an_openai_like_server_may_have_no_keys() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let local = without_keys(settings(&provider.openai_base_url(), &provider.anthropic_base_url()), None);
    assert!(soon(local.read_page(&targets()[0], &page(1))).await.is_ok());
    assert!(!provider.calls()[0].with_key);
}

#[tokio::test]
async fn a_key_that_no_header_can_hold_is_a_configuration_error() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let urls = settings(&provider.openai_base_url(), &provider.anthropic_base_url());
    let adapter = without_keys(urls, Some("hunter2\nsecret"));
    for target in targets() {
        let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
        assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn a_server_that_repeats_the_key_is_not_repeated() {
    let bodies = [
        r#"{"error":{"message":"bad key: {authorization}{x-api-key}","type":"{x-api-key}{authorization}","code":null}}"#,
        r#"{"error":"bad key: {authorization}{x-api-key}"}"#,
        "<p>{authorization}{x-api-key}</p>",
    ];
    for body in bodies {
        for head in
            ["HTTP/1.1 401 Unauthorized", "HTTP/1.1 500 Oops", "HTTP/1.1 200 OK", "HTTP/1.1 418 Teapot"]
        {
            let server = Canned::start(head, body).await;
            let adapter = Providers::new(settings(&server.url, &server.url)).unwrap();
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
    let shown = format!("{settings:?} {:#?}", Providers::new(settings.clone()).unwrap());
    assert!(shown.contains("127.0.0.1") && !shown.contains(KEY), "{shown}");
}
