//! Parses a rule; the grammar is [`GRAMMAR`](super::GRAMMAR).

use std::{borrow::Cow, str::FromStr};

use everypage_core::providers::target::Provider;

use super::{
    Behaviour, Limit, Rate, RetryAfter, Rule, When,
    behaviour::{DRIP_BYTES, DRIP_EVERY_MS, HUGE_BYTES},
};

/// The part of a rule that could not be parsed, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} {fault}")]
pub struct GrammarError {
    part: String,
    fault: Cow<'static, str>,
}

impl GrammarError {
    pub(super) fn new(part: &str, fault: impl Into<Cow<'static, str>>) -> Self {
        Self { part: part.to_owned(), fault: fault.into() }
    }
}

const NO_BEHAVIOUR: &str = "is not a behaviour: answer, text=, 400 to 599, no-capacity, quota, bad-key, unknown-model, \
                            hang, drip, half-body, reset, html, garbage, wrong-json, huge, refusal, truncated, loop, empty, next or limit";

/// Those that are written `name=value`.
const CONDITIONS: [&str; 10] =
    ["model", "provider", "page", "shape", "tier", "first", "after", "share", "from", "to"];

const MAX_SIGMA: f64 = 10.0;

type Parsed<T> = Result<T, GrammarError>;

impl FromStr for Rule {
    type Err = GrammarError;

    fn from_str(text: &str) -> Parsed<Self> {
        let mut rest = text.trim();
        let mut when = When::default();
        let mut conditions = 0;
        while let Some((condition, tail)) = next_condition(rest) {
            condition.add_to(&mut when)?;
            conditions += 1;
            match tail.split_at_checked(1) {
                Some((";", more)) => rest = more,
                // The behaviour follows: what looks like a condition from here on is part of it.
                Some((_, behaviour)) => {
                    return Ok(Self { when, then: parse_behaviour(behaviour)? });
                }
                None => {
                    return Err(GrammarError::new(
                        text,
                        "has conditions but no behaviour: end it with =answer or another",
                    ));
                }
            }
        }
        match conditions {
            0 => Ok(Self { when, then: parse_behaviour(rest)? }),
            _ => Err(GrammarError::new(
                rest,
                "is not a condition: PROVIDER:MODEL, model=, provider=, page=, shape=, tier=, first=, after=, share=, from= or to=",
            )),
        }
    }
}

struct Condition<'a> {
    name: &'a str,
    value: &'a str,
}

/// The condition that `rest` starts with, and the text from its final `;` or `=` on.
fn next_condition(rest: &str) -> Option<(Condition<'_>, &str)> {
    let end = |text: &str| text.find([';', '=']).unwrap_or(text.len());
    let (head, tail) = rest.split_at(end(rest));
    if head.contains(':') {
        return Some((Condition { name: ":", value: head }, tail));
    }
    let name = head.trim();
    let value = tail.strip_prefix('=').filter(|_| CONDITIONS.contains(&name))?;
    let (value, tail) = value.split_at(end(value));
    Some((Condition { name, value: value.trim() }, tail))
}

impl Condition<'_> {
    fn add_to(&self, when: &mut When) -> Parsed<()> {
        let count =
            || self.value.parse().map_err(|_| GrammarError::new(self.value, "is not a number of calls"));
        match self.name {
            "page" => when.page = Some(self.value.parse()?),
            "shape" => when.shape = Some(self.value.parse()?),
            "tier" => when.tier = Some(self.value.parse()?),
            "first" => when.first_calls = Some(count()?),
            "after" => when.after_calls = Some(count()?),
            "share" => when.share = Some(self.value.parse()?),
            "from" => when.from_ms = Some(milliseconds(self.value, self.value)?),
            "to" => when.to_ms = Some(milliseconds(self.value, self.value)?),
            "provider" => when.provider = provider(self.value)?,
            "model" => when.model = model(self.value)?,
            _ => {
                let (provider_name, name) = self.value.split_once(':').unwrap_or(("*", self.value));
                when.provider = provider(provider_name.trim())?;
                when.model = model(name.trim())?;
            }
        }
        Ok(())
    }
}

