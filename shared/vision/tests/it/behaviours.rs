//! Every behaviour of every provider gives its answer or its class of error.

use std::{sync::Arc, time::Duration};

use everypage_aws::SigV4;
use everypage_core::{
    ports::vision::{
        Answer, Exceeded, Finish, PageRequest, Price, Scope, ServiceTier, Usage, Vision, VisionError,
    },
    providers::target::{Provider, Target},
};
use everypage_testkit::provider::{
    AWS_KEY_ID, AWS_SECRET_KEY, Behaviour, Outcome, Rule, Script, ScriptedProvider, Tier,
};
use everypage_vision::{HttpVision, ProviderAccess, VisionSettings};

use crate::support::{adapter, page, soon, targets};

/// The outcome as it is written in the table below.
fn summary(outcome: &Result<Answer, VisionError>) -> String {
    match outcome {
        Ok(answer) => format!("{:?}", answer.finish),
        Err(VisionError::Exhausted { retry_after: Some(wait), .. }) => {
            format!("exhausted {}", wait.as_secs_f64())
        }
        Err(VisionError::Exhausted { retry_after: None, .. }) => "exhausted".into(),
        Err(VisionError::Configuration { scope: Scope::Provider, .. }) => "provider".into(),
        Err(VisionError::Configuration { scope: Scope::Access, .. }) => "access".into(),
        Err(VisionError::Configuration { scope: Scope::Model, .. }) => "model".into(),
        Err(VisionError::Transient { .. }) => "transient".into(),
        Err(VisionError::Request { .. }) => "request".into(),
        Err(VisionError::Unknown { .. }) => "unknown".into(),
    }
}

/// OCR has no prompt, no refusal and no output limit: such an answer is a page with less text.
fn expected_of<'a>(provider: Provider, rule: &str, expected: &'a str) -> &'a str {
    match (provider, rule) {
        (Provider::Mistral, "refusal" | "truncated") => "Complete",
        // It rejects keys with a 403.
        (Provider::Bedrock, "403") => "provider",
        // It names no wait.
        (Provider::Bedrock, "429;retry-after=5") => "exhausted",
        _ => expected,
    }
}

#[tokio::test]
async fn every_behaviour_is_classified_for_every_provider() {
    let table = [
        ("answer", "Complete"),
        ("answer;delay=5ms", "Complete"),
        ("text=short", "Complete"),
        ("400", "request"),
        ("401", "provider"),
        ("403", "access"),
        ("404", "model"),
        ("408", "transient"),
        ("409", "transient"),
        ("413", "request"),
        ("418", "unknown"),
        ("422", "request"),
        ("500", "transient"),
        ("502", "transient"),
        ("503", "transient"),
        ("529", "transient"),
        ("429", "exhausted"),
        ("429;retry-after=5", "exhausted 5"),
        ("quota", "exhausted"),
        ("bad-key", "provider"),
        ("unknown-model", "model"),
        ("drip;bytes=100;every=1ms", "Complete"),
        ("half-body", "transient"),
        ("reset", "transient"),
        ("html", "transient"),
        ("garbage", "transient"),
        ("wrong-json", "transient"),
        ("huge", "transient"),
        ("huge;bytes=100000", "Complete"),
        ("refusal", "Refusal"),
        ("truncated", "Length"),
        ("loop", "Complete"),
        ("empty", "Complete"),
    ];
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    for (rule, expected) in table {
        provider.set_script(Script::parse([rule]).unwrap());
        for target in targets() {
            let outcome = soon(adapter.read_page(&target, &page(17))).await;
            let expected = expected_of(target.provider, rule, expected);
            assert_eq!(summary(&outcome), expected, "{rule} from {target}: {:?}", outcome.err());
            if let Err(error) = outcome {
                let start = format!("{} {}: ", target.provider, target.model);
                assert!(error.to_string().starts_with(&start), "{error}");
            }
        }
    }
    let calls = (targets().len() * table.len()) as u64;
    assert_eq!(provider.counts().total, calls, "one call is one request on the wire");
}

#[tokio::test]
async fn an_answer_has_the_text_the_usage_and_the_cost() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    for target in targets() {
        let answer = soon(adapter.read_page(&target, &page(17))).await.ok().unwrap();
        let price = adapter.price(&target).unwrap();
        if target.provider == Provider::Mistral {
            assert_eq!(
                answer.text,
                format!("This page has no text of its own.\n\n[read by {}]", target.model)
            );
            assert_eq!(answer.usage.cost_usd, price.page);
            continue;
        }
        assert_eq!(answer.text, format!("Net loss on page 17\n\n[read by {}]", target.model));
        assert!(answer.usage.input_tokens > 765 && answer.usage.output_tokens > 5);
        assert!(answer.usage.cost_usd > answer.usage.output_tokens as f64 * price.output / 1e6);
    }
    let calls = provider.calls();
    assert!(calls.iter().all(|call| call.has_image && call.with_key));
    assert!(calls.iter().all(|call| call.page == Some(17) || call.provider == Provider::Mistral));
    assert_eq!(calls.iter().map(|call| call.provider).collect::<Vec<_>>(), Provider::ALL);
}

