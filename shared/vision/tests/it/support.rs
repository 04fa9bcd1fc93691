//! A page to send, the adapter to send it with, and a timeout for what should be quick.

use std::{future::Future, sync::Arc, time::Duration};

use everypage_aws::SigV4;
use everypage_core::{
    document::ImageFormat,
    ports::vision::{PageRequest, RequestImage},
    providers::target::{Provider, Target},
    secret::Secret,
};
use everypage_testkit::provider::{AWS_KEY_ID, AWS_SECRET_KEY, ScriptedProvider};
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
        service_tier: Default::default(),
    }
}

/// A model with a known price of each provider.
pub fn targets() -> Vec<Target> {
    let model = |provider| match provider {
        Provider::OpenAi => "gpt-5.1",
        Provider::Anthropic => "claude-haiku-4-5",
        Provider::Gemini => "gemini-3.8-flash",
        Provider::Azure => "gpt-4.1",
        Provider::Mistral => "mistral-ocr-4-1",
        Provider::Bedrock => "global.anthropic.claude-sonnet-4-6",
    };
    Provider::ALL.iter().map(|provider| Target::new(*provider, model(*provider))).collect()
}

/// Settings with a key, and the base URLs that `base_url` gives.
pub fn settings(base_url: impl Fn(Provider) -> String) -> VisionSettings {
    let at = |provider| ProviderAccess::at(base_url(provider), Some(Secret::new(KEY)));
    VisionSettings::new(Provider::ALL.iter().map(|provider| (*provider, at(*provider))))
}

/// With a key of every provider but Bedrock, whose requests are signed.
pub fn adapter(provider: &ScriptedProvider) -> HttpVision {
    let mut settings = settings(|one| provider.base_url(one));
    if let Some(access) = settings.access.get_mut(&Provider::Bedrock) {
        access.api_key = None;
    }
    let signer = SigV4::from_keys(AWS_KEY_ID, AWS_SECRET_KEY, "eu-central-1");
    HttpVision::new(settings).unwrap().with_signer(Arc::new(signer))
}

/// Fails the test instead of blocking the whole run.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("this should have been quick")
}
