//! A page to send, the adapter to send it with, and a timeout for what should be quick.

use std::{future::Future, time::Duration};

use everypage_core::{
    document::ImageFormat,
    ports::vision::{PageRequest, RequestImage},
    providers::target::{Provider, Target},
    secret::Secret,
};
use everypage_testkit::provider::ScriptedProvider;
use everypage_vision::{HttpVision, ProviderAccess, VisionSettings};

pub const KEY: &str = "hunter2secret";

pub fn page(number: u32) -> PageRequest {
    let context = format!(
        "Page {number} of 40\n--- before ---\nearlier words\n\
         --- current ---\nNet loss on page {number}\n--- after ---\nlater words"
    );
    PageRequest {
        system_prompt: "Transcribe the page as Markdown.".into(),
        context_text: context,
        image: Some(RequestImage { format: ImageFormat::Jpeg, bytes: vec![7; 3000].into() }),
        max_output_tokens: 500,
        temperature: None,
    }
}

/// A model with a known price of each provider.
pub fn targets() -> [Target; 2] {
    [Target::new(Provider::OpenAi, "gpt-5.1"), Target::new(Provider::Anthropic, "claude-haiku-4-5")]
}

pub fn settings(openai: &str, anthropic: &str) -> VisionSettings {
    let at = |base_url: &str| ProviderAccess { base_url: base_url.into(), api_key: Some(Secret::new(KEY)) };
    VisionSettings::new([(Provider::OpenAi, at(openai)), (Provider::Anthropic, at(anthropic))])
}

pub fn adapter(provider: &ScriptedProvider) -> HttpVision {
    HttpVision::new(settings(&provider.openai_base_url(), &provider.anthropic_base_url())).unwrap()
}

/// Fails the test instead of blocking the whole run.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("this should have been quick")
}
