//! API keys: when they are required, and that they are never shown.

use everypage_core::{
    ports::vision::{Scope, Vision, VisionError},
    providers::target::{Provider, Target},
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
    for key in [None, Some(""), Some(" \n")] {
        let urls = settings(|one| match one {
            Provider::OpenAi => "https://api.openai.com/v1/".to_owned(),
            other => provider.base_url(other),
        });
        let official = with_key(urls, key);
        for target in targets() {
            let error = soon(official.read_page(&target, &page(1))).await.err().unwrap();
            assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
            if target.provider == Provider::Bedrock {
                assert!(
                    error.to_string().contains("no AWS region is set")
                        || error.to_string().contains("there are no AWS credentials"),
                    "{error}"
                );
                continue;
            }
            let (Target { provider, model }, variables) = (&target, target.provider.profile().variables);
            assert_eq!(error.to_string(), format!("{provider} {model}: {} is not set", variables.api_key));
        }
    }
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn azure_has_no_public_address() {
    let nothing = HttpVision::new(VisionSettings::new([])).unwrap();
    let error = soon(nothing.read_page(&Target::new(Provider::Azure, "d"), &page(1))).await.err().unwrap();
    let expected = "azure d: AZURE_OPENAI_API_KEY and AZURE_OPENAI_BASE_URL are not set";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_compatible_server_may_need_no_key() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let local = with_key(settings(|one| provider.base_url(one)), None);
    assert!(soon(local.read_page(&targets()[0], &page(1))).await.is_ok());
    assert!(!provider.calls()[0].with_key);
}

#[tokio::test]
async fn a_key_that_is_no_valid_header_is_a_configuration_error() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let urls = settings(|one| provider.base_url(one));
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
        r#"{"error":{"message":"bad key: {authorization}{x-api-key}{x-goog-api-key}{api-key}","type":"{x-api-key}{authorization}{x-goog-api-key}{api-key}","code":null}}"#,
        r#"{"error":"bad key: {authorization}{x-api-key}{x-goog-api-key}{api-key}"}"#,
        "<p>{authorization}{x-api-key}{x-goog-api-key}{api-key}</p>",
    ];
    for body in bodies {
        for head in
            ["HTTP/1.1 401 Unauthorized", "HTTP/1.1 500 Oops", "HTTP/1.1 200 OK", "HTTP/1.1 418 Teapot"]
        {
            let server = CannedServer::start(head, body).await;
            let adapter = HttpVision::new(settings(|_| server.url.clone())).unwrap();
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
    let settings = settings(|_| "http://127.0.0.1:1/v1".to_owned());
    let shown = format!("{settings:?} {:#?}", HttpVision::new(settings.clone()).unwrap());
    assert!(shown.contains("127.0.0.1") && !shown.contains(KEY), "{shown}");
}