#[tokio::test]
async fn announced_limits_are_known_in_every_dialect_that_has_them() {
    let limit = "limit;requests=2/60s;tokens=100000/60s;headers";
    let provider = ScriptedProvider::start(Script::parse([limit]).unwrap()).await.unwrap();
    let adapter = adapter(&provider);
    for target in targets() {
        provider.set_script(Script::parse([limit]).unwrap());
        let allowance = soon(adapter.read_page(&target, &page(1))).await.ok().unwrap().allowance;
        let left = (allowance.requests.map(|quota| quota.left), allowance.tokens.is_some());
        let has_headers = !matches!(target.provider, Provider::Gemini | Provider::Bedrock);
        let expected = if has_headers { (Some(1), true) } else { (None, false) };
        assert_eq!(left, expected, "{target}");
    }
}

#[tokio::test]
async fn bedrock_refuses_a_wrong_signature_and_takes_a_right_one() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    // A colon in the name of a model is encoded twice in what is signed.
    let nova = Target::new(Provider::Bedrock, "global.amazon.nova-2-lite-v1:0");
    let answer = soon(adapter(&provider).read_page(&nova, &page(17))).await.ok().unwrap();
    assert_eq!(answer.text, format!("Net loss on page 17\n\n[read by {}]", nova.model));

    let access = ProviderAccess::at(provider.base_url(Provider::Bedrock), None);
    let signed_with = |id: &str, secret: &str| {
        let vision = HttpVision::new(VisionSettings::new([(Provider::Bedrock, access.clone())])).unwrap();
        vision.with_signer(Arc::new(SigV4::from_keys(id, secret, "eu-central-1")))
    };
    for (id, secret) in [(AWS_KEY_ID, "wrong"), ("AKIDOTHER", AWS_SECRET_KEY)] {
        let error = soon(signed_with(id, secret).read_page(&nova, &page(1))).await.err().unwrap();
        assert!(matches!(error, VisionError::Configuration { scope: Scope::Provider, .. }), "{error:?}");
        assert!(error.to_string().contains("HTTP 403 InvalidSignatureException"), "{error}");
        assert!(!format!("{error:?}").contains(AWS_SECRET_KEY));
    }
}

#[tokio::test]
async fn a_page_without_an_image_is_not_sent_to_ocr() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    let ocr = Target::new(Provider::Mistral, "mistral-ocr-4-1");
    let text = PageRequest { image: None, ..page(1) };
    let error = soon(adapter.read_page(&ocr, &text)).await.err().unwrap();
    assert!(matches!(error, VisionError::Request { .. }), "{error:?}");
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn a_refusal_or_an_empty_answer_is_not_page_text() {
    let provider = ScriptedProvider::start(Behaviour::Refusal).await.unwrap();
    let adapter = adapter(&provider);
    for target in targets() {
        let answer = soon(adapter.read_page(&target, &page(1))).await.ok().unwrap();
        let expected = if target.provider == Provider::Mistral { Finish::Complete } else { Finish::Refusal };
        assert_eq!((answer.text.as_str(), answer.finish), ("", expected), "{target}");
    }
    provider.set_script(Behaviour::Empty);
    for target in targets() {
        let answer = soon(adapter.read_page(&target, &page(1))).await.ok().unwrap();
        assert_eq!((answer.text.as_str(), answer.finish), ("", Finish::Complete), "{target}");
    }
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    for (rule, seen) in [("hang", 0), ("drip", 1), ("answer;delay=60s", 0)] {
        let rule: Rule = rule.parse().unwrap();
        let provider = ScriptedProvider::start(Script { rules: vec![rule.clone()] }).await.unwrap();
        let adapter = adapter(&provider);
        for target in targets() {
            let dropped =
                tokio::time::timeout(Duration::from_millis(100), adapter.read_page(&target, &page(1))).await;
            assert!(dropped.is_err(), "{rule} from {target} answered");
        }
        let calls = targets().len() as u64;
        soon(provider.until(|counts| counts.disconnected == calls && counts.in_flight == 0)).await;
        assert!(provider.calls().iter().all(|call| call.outcome == Outcome::Disconnected));
        assert!(provider.calls().iter().all(|call| call.bytes_sent >= seen), "{rule}");
    }
}

