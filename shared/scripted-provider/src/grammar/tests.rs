use std::time::Duration;

use everypage_core::providers::target::Provider;
use proptest::{option, prelude::*};

use super::*;
use crate::{Pages, Share, Tier};

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn rules_are_parsed() {
    let when = When::default;
    let table = [
        ("answer", when(), Behaviour::Answer),
        ("openai:*=hang", When { provider: Some(Provider::OpenAi), ..when() }, Behaviour::Hang),
        (
            "*:gpt-4.1=429;retry-after=5",
            When { model: Some("gpt-4.1".into()), ..when() },
            Behaviour::RateLimited { retry_after: Some(5), of_tokens: false },
        ),
        (
            "openai:llama3.2:3b=reset",
            When { provider: Some(Provider::OpenAi), model: Some("llama3.2:3b".into()), ..when() },
            Behaviour::Reset,
        ),
        ("503;retry-after=30", when(), Behaviour::StatusWithRetryAfter { status: 503, retry_after: 30 }),
        ("page=7,9-12=500", When { page: Some("7,9-12".parse().unwrap()), ..when() }, Behaviour::Status(500)),
        (
            "model=x;first=3=529",
            When { model: Some("x".into()), first_calls: Some(3), ..when() },
            Behaviour::Status(529),
        ),
        (
            "anthropic:claude-*;page=2;after=1=quota",
            When {
                provider: Some(Provider::Anthropic),
                model: Some("claude-*".into()),
                page: Some(2.into()),
                after_calls: Some(1),
                ..when()
            },
            Behaviour::Quota,
        ),
        (
            "gemini:*;tier=flex=429",
            When { provider: Some(Provider::Gemini), tier: Some(Tier::Flex), ..when() },
            Behaviour::RateLimited { retry_after: None, of_tokens: false },
        ),
        ("shape=3x4=500", When { shape: Some("3x4".parse().unwrap()), ..when() }, Behaviour::Status(500)),
        ("answer;delay=200ms", when(), Behaviour::Delay { ms: 200, then: Box::new(Behaviour::Answer) }),
        ("hang;delay=2s", when(), Behaviour::Delay { ms: 2000, then: Box::new(Behaviour::Hang) }),
        ("drip;bytes=8;every=5ms", when(), Behaviour::SlowDrip { bytes: 8, every_ms: 5 }),
        ("huge", when(), Behaviour::Huge { bytes: 10_000_000 }),
        ("huge;bytes=99", when(), Behaviour::Huge { bytes: 99 }),
        (
            "answer;delay=500ms~0.6",
            when(),
            Behaviour::Lognormal { median_ms: 500, sigma_percent: 60, then: Box::new(Behaviour::Answer) },
        ),
        (
            "share=3%;from=5s;to=25s=503",
            When { share: Some(Share::percent(3.0)), from_ms: Some(5000), to_ms: Some(25_000), ..when() },
            Behaviour::Status(503),
        ),
        ("to=5s=next", When { to_ms: Some(5000), ..when() }, Behaviour::Next),
        ("limit;at-once=50", when(), Behaviour::Limit(Limit { at_once: Some(50), ..Limit::default() })),
        (
            "limit;requests=60/60s;tokens=9000/500ms;retry-after=auto;headers",
            when(),
            Behaviour::Limit(Limit {
                requests: Some(Rate { amount: 60, per_ms: 60_000 }),
                tokens: Some(Rate { amount: 9000, per_ms: 500 }),
                retry_after: Some(RetryAfter::Auto),
                headers: true,
                ..Limit::default()
            }),
        ),
        (
            "limit;at-once=1;retry-after=2;delay=1s",
            when(),
            Behaviour::Limit(Limit {
                at_once: Some(1),
                retry_after: Some(RetryAfter::Seconds(2)),
                ..Limit::default()
            })
            .delayed(Duration::from_secs(1)),
        ),
        ("text=a plain one", when(), Behaviour::AnswerText("a plain one".into())),
        ("page=1=text=x=y", When { page: Some(1.into()), ..when() }, Behaviour::AnswerText("x=y".into())),
        (
            r#"model=m=text="a;b \"c\"\n" ; delay=1ms"#,
            When { model: Some("m".into()), ..when() },
            Behaviour::Delay { ms: 1, then: Box::new(Behaviour::AnswerText("a;b \"c\"\n".into())) },
        ),
    ];
    for (text, when, then) in table {
        assert_eq!(rule(text), Rule { when, then }, "{text}");
    }
}