fn provider(text: &str) -> Parsed<Option<Provider>> {
    match text {
        "*" => Ok(None),
        name => name.parse().map(Some).map_err(|_| {
            GrammarError::new(name, format!("is not a provider: {} or *", Provider::NAMES.join(", ")))
        }),
    }
}

fn model(text: &str) -> Parsed<Option<String>> {
    match text {
        "" => Err(GrammarError::new(text, "is not a model: a name, a prefix with a final *, or * for all")),
        "*" => Ok(None),
        name => Ok(Some(name.to_owned())),
    }
}

fn parse_behaviour(text: &str) -> Parsed<Behaviour> {
    let (mut behaviour, mut rest) = match text.trim_start().strip_prefix("text=") {
        Some(words) => parse_words(words)?,
        None => {
            let (name, rest) = text.split_once(';').map_or((text, None), |(name, rest)| (name, Some(rest)));
            (named(name.trim())?, rest)
        }
    };
    while let Some(options) = rest {
        let (option, tail) =
            options.split_once(';').map_or((options, None), |(option, tail)| (option, Some(tail)));
        behaviour = with_option(behaviour, option.trim())?;
        rest = tail;
    }
    Ok(behaviour)
}

/// Parses JSON quotes, or plain text up to the next `;`; returns what follows the `;`.
fn parse_words(words: &str) -> Parsed<(Behaviour, Option<&str>)> {
    if !words.starts_with('"') {
        let (plain, rest) = words.split_once(';').map_or((words, None), |(plain, rest)| (plain, Some(rest)));
        return Ok((Behaviour::AnswerText(plain.to_owned()), rest));
    }
    let mut quoted = serde_json::Deserializer::from_str(words).into_iter::<String>();
    let Some(Ok(text)) = quoted.next() else {
        return Err(GrammarError::new(
            words,
            "is not a quoted text: it must end with a \" and escape as JSON does",
        ));
    };
    let tail = words[quoted.byte_offset()..].trim();
    match tail.strip_prefix(';') {
        None if !tail.is_empty() => Err(GrammarError::new(tail, "follows a quoted text without a ;")),
        rest => Ok((Behaviour::AnswerText(text), rest)),
    }
}

fn named(name: &str) -> Parsed<Behaviour> {
    Ok(match name {
        "answer" => Behaviour::Answer,
        "429" => Behaviour::RateLimited { retry_after: None, of_tokens: false },
        "no-capacity" => Behaviour::NoCapacity,
        "quota" => Behaviour::Quota,
        "bad-key" => Behaviour::BadKey,
        "unknown-model" => Behaviour::UnknownModel,
        "hang" => Behaviour::Hang,
        "drip" => Behaviour::SlowDrip { bytes: DRIP_BYTES, every_ms: DRIP_EVERY_MS },
        "half-body" => Behaviour::HalfBody,
        "reset" => Behaviour::Reset,
        "html" => Behaviour::Html,
        "garbage" => Behaviour::Garbage,
        "wrong-json" => Behaviour::WrongJson,
        "huge" => Behaviour::Huge { bytes: HUGE_BYTES },
        "refusal" => Behaviour::Refusal,
        "truncated" => Behaviour::Truncated,
        "loop" => Behaviour::Loop,
        "empty" => Behaviour::Empty,
        "next" => Behaviour::Next,
        "limit" => Behaviour::Limit(Limit::default()),
        number => {
            let status = number.parse().ok().filter(|status| (400..600).contains(status));
            return status.map(Behaviour::Status).ok_or_else(|| GrammarError::new(number, NO_BEHAVIOUR));
        }
    })
}

