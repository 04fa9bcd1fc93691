//! The part of `config check` that concerns models: prices, and with `--online` a call to each.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    document::ImageFormat,
    ports::vision::{PageRequest, RequestImage, Vision},
    providers::target::Target,
    settings::Settings,
};
use everypage_vision::{HttpVision, Models};
use futures::future::join_all;
use serde_json::{Value, json};

/// No tiny page takes this long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A white page of 32 × 32 pixels, as PNG.
const WHITE_PAGE: &[u8] = include_bytes!("white.png");
const MAX_OUTPUT_TOKENS: u32 = 64;

/// The finding of one call to a model.
pub struct Called {
    pub target: Target,
    pub result: Result<Duration, String>,
}

impl Called {
    pub fn to_json(&self) -> Value {
        match &self.result {
            Ok(time) => {
                json!({ "model": self.target.to_string(), "ok": true, "latency_ms": time.as_millis() as u64 })
            }
            Err(error) => json!({ "model": self.target.to_string(), "ok": false, "error": error }),
        }
    }
}

/// Calls every model that the settings may call, all at once.
pub async fn call_all(vision: &HttpVision, settings: &Settings) -> Vec<Called> {
    let page = PageRequest {
        system_prompt: "Answer with the single word ok.".into(),
        context_text: "Page 1 of 1".into(),
        image: Some(RequestImage { format: ImageFormat::Png, bytes: Arc::from(WHITE_PAGE) }),
        max_output_tokens: MAX_OUTPUT_TOKENS,
        temperature: None,
        service_tier: Default::default(),
    };
    let calls = settings.failover_order().targets().into_iter().map(|target| {
        let page = &page;
        async move {
            let started = tokio::time::Instant::now();
            let result = match tokio::time::timeout(TIMEOUT, vision.read_page(&target, page)).await {
                Ok(Ok(_)) => Ok(started.elapsed()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!(
                    "{} {}: no answer within {} s",
                    target.provider,
                    target.model,
                    TIMEOUT.as_secs()
                )),
            };
            Called { target, result }
        }
    });
    join_all(calls).await
}

/// A warning for each model whose calls would cost nothing in results, for lack of a price.
pub fn unpriced(settings: &Settings) -> Vec<String> {
    let Ok(models) = Models::parse(&settings.model_prices) else { return vec![] };
    let warning = |target: &Target| {
        let model = &target.model;
        format!("no price is known for {target}: its calls cost 0 in results (MODEL_PRICES={model}=2.5/15)")
    };
    models.unpriced(settings).iter().map(warning).collect()
}
