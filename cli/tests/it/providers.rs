//! Every provider from the command line, with failover into and out of it.

use everypage_core::providers::target::Provider;
use everypage_testkit::provider::{AWS_KEY_ID, AWS_SECRET_KEY, Tier};
use futures::future::join_all;

use crate::support::{Bench, Ran, report};

/// With access to every provider: to Bedrock with AWS credentials, and so with signed requests, to the others with
/// keys.
async fn bench(rules: &[&str]) -> Bench {
    let bench = Bench::new(rules).await;
    let variables: Vec<_> = bench.provider.environment().into_iter().flatten().collect();
    let bench = variables.into_iter().fold(bench, |bench, (name, value)| bench.with(name, &value));
    let credentials = [
        (Provider::Bedrock.profile().variables.api_key, ""),
        ("AWS_ACCESS_KEY_ID", AWS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", AWS_SECRET_KEY),
        ("AWS_REGION", "eu-central-1"),
        // The credentials are looked for at the start, and only for a provider that the settings name.
        ("SECONDARY_ENGINE", "bedrock"),
    ];
    credentials.into_iter().fold(bench, |bench, (name, value)| bench.with(name, value))
}

/// Reads one page with each provider at once, and returns the benches with what the program printed.
async fn each_reads(
    rules: impl Fn(Provider) -> Vec<String>,
    failover: impl Fn(Provider) -> String,
) -> Vec<(Provider, Bench, Ran)> {
    let (rules, failover) = (&rules, &failover);
    join_all(Provider::ALL.iter().map(|provider| async move {
        let rules = rules(*provider);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        // OCR has no prompt: the scripted one does not know the page's words.
        let check = if *provider == Provider::Mistral { "off" } else { "on" };
        let bench = bench(&rules).await.with("CHECK_ANSWERS", check);
        let failover = failover(*provider);
        let ran = bench.run(&["process", &report(), "--pages", "5", "--failover", &failover]).await.code(0);
        assert!(bench.provider.calls().iter().all(|call| call.with_key), "{provider}");
        (*provider, bench, ran)
    }))
    .await
}

/// What a provider was called for, in order.
fn called(bench: &Bench) -> Vec<(Provider, String)> {
    bench.provider.calls().into_iter().map(|call| (call.provider, call.model)).collect()
}

#[tokio::test]
async fn each_provider_passes_on_the_pages_that_it_can_not_read() {
    let rules = ["model=x;page=4=400", "model=x;page=5=refusal", "model=x;page=9=hang"];
    // Without a prompt, a script does not know the pages of OCR.
    let providers = Provider::ALL.iter().filter(|provider| **provider != Provider::Mistral);
    join_all(providers.map(|provider| async move {
        let bench = bench(&rules).await;
        let failover = format!("{provider}:x,openai:backup");
        let ran = bench.run(&["process", &report(), "--failover", &failover]).await.code(0);
        ran.reports("ai openai:backup  4-5, 9").reports(&format!("ai {provider}:x"));
        assert!(bench.provider.calls().iter().all(|call| call.with_key), "{provider}");
    }))
    .await;
}

#[tokio::test]
async fn each_provider_is_left_after_a_call_without_the_page() {
    for reply in ["400", "refusal", "hang", "429", "503", "bad-key"] {
        let rules = |provider: Provider| vec![format!("provider={provider};model=x={reply}")];
        // Another provider than the one that fails: a bad key closes all of its models.
        let backup = |provider: Provider| {
            if provider == Provider::OpenAi { Provider::Gemini } else { Provider::OpenAi }
        };
        let failover = |provider: Provider| format!("{provider}:x,{}:backup", backup(provider));
        for (provider, bench, ran) in each_reads(rules, failover).await {
            let backup = backup(provider);
            ran.reports(&format!("ai {backup}:backup  5"));
            let expected = [(provider, "x".to_owned()), (backup, "backup".to_owned())];
            assert_eq!(called(&bench), expected, "{reply}");
        }
    }
}

#[tokio::test]
async fn each_provider_takes_over_from_one_that_fails() {
    for reply in ["503", "400", "429", "refusal", "unknown-model"] {
        let rules = |_: Provider| vec![format!("openai:bad={reply}")];
        for (provider, bench, ran) in
            each_reads(rules, |provider: Provider| format!("openai:bad,{provider}:x")).await
        {
            ran.reports(&format!("ai {provider}:x  5"));
            let expected = [(Provider::OpenAi, "bad".to_owned()), (provider, "x".to_owned())];
            assert_eq!(called(&bench), expected, "{reply}");
        }
    }
}

#[tokio::test]
async fn each_provider_is_waited_for_when_it_limits_the_rate() {
    let rules = |_: Provider| vec!["first=2=429;retry-after=1".to_owned()];
    for (provider, bench, ran) in each_reads(rules, |provider: Provider| format!("{provider}:x")).await {
        ran.reports(&format!("ai {provider}:x  5"));
        assert_eq!(called(&bench).len(), 3, "{provider}");
    }
}

#[tokio::test]
async fn a_cheap_job_is_read_in_the_flex_tier_or_else_in_the_standard_one() {
    let targets = [
        "gemini:gemini-3.8-flash",
        "azure:gpt-5.4",
        "bedrock:amazon.nova-pro-v1:0",
        "bedrock:global.amazon.nova-2-lite-v1:0",
    ];
    join_all(targets.map(|target| async move {
        for (rule, tiers) in [
            ("answer", vec![Tier::Flex]),
            ("tier=flex=no-capacity", vec![Tier::Flex, Tier::Standard]),
            ("tier=flex=429", vec![Tier::Flex, Tier::Standard]),
            ("tier=flex=400", vec![Tier::Flex, Tier::Standard]),
            ("tier=flex=503", vec![Tier::Flex, Tier::Standard]),
        ] {
            let bench = bench(&[rule]).await;
            let args =
                ["process", &report(), "--pages", "5", "--cost", "low", "--deadline", "1h", "--failover"];
            let ran = bench.run(&[&args[..], &[target]].concat()).await.code(0);
            ran.reports(&format!("ai {target}  5"));
            let called: Vec<Tier> = bench.provider.calls().iter().map(|call| call.tier).collect();
            assert_eq!(called, tiers, "{target} {rule}");
        }
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
    let bench = bench(&[]).await.with("PRIMARY_ENGINE", "bedrock");
    let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
    ran.reports("ai bedrock:global.anthropic.claude-sonnet-4-6  5");
    let bench = bench.with("AWS_SECRET_ACCESS_KEY", "another one");
    let ran =
        bench.run(&["process", &report(), "--pages", "5", "--failover", "bedrock:x,openai:y"]).await.code(0);
    ran.reports("ai openai:y  5").reports("HTTP 403 InvalidSignatureException");
}

#[tokio::test]
async fn bedrock_takes_an_api_key_of_its_own_instead() {
    let bench = bench(&[]).await.with("AWS_ACCESS_KEY_ID", "").with("AWS_SECRET_ACCESS_KEY", "");
    let bench = bench.with("BEDROCK_API_KEY", "scripted").with("PRIMARY_ENGINE", "bedrock");
    let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
    ran.reports("ai bedrock:global.anthropic.claude-sonnet-4-6  5");
}

/// `examples/local-endpoint`: the settings as they are, but for the address.
#[tokio::test]
async fn the_examples_of_compatible_servers_read_a_page_without_a_key() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/local-endpoint");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let examples: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "env")).collect();
    assert_eq!(examples.len(), 4, "vLLM, Ollama, LM Studio, OpenRouter");
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let settings: Vec<(&str, &str)> = lines.map(|line| line.split_once('=').unwrap()).collect();
        let value = |name: &str| settings.iter().find(|(known, _)| *known == name).unwrap().1;
        let server = value("OPENAI_BASE_URL");
        assert!(server.ends_with("/v1"), "{server}");
        let bench = Bench::new(&[]).await;
        let address = bench.provider.openai_base_url();
        let bench = settings.iter().fold(bench, |bench, (name, value)| bench.with(name, value));
        let bench =
            [("OPENAI_BASE_URL", address.as_str()), ("OPENAI_API_KEY", ""), ("ANTHROPIC_API_KEY", "")]
                .into_iter()
                .fold(bench, |bench, (name, value)| bench.with(name, value));
        let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
        let model = value("OPENAI_PRIMARY_MODEL");
        ran.reports(&format!("ai openai:{model}  5"));
        assert_eq!(called(&bench), [(Provider::OpenAi, model.to_owned())], "{server}");
        assert!(bench.provider.calls().iter().all(|call| !call.with_key), "{server}");
    }
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
    let bench = bench(&[]).await.with("SECONDARY_ENGINE", "anthropic");
    let args = ["process", &report(), "--pages", "4-5", "--budget", "0.005", "--json"];
    let summary = bench.run(&args).await.code(3).json();
    let metadata = &summary["documents"][0]["metadata"];
    assert_eq!(
        (metadata["cost_micro_usd"].as_u64(), metadata["mupdf_fallback_count"].as_u64()),
        (Some(0), Some(2))
    );
    assert_eq!(bench.provider.counts().total, 0);
}