fn with_option(behaviour: Behaviour, option: &str) -> Parsed<Behaviour> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let number = || {
        value.trim().parse::<u64>().map_err(|_| GrammarError::new(option, "needs a number, as in bytes=100"))
    };
    Ok(match (name.trim(), behaviour) {
        ("delay", Behaviour::Delay { .. } | Behaviour::Lognormal { .. }) => {
            return Err(GrammarError::new(option, "is a second delay"));
        }
        ("delay", behaviour) => parse_delay(option, value, Box::new(behaviour))?,
        (name, Behaviour::Limit(limit)) => Behaviour::Limit(with_limit_option(limit, name, option, value)?),
        ("retry-after", Behaviour::RateLimited { .. }) => {
            let seconds = u32::try_from(number()?).map_err(|_| GrammarError::new(option, "is too long"))?;
            Behaviour::RateLimited { retry_after: Some(seconds), of_tokens: false }
        }
        ("retry-after", Behaviour::Status(status)) => {
            let retry_after =
                u32::try_from(number()?).map_err(|_| GrammarError::new(option, "is too long"))?;
            Behaviour::StatusWithRetryAfter { status, retry_after }
        }
        ("bytes", Behaviour::Huge { .. }) => Behaviour::Huge { bytes: number()? },
        ("bytes", Behaviour::SlowDrip { every_ms, .. }) => {
            let bytes = usize::try_from(number()?).ok().filter(|bytes| *bytes > 0);
            let bytes = bytes.ok_or_else(|| GrammarError::new(option, "must be at least 1"))?;
            Behaviour::SlowDrip { bytes, every_ms }
        }
        ("every", Behaviour::SlowDrip { bytes, .. }) => {
            Behaviour::SlowDrip { bytes, every_ms: milliseconds(option, value)? }
        }
        _ => {
            return Err(GrammarError::new(option, "is not an option of this behaviour (delay goes last)"));
        }
    })
}

/// `TIME`, or `MEDIAN~SIGMA` for a lognormal delay.
fn parse_delay(option: &str, value: &str, then: Box<Behaviour>) -> Parsed<Behaviour> {
    let Some((median, sigma)) = value.split_once('~') else {
        return Ok(Behaviour::Delay { ms: milliseconds(option, value)?, then });
    };
    let sigma = sigma.trim().parse::<f64>().ok().filter(|sigma| (0.0..=MAX_SIGMA).contains(sigma));
    let sigma =
        sigma.ok_or_else(|| GrammarError::new(option, "needs a sigma from 0 to 10, such as 500ms~0.6"))?;
    let sigma_percent = (sigma * 100.0).round() as u32;
    Ok(Behaviour::Lognormal { median_ms: milliseconds(option, median)?, sigma_percent, then })
}

fn with_limit_option(limit: Limit, name: &str, option: &str, value: &str) -> Parsed<Limit> {
    let number = || {
        value.trim().parse::<u32>().map_err(|_| GrammarError::new(option, "needs a number, as in at-once=50"))
    };
    Ok(match name {
        "at-once" => Limit { at_once: Some(number()?), ..limit },
        "requests" => Limit { requests: Some(rate(option, value)?), ..limit },
        "tokens" => Limit { tokens: Some(rate(option, value)?), ..limit },
        "output-tokens" => Limit { output_tokens: Some(rate(option, value)?), ..limit },
        "retry-after" if value.trim() == "auto" => Limit { retry_after: Some(RetryAfter::Auto), ..limit },
        "retry-after" => Limit { retry_after: Some(RetryAfter::Seconds(number()?)), ..limit },
        "headers" if value.is_empty() => Limit { headers: true, ..limit },
        _ => {
            return Err(GrammarError::new(
                option,
                "is not an option of a limit: at-once=, requests=, tokens=, output-tokens=, retry-after= or headers",
            ));
        }
    })
}

/// `60/10s`
fn rate(option: &str, value: &str) -> Parsed<Rate> {
    let fault = || GrammarError::new(option, "needs an amount per time, such as requests=60/10s");
    let (amount, per) = value.split_once('/').ok_or_else(fault)?;
    let amount = amount.trim().parse().ok().filter(|amount| *amount > 0).ok_or_else(fault)?;
    let per_ms = milliseconds(option, per).ok().filter(|per_ms| *per_ms > 0).ok_or_else(fault)?;
    Ok(Rate { amount, per_ms })
}

fn milliseconds(option: &str, value: &str) -> Parsed<u64> {
    let value = value.trim();
    let parsed = match value.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => value.strip_suffix('s').and_then(|number| number.parse::<u64>().ok()?.checked_mul(1000)),
    };
    parsed.ok_or_else(|| GrammarError::new(option, "needs a time, such as 200ms or 2s"))
}

#[cfg(test)]
mod tests;