#[tokio::test]
async fn a_closed_port_is_a_transient_error() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    let port = provider.address().port();
    drop(provider);
    // The port is closed once the aborted task is gone.
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    for target in targets() {
        let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
        assert!(
            matches!(&error, VisionError::Transient { detail, .. } if detail.contains("refused")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn only_models_of_the_provider_itself_have_a_cheaper_tier() {
    let official = HttpVision::new(VisionSettings::new([])).unwrap();
    let has_flex = |provider, model: &str| official.has_flex(&Target::new(provider, model));
    assert!(has_flex(Provider::OpenAi, "gpt-5.4") && has_flex(Provider::Gemini, "gemini-3.8-flash"));
    assert!(
        has_flex(Provider::Azure, "gpt-5.4") && has_flex(Provider::Bedrock, "global.amazon.nova-2-lite-v1:0")
    );
    assert!(
        !has_flex(Provider::Anthropic, "claude-sonnet-4-6") && !has_flex(Provider::Azure, "our-deployment")
    );
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    assert!(!adapter(&provider).has_flex(&Target::new(Provider::OpenAi, "gpt-5.4")), "another server");
}

#[tokio::test]
async fn what_the_provider_had_in_its_cache_costs_less() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    // OCR has no prompt.
    for target in targets().into_iter().filter(|target| target.provider != Provider::Mistral) {
        let read = async |page: PageRequest| soon(adapter.read_page(&target, &page)).await.unwrap().usage;
        let short = read(page(1)).await;
        let long = read(PageRequest { system_prompt: "x".repeat(8000), ..page(1) }).await;
        let full = |usage: &Usage| {
            adapter.price(&target).unwrap().cost_usd(usage.input_tokens, usage.output_tokens, 0)
        };
        assert!((full(&short) - short.cost_usd).abs() < 1e-9, "{target}: {short:?}");
        assert!(long.input_tokens >= short.input_tokens + 1900, "{target}: {long:?}");
        assert!(long.cost_usd < full(&long) * 0.8, "{target}: {long:?}, {} in full", full(&long));
    }
}

#[tokio::test]
async fn a_cheap_call_is_served_in_the_flex_tier_at_half_the_price() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    let cheap = [
        (Provider::Gemini, "gemini-3.8-flash"),
        (Provider::Azure, "gpt-5.4"),
        (Provider::Bedrock, "global.amazon.nova-2-lite-v1:0"),
    ];
    for target in cheap.map(|(provider, model)| Target::new(provider, model)) {
        assert!(adapter.has_flex(&target), "{target}");
        let standard = soon(adapter.read_page(&target, &page(1))).await.unwrap().usage.cost_usd;
        let flex = PageRequest { service_tier: ServiceTier::Flex, ..page(1) };
        let flex = soon(adapter.read_page(&target, &flex)).await.unwrap().usage.cost_usd;
        assert!((flex * 2.0 - standard).abs() < 1e-9, "{target}: {flex}, {standard}");
        let tiers: Vec<Tier> = provider.calls().iter().map(|call| call.tier).collect();
        assert_eq!(tiers, [Tier::Standard, Tier::Flex], "{target}");
        provider.reset();
    }
}

#[tokio::test]
async fn a_rate_limit_says_whether_it_is_one_of_tokens() {
    for (of_tokens, limit) in [(false, Exceeded::Requests), (true, Exceeded::Tokens)] {
        let script = Behaviour::RateLimited { retry_after: Some(3), of_tokens };
        let provider = ScriptedProvider::start(script).await.unwrap();
        let adapter = adapter(&provider);
        for target in targets() {
            let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
            let VisionError::Exhausted { allowance, .. } = error else { panic!("{target}: {error:?}") };
            // Mistral names the limit in its headers only.
            let expected = (target.provider != Provider::Mistral).then_some(limit);
            assert_eq!(allowance.exceeded, expected, "{target}");
        }
    }
}

#[tokio::test]
async fn a_tier_without_capacity_is_no_fault_of_the_page() {
    let provider = ScriptedProvider::start(Behaviour::NoCapacity).await.unwrap();
    let adapter = adapter(&provider);
    for target in targets() {
        let error = soon(adapter.read_page(&target, &page(1))).await.err().unwrap();
        let passes = matches!(error, VisionError::Exhausted { .. } | VisionError::Transient { .. });
        assert!(passes, "{target}: {error:?}");
    }
}

#[tokio::test]
async fn an_unknown_price_is_none() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let adapter = adapter(&provider);
    assert_eq!(adapter.price(&targets()[0]), Some(Price::of_tokens(1.25, 10.0)));
    assert_eq!(adapter.price(&Target::new(Provider::OpenAi, "qwen2.5-vl")), None);
}
