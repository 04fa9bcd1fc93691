//! Every provider from the command line, with failover into and out of it.

use everypage_core::providers::target::Provider;

use crate::support::{Bench, report};

/// With access to every provider.
async fn bench(rules: &[&str]) -> Bench {
    let bench = Bench::new(rules).await;
    let variables: Vec<_> = bench.provider.environment().into_iter().flatten().collect();
    variables.into_iter().fold(bench, |bench, (name, value)| bench.with(name, &value))
}

#[tokio::test]
async fn each_provider_reads_pages_and_passes_on_those_that_it_can_not_read() {
    let rules = [
        "model=x;page=4=400",
        "model=x;page=5=refusal",
        "model=x;page=9=hang",
        "model=x;page=10;first=1=429;retry-after=1",
    ];
    // OCR has no prompt, so the script does not know its pages.
    for provider in Provider::ALL.iter().filter(|provider| **provider != Provider::Mistral) {
        let bench = bench(&rules).await;
        let failover = format!("{provider}:x,openai:backup");
        let ran = bench.run(&["process", &report(), "--failover", &failover]).await.code(0);
        ran.reports("ai openai:backup  4-5, 9").reports(&format!("ai {provider}:x"));
        let calls = bench.provider.calls();
        assert!(calls.iter().all(|call| call.with_key), "{provider}");
        assert!(calls.iter().any(|call| call.provider == *provider), "{provider}");
    }
}

#[tokio::test]
async fn a_failover_list_is_called_in_its_own_order() {
    let rules = ["gemini:a=503", "azure:b=bad-key", "mistral:c=429;retry-after=600", "anthropic:d=unknown-model"];
    let bench = bench(&rules).await;
    let bench = bench.with("FAILOVER", "gemini:a,azure:b,mistral:c,anthropic:d,gemini:e,openai:f");
    let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
    ran.reports("ai gemini:e  5");
    let called: Vec<String> = bench.provider.calls().iter().map(|call| call.model.clone()).collect();
    assert_eq!(called, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn mistral_ocr_reads_pages_from_their_images() {
    let text = "MAP OF THE HARBOUR\\n\\nLighthouse, Quay 1 to Quay 7, customs house, dry dock.";
    let rule = format!("mistral:*=text=\"{text}\"");
    let bench = bench(&[&rule]).await.with("PRIMARY_ENGINE", "mistral");
    let ran = bench.run(&["process", &report(), "--pages", "9"]).await.code(0);
    ran.reports("ai mistral:mistral-ocr-4-1  9").prints("customs house, dry dock");
}
