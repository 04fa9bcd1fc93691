//! Every provider from the command line, with failover into and out of it.

use everypage_core::providers::target::Provider;
use everypage_testkit::provider::{AWS_KEY_ID, AWS_SECRET_KEY};
use futures::future::join_all;

use crate::support::{Bench, report};

/// With access to every provider.
async fn bench(rules: &[&str]) -> Bench {
    let bench = Bench::new(rules).await;
    let variables: Vec<_> = bench.provider.environment().into_iter().flatten().collect();
    variables.into_iter().fold(bench, |bench, (name, value)| bench.with(name, &value))
}

/// OCR has no prompt, so a script does not know its pages.
fn providers() -> impl Iterator<Item = Provider> {
    Provider::ALL.iter().copied().filter(|provider| *provider != Provider::Mistral)
}

#[tokio::test]
async fn each_provider_passes_on_the_pages_that_it_can_not_read() {
    let rules = ["model=x;page=4=400", "model=x;page=5=refusal", "model=x;page=9=hang"];
    join_all(providers().map(|provider| async move {
        let bench = bench(&rules).await;
        let failover = format!("{provider}:x,openai:backup");
        let ran = bench.run(&["process", &report(), "--failover", &failover]).await.code(0);
        ran.reports("ai openai:backup  4-5, 9").reports(&format!("ai {provider}:x"));
        let calls = bench.provider.calls();
        assert!(calls.iter().all(|call| call.with_key), "{provider}");
        assert!(calls.iter().any(|call| call.provider == provider), "{provider}");
    }))
    .await;
}

#[tokio::test]
async fn each_provider_is_waited_for_when_it_limits_the_rate() {
    join_all(providers().map(|provider| async move {
        let bench = bench(&["first=2=429;retry-after=1"]).await;
        let failover = format!("{provider}:x");
        let ran = bench.run(&["process", &report(), "--pages", "4-5", "--failover", &failover]).await.code(0);
        ran.reports(&format!("ai {provider}:x  4-5"));
    }))
    .await;
}

#[tokio::test]
async fn a_failover_list_is_called_in_its_own_order() {
    let rules =
        ["gemini:a=503", "azure:b=bad-key", "mistral:c=429;retry-after=600", "anthropic:d=unknown-model"];
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

#[tokio::test]
async fn bedrock_is_called_with_aws_credentials_and_no_key() {
    let bench = bench(&[]).await.with("BEDROCK_API_KEY", "").with("PRIMARY_ENGINE", "bedrock");
    let credentials = [("AWS_ACCESS_KEY_ID", AWS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", AWS_SECRET_KEY)];
    let bench = credentials.into_iter().fold(bench, |bench, (name, value)| bench.with(name, value));
    let bench = bench.with("AWS_REGION", "eu-central-1");
    let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
    ran.reports("ai bedrock:global.anthropic.claude-sonnet-4-6  5");
}

#[tokio::test]
async fn config_check_online_says_what_is_wrong_with_each_model() {
    let rules = ["gemini:a=bad-key", "anthropic:b=unknown-model", "azure:c=429"];
    let bench = bench(&rules).await.with("FAILOVER", "gemini:a,anthropic:b,azure:c,openai:gpt-5.4,mistral:d");
    let ran = bench.run(&["config", "check", "--online"]).await.code(2);
    let ran = ran.prints("openai:gpt-5.4  answered in").prints("mistral:d       answered in");
    ran.reports("gemini a: HTTP 400 INVALID_ARGUMENT")
        .reports("anthropic b: HTTP 404")
        .reports("azure c: HTTP 429")
        .reports("no price is known for mistral:d");
    assert_eq!(bench.provider.counts().total, 5, "one call each");
    bench.run(&["config", "check"]).await.code(0);
    assert_eq!(bench.provider.counts().total, 5);
    let limited = bench.with("BUDGET_USD", "5");
    limited
        .run(&["config", "check"])
        .await
        .code(2)
        .reports("BUDGET_USD is set, and would not hold for models");
}

#[tokio::test]
async fn a_budget_that_pays_for_no_call_makes_none() {
    let bench = bench(&[]).await;
    let args = ["process", &report(), "--pages", "4-5", "--budget", "0.005", "--json"];
    let summary = bench.run(&args).await.code(3).json();
    let metadata = &summary["documents"][0]["metadata"];
    assert_eq!(
        (metadata["cost_micro_usd"].as_u64(), metadata["mupdf_fallback_count"].as_u64()),
        (Some(0), Some(2))
    );
    assert_eq!(bench.provider.counts().total, 0);
}