#[test]
fn errors_name_the_bad_part() {
    let table = [
        ("", "\"\" is not a behaviour"),
        ("hnag", "\"hnag\" is not a behaviour"),
        ("page=7", "\"page=7\" has conditions but no behaviour"),
        ("page=7;hang", "\"hang\" is not a condition"),
        ("page=x=500", "\"x\" is not a page"),
        ("page=1,9-3=500", "\"9-3\" is not a page"),
        ("page=0=500", "\"0\" is not a page"),
        ("shape=3=500", "\"3\" is not a shape"),
        ("shape=0x4=500", "\"0x4\" is not a shape"),
        ("tier=cheap=429", "\"cheap\" is not a tier"),
        ("grok:*=hang", "\"grok\" is not a provider"),
        ("openai:=hang", "\"\" is not a model"),
        ("first=few=500", "\"few\" is not a number of calls"),
        ("page=7=200", "\"200\" is not a behaviour"),
        ("answer;delay=soon", "\"delay=soon\" needs a time"),
        ("answer;delay=1s;delay=2s", "\"delay=2s\" is a second delay"),
        ("answer;bytes=3", "\"bytes=3\" is not an option of this behaviour"),
        ("429;retry-after=x", "\"retry-after=x\" needs a number"),
        ("drip;bytes=0", "\"bytes=0\" must be at least 1"),
        ("share=3=500", "\"3\" is not a share"),
        ("share=101%=500", "\"101%\" is not a share"),
        ("from=soon=500", "\"soon\" needs a time"),
        ("answer;delay=1s~x", "\"delay=1s~x\" needs a sigma"),
        ("answer;delay=1s~0.5;delay=1s", "\"delay=1s\" is a second delay"),
        ("limit;requests=5", "\"requests=5\" needs an amount per time"),
        ("limit;tokens=0/1s", "\"tokens=0/1s\" needs an amount per time"),
        ("limit;at-once=x", "\"at-once=x\" needs a number"),
        ("limit;bytes=3", "\"bytes=3\" is not an option of a limit"),
        ("text=\"open", "\"\\\"open\" is not a quoted text"),
        ("text=\"a\" b", "\"b\" follows a quoted text"),
    ];
    for (text, message) in table {
        let error = text.parse::<Rule>().unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
}

#[test]
fn nested_delays_are_printed_as_one() {
    let nested = Behaviour::Hang.delayed(Duration::from_millis(5)).delayed(Duration::from_secs(1));
    assert_eq!(nested.to_string(), "hang;delay=1005ms");
}

fn behaviours() -> impl Strategy<Value = Behaviour> {
    let plain = prop_oneof![
        Just(Behaviour::Answer),
        ".*".prop_map(Behaviour::AnswerText),
        (400u16..600)
            .prop_filter("429 has its own name", |status| *status != 429)
            .prop_map(Behaviour::Status),
        option::of(any::<u32>())
            .prop_map(|retry_after| Behaviour::RateLimited { retry_after, of_tokens: false }),
        Just(Behaviour::NoCapacity),
        Just(Behaviour::Quota),
        Just(Behaviour::BadKey),
        Just(Behaviour::UnknownModel),
        Just(Behaviour::Hang),
        (1usize.., any::<u64>()).prop_map(|(bytes, every_ms)| Behaviour::SlowDrip { bytes, every_ms }),
        Just(Behaviour::HalfBody),
        Just(Behaviour::Reset),
        Just(Behaviour::Html),
        Just(Behaviour::Garbage),
        Just(Behaviour::WrongJson),
        any::<u64>().prop_map(|bytes| Behaviour::Huge { bytes }),
        Just(Behaviour::Refusal),
        Just(Behaviour::Truncated),
        Just(Behaviour::Loop),
        Just(Behaviour::Empty),
        Just(Behaviour::Next),
        limits().prop_map(Behaviour::Limit),
    ];
    (plain, option::of(any::<u64>()), option::of(0u32..1000)).prop_map(|(plain, delay, sigma)| {
        let then = Box::new(plain.clone());
        match (delay, sigma) {
            (Some(ms), None) => Behaviour::Delay { ms, then },
            (Some(median_ms), Some(sigma_percent)) => Behaviour::Lognormal { median_ms, sigma_percent, then },
            (None, _) => plain,
        }
    })
}

fn limits() -> impl Strategy<Value = Limit> {
    let rate = || option::of((1u64.., 1u64..).prop_map(|(amount, per_ms)| Rate { amount, per_ms }));
    let retry_after = prop_oneof![Just(RetryAfter::Auto), any::<u32>().prop_map(RetryAfter::Seconds)];
    (option::of(any::<u32>()), rate(), rate(), rate(), option::of(retry_after), any::<bool>()).prop_map(
        |(at_once, requests, tokens, output_tokens, retry_after, headers)| Limit {
            at_once,
            requests,
            tokens,
            output_tokens,
            retry_after,
            headers,
        },
    )
}

fn conditions() -> impl Strategy<Value = When> {
    let provider = prop::sample::select(Provider::ALL);
    let ranges = prop::collection::vec((1u32..500, 0u32..50), 1..4);
    let pages = ranges.prop_map(|ranges| {
        let text: Vec<String> =
            ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
        text.join(",").parse::<Pages>().unwrap()
    });
    let shapes = (1u32.., 1u32..).prop_map(|(width, height)| format!("{width}x{height}").parse().unwrap());
    let tiers = prop::sample::select(vec![Tier::Standard, Tier::Flex]);
    let counts = (option::of(any::<u64>()), option::of(any::<u64>()));
    let share =
        option::of((0u32..=10_000).prop_map(|hundredths| Share::percent(f64::from(hundredths) / 100.0)));
    let times = (option::of(any::<u64>()), option::of(any::<u64>()));
    (
        option::of(provider),
        option::of("[a-z0-9][a-z0-9.:/@-]{0,12}\\*?"),
        option::of(pages),
        option::of(shapes),
        option::of(tiers),
        counts,
        share,
        times,
    )
        .prop_map(
            |(provider, model, page, shape, tier, (after_calls, first_calls), share, (from_ms, to_ms))| {
                When { provider, model, page, shape, tier, after_calls, first_calls, share, from_ms, to_ms }
            },
        )
}

proptest! {
    #[test]
    fn a_printed_rule_parses_as_itself(when in conditions(), then in behaviours()) {
        let rule = Rule { when, then };
        prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,40}") {
        let _ = text.parse::<Rule>();
    }
}
