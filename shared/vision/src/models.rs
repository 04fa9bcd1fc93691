//! Prices and output limits of known models.

use std::{collections::BTreeMap, str::FromStr};

use everypage_core::{ports::vision::Price, providers::target::Target, settings::Settings};

use crate::dialect::Used;

/// A model, or all models whose names start with its name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    price: Price,
    /// US dollars per million tokens that the provider had in its cache.
    cached: f64,
    /// The longest answer that a request may ask for, in tokens.
    max_output: Option<u32>,
    /// The provider has a slower tier for it, at half the price.
    flex: bool,
}

/// The table of known models: the providers' list prices as of 19 November 2026, in US dollars per
/// million tokens, or per page.
///
/// It has the default models, the current ones, and others whose names start with one of theirs and which it would
/// cover otherwise. Prices of long prompts (over 100,000 tokens) are not in it: a page has none. Sources:
/// developers.openai.com/api/docs/pricing and .../models (GPT-6.2 as of 18 November), platform.claude.com/docs/en/models
/// (each model's overview) and .../about-claude/pricing, ai.google.dev/gemini-api/docs/pricing and .../changelog,
/// docs.mistral.ai/models, azure.microsoft.com/pricing (deployments that are named for their model cost what they
/// cost at OpenAI), aws.amazon.com/bedrock/pricing (Claude costs there what it costs at Anthropic). Shutdowns:
/// developers.openai.com/api/docs/deprecations, platform.claude.com/docs/en/about-claude/model-deprecations,
/// ai.google.dev/gemini-api/docs/deprecations.
const TABLE: &[(&str, Known)] = &[
    ("gpt-6.2-astra", with_flex(tokens(8.0, 0.4, 40.0, 128_000))),
    ("gpt-6.2-sol", with_flex(tokens(2.0, 0.1, 10.0, 128_000))),
    ("gpt-6.1-sol", with_flex(tokens(2.0, 0.1, 10.0, 128_000))),
    ("gpt-6.1-terra", with_flex(tokens(1.0, 0.05, 5.0, 128_000))),
    ("gpt-6-astra", with_flex(tokens(10.0, 1.0, 50.0, 128_000))),
    ("gpt-6-sol", with_flex(tokens(2.0, 0.2, 10.0, 128_000))),
    ("gpt-6-luna", with_flex(tokens(0.1, 0.01, 0.5, 128_000))),
    ("gpt-5.6-sol", with_flex(tokens(4.0, 0.4, 20.0, 128_000))),
    ("gpt-5.6-terra", with_flex(tokens(2.0, 0.2, 12.0, 128_000))),
    ("gpt-5.6-luna", with_flex(tokens(0.2, 0.02, 1.2, 128_000))),
    ("gpt-5.5", with_flex(tokens(5.0, 0.5, 30.0, 128_000))),
    ("gpt-5.5-pro", tokens(30.0, 30.0, 180.0, 128_000)),
    ("gpt-5.4", with_flex(tokens(2.5, 0.25, 15.0, 128_000))),
    ("gpt-5.4-mini", with_flex(tokens(0.75, 0.075, 4.5, 128_000))),
    ("gpt-5.4-nano", with_flex(tokens(0.2, 0.02, 1.25, 128_000))),
    ("gpt-5.4-pro", tokens(30.0, 30.0, 180.0, 128_000)),
    ("gpt-5.2", tokens(1.75, 0.175, 14.0, 128_000)),
    ("gpt-5.2-pro", tokens(21.0, 21.0, 168.0, 128_000)),
    ("gpt-5.1", tokens(1.25, 0.125, 10.0, 128_000)),
    // Shut down on 11 December 2026.
    ("gpt-5-mini", with_flex(tokens(0.25, 0.025, 2.0, 128_000))),
    // Shut down on 14 January 2027.
    ("gpt-4.1", tokens(2.0, 0.5, 8.0, 32_768)),
    ("gpt-4.1-mini", tokens(0.4, 0.1, 1.6, 32_768)),
    ("claude-fable-5", tokens(10.0, 1.0, 50.0, 128_000)),
    ("claude-fable-5-1", tokens(10.0, 0.25, 50.0, 128_000)),
    ("claude-opus-5-5", tokens(4.0, 0.2, 20.0, 128_000)),
    ("claude-sonnet-5-5", tokens(2.0, 0.1, 10.0, 128_000)),
    ("claude-haiku-5-5", tokens(0.1, 0.01, 0.5, 128_000)),
    ("claude-opus-5", tokens(5.0, 0.5, 25.0, 128_000)),
    ("claude-opus-4-8", tokens(5.0, 0.5, 25.0, 128_000)),
    ("claude-opus-4-7", tokens(5.0, 0.5, 25.0, 128_000)),
    ("claude-opus-4-6", tokens(5.0, 0.5, 25.0, 128_000)),
    ("claude-opus-4-5", tokens(5.0, 0.5, 25.0, 64_000)),
    ("claude-sonnet-5", tokens(2.0, 0.2, 10.0, 128_000)),
    ("claude-sonnet-4-6", tokens(3.0, 0.3, 15.0, 64_000)),
    // Retired on 30 November 2026.
    ("claude-sonnet-4-5", tokens(3.0, 0.3, 15.0, 64_000)),
    ("claude-haiku-4-5", tokens(1.0, 0.1, 5.0, 64_000)),
    // Half of this until the end of 2026, as 3.6: too high an estimate is the safe side.
    ("gemini-3.8-flash", with_flex(tokens(1.5, 0.15, 7.5, 65_536))),
    ("gemini-3.6-flash", with_flex(tokens(1.5, 0.15, 7.5, 65_536))),
    // Since 8 October 2026 answered and charged by 3.6.
    ("gemini-3.5-flash", with_flex(tokens(1.5, 0.15, 7.5, 65_536))),
    ("gemini-3.5-flash-lite", with_flex(tokens(0.3, 0.03, 2.5, 65_536))),
    ("gemini-3.1-pro", tokens(2.0, 0.2, 12.0, 65_536)),
    ("gemini-3.1-flash-lite", with_flex(tokens(0.25, 0.025, 1.5, 65_536))),
    // From 1 December 2026 on answered and charged by 3.8 Flash and 3.5 Flash-Lite.
    ("gemini-2.5-pro", tokens(1.25, 0.125, 10.0, 65_536)),
    ("gemini-2.5-flash", tokens(0.3, 0.03, 2.5, 65_536)),
    ("gemini-2.5-flash-lite", tokens(0.1, 0.01, 0.4, 65_536)),
    ("amazon.nova-2-lite", with_flex(tokens(0.3, 0.075, 2.5, 64_000))),
    ("amazon.nova-pro", with_flex(tokens(0.8, 0.2, 3.2, 10_000))),
    ("amazon.nova-lite", tokens(0.06, 0.015, 0.24, 10_000)),
    ("mistral-ocr-4", pages(0.004)),
    ("mistral-ocr-latest", pages(0.004)),
    ("mistral-ocr-2512", pages(0.002)),
];

const fn tokens(input: f64, cached: f64, output: f64, max_output: u32) -> Known {
    Known { price: Price::of_tokens(input, output), cached, max_output: Some(max_output), flex: false }
}

/// With a flex tier: developers.openai.com/api/docs/pricing?latest-pricing=flex,
/// ai.google.dev/gemini-api/docs/flex-inference (and each model's page), on Azure
/// learn.microsoft.com/azure/foundry/openai/how-to/flex-processing (preview; Global Standard deployments),
/// docs.aws.amazon.com/bedrock/latest/userguide/service-tiers-inference.html (Nova 2 Lite also by its profiles:
/// aws-solutions-library-samples, accelerated-intelligent-document-processing-on-aws, service tiers).
const fn with_flex(known: Known) -> Known {
    Known { flex: true, ..known }
}

const fn pages(usd: f64) -> Known {
    Known { price: Price { input: 0.0, output: 0.0, page: usd }, cached: 0.0, max_output: None, flex: false }
}

/// Price of a token that Anthropic, and OpenAI from GPT-5.6 on, write into their cache, compared with one that is not
/// cached.
const CACHE_WRITE_FACTOR: f64 = 1.25;

/// Prefixes of Bedrock's cross-region inference profiles, and what a profile that stays in one geography costs
/// compared with the model.
const GEOGRAPHIES: [&str; 8] = ["global", "us", "eu", "apac", "jp", "au", "ca", "us-gov"];
const GEOGRAPHY_FACTOR: f64 = 1.1;
/// Price of a call in the flex tier, compared with a standard one.
const FLEX_FACTOR: f64 = 0.5;

impl Known {
    fn times(self, factor: f64) -> Self {
        let Price { input, output, page } = self.price;
        let price = Price { input: input * factor, output: output * factor, page: page * factor };
        Self { price, cached: self.cached * factor, ..self }
    }
}

/// Known models by name; a name also covers its dated and suffixed versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Models(BTreeMap<String, Known>);

/// The part of a price list that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PricesError {
    #[error(
        "{entry:?} is not a price: write MODEL=INPUT/OUTPUT, in US dollars per million tokens, or MODEL=USD/page"
    )]
    Shape { entry: String },
    #[error("{amount:?} in {entry:?} is not an amount: write a number such as 1.25, not below 0")]
    Amount { entry: String, amount: String },
}

impl Default for Models {
    fn default() -> Self {
        Self(TABLE.iter().map(|(name, known)| ((*name).to_owned(), *known)).collect())
    }
}

impl Models {
    /// The table, overridden and extended by `MODEL=INPUT/OUTPUT,…`. The list may be empty.
    pub fn parse(list: &str) -> Result<Self, PricesError> {
        let mut models = Self::default();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (model, price) = parse_entry(entry)?;
            let (max_output, flex) = (models.max_output(&model), models.has_flex(&model));
            // A discount for cached tokens is not known.
            models.0.insert(model, Known { price, cached: price.input, max_output, flex });
        }
        Ok(models)
    }

    /// What is known of a model; of one on Bedrock, by its name without geography and maker.
    fn of(&self, model: &str) -> Option<Known> {
        if let Some(known) = self.named(model) {
            return Some(*known);
        }
        let profile = model.rsplit_once('/').map_or(model, |(_, profile)| profile);
        let (geography, name) = match profile.split_once('.') {
            Some((geography, name)) if GEOGRAPHIES.contains(&geography) => (Some(geography), name),
            _ => (None, profile),
        };
        let known = self.named(name).or_else(|| self.named(name.strip_prefix("anthropic.")?))?;
        let is_bound = geography.is_some_and(|geography| geography != "global");
        Some(if is_bound { known.times(GEOGRAPHY_FACTOR) } else { *known })
    }

    /// The longest name that `model` equals or starts with, up to a separator: `gpt-5.1` covers
    /// `gpt-5.1-2025-11-13`, not `gpt-5.10`.
    fn named(&self, model: &str) -> Option<&Known> {
        let covers = |name: &str| {
            model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':']))
        };
        let longest = self.0.iter().filter(|(name, _)| covers(name)).max_by_key(|(name, _)| name.len());
        longest.map(|(_, known)| known)
    }

    /// The models that may be called with these settings and that have no known price.
    pub fn unpriced(&self, settings: &Settings) -> Vec<Target> {
        let mut targets = settings.failover_order().targets();
        targets.retain(|target| self.price(&target.model).is_none());
        targets
    }

    pub fn price(&self, model: &str) -> Option<Price> {
        self.of(model).map(|known| known.price)
    }

    /// The longest answer that the model gives, in tokens, where that is known.
    pub(crate) fn max_output(&self, model: &str) -> Option<u32> {
        self.of(model).and_then(|known| known.max_output)
    }

    pub(crate) fn has_flex(&self, model: &str) -> bool {
        self.of(model).is_some_and(|known| known.flex)
    }

    /// Zero where the price is unknown: a wrong figure would be worse than a missing one.
    pub(crate) fn cost_usd(&self, model: &str, used: &Used) -> f64 {
        let Some(mut known) = self.of(model) else { return 0.0 };
        if used.is_flex {
            known = known.times(FLEX_FACTOR);
        }
        let Known { price, cached, .. } = known;
        let plain = used.input.saturating_sub(used.cached).saturating_sub(used.cache_written);
        let cached = used.cached as f64 * cached;
        let written = used.cache_written as f64 * price.input * CACHE_WRITE_FACTOR;
        price.cost_usd(plain, used.output, used.pages) + (cached + written) / 1_000_000.0
    }
}

impl FromStr for Models {
    type Err = PricesError;

    fn from_str(list: &str) -> Result<Self, PricesError> {
        Self::parse(list)
    }
}

fn parse_entry(entry: &str) -> Result<(String, Price), PricesError> {
    let shape = || PricesError::Shape { entry: entry.to_owned() };
    let (model, amounts) = entry.rsplit_once('=').ok_or_else(shape)?;
    let (first, second) = amounts.split_once('/').ok_or_else(shape)?;
    let model = model.trim();
    if model.is_empty() {
        return Err(shape());
    }
    let amount = |text: &str| {
        let parsed = text.trim().parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
        parsed.ok_or_else(|| PricesError::Amount { entry: entry.to_owned(), amount: text.trim().to_owned() })
    };
    let price = match second.trim() {
        "page" => Price { page: amount(first)?, ..Price::default() },
        second => Price::of_tokens(amount(first)?, amount(second)?),
    };
    Ok((model.to_owned(), price))
}

#[cfg(test)]
mod tests {
    use everypage_core::providers::target::Provider;

    use super::*;

    fn used(input: u64, output: u64) -> Used {
        Used { input, output, ..Used::default() }
    }

    #[test]
    fn the_longest_name_wins_and_covers_dated_versions() {
        let models = Models::default();
        let table = [
            ("gpt-5.1", Some(1.25)),
            ("gpt-5.1-2025-11-13", Some(1.25)),
            ("gpt-5.10", None),
            ("gpt-5", None),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("gpt-5.5-pro-2026-04-23", Some(30.0)),
            ("gpt-6-sol", Some(2.0)),
            ("gpt-6.1-terra", Some(1.0)),
            ("gpt-6.2-astra", Some(8.0)),
            ("gpt-6", None),
            ("claude-opus-5", Some(5.0)),
            ("claude-opus-5-5", Some(4.0)),
            ("claude-sonnet-5", Some(2.0)),
            ("claude-sonnet-5-5", Some(2.0)),
            ("claude-haiku-5-5", Some(0.1)),
            ("eu.anthropic.claude-opus-5-5", Some(4.4)),
            ("gpt-4.1-2025-04-14", Some(2.0)),
            ("gpt-4.1-mini-2025-04-14", Some(0.4)),
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-opus-4-5", Some(5.0)),
            ("claude-haiku-4-5@20251001", Some(1.0)),
            ("gemini-3.5-flash-lite", Some(0.3)),
            ("global.anthropic.claude-sonnet-4-6", Some(3.0)),
            ("us.anthropic.claude-sonnet-4-6", Some(3.3)),
            ("anthropic.claude-haiku-4-5-20251001-v1:0", Some(1.0)),
            ("global.amazon.nova-2-lite-v1:0", Some(0.3)),
            ("arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-sonnet-4-6", Some(3.0)),
            ("qwen2.5-vl", None),
            ("", None),
        ];
        for (model, input) in table {
            let found = models.price(model).map(|price| (price.input * 1000.0).round() / 1000.0);
            assert_eq!(found, input, "{model}");
        }
    }

    #[test]
    fn every_default_model_has_a_price() {
        for provider in Provider::ALL {
            let profile = provider.profile();
            for model in [profile.primary_model, profile.secondary_model, profile.fast_model] {
                assert!(Models::default().price(model).is_some(), "{provider}:{model}");
            }
        }
    }

    #[test]
    fn cost_is_what_was_used_times_its_price_and_zero_for_unknown_models() {
        let models = Models::default();
        assert_eq!(models.cost_usd("gpt-5.1", &used(1_000_000, 100_000)), 2.25);
        assert_eq!(models.cost_usd("qwen2.5-vl", &used(1_000_000, 100_000)), 0.0);
        let cached = Used { cached: 400_000, ..used(1_000_000, 0) };
        assert!((models.cost_usd("claude-sonnet-4-6", &cached) - 1.92).abs() < 1e-9);
        let written = Used { cache_written: 400_000, ..used(1_000_000, 0) };
        assert!((models.cost_usd("claude-sonnet-4-6", &written) - 3.3).abs() < 1e-9);
        let flex = Used { is_flex: true, ..used(1_000_000, 100_000) };
        assert_eq!(models.cost_usd("gpt-5.4", &flex), 2.0);
        let page = Used { pages: 1, ..Used::default() };
        assert_eq!(models.cost_usd("mistral-ocr-4-1", &page), 0.004);
    }

    #[test]
    fn a_list_adds_to_the_table_and_overrides_it() {
        let models =
            Models::parse("gpt-5.1=2/20, my-model=0/0 ,a=b=1.5/3,mistral-ocr-2512=0.001/page").unwrap();
        assert_eq!(models.price("gpt-5.1"), Some(Price::of_tokens(2.0, 20.0)));
        assert_eq!(models.max_output("gpt-5.1"), Some(128_000));
        assert_eq!(models.price("my-model"), Some(Price::default()));
        assert_eq!(models.price("a=b"), Some(Price::of_tokens(1.5, 3.0)));
        assert_eq!(models.price("gpt-4.1"), Some(Price::of_tokens(2.0, 8.0)));
        assert_eq!(models.price("mistral-ocr-2512").map(|price| price.page), Some(0.001));
        assert_eq!(Models::parse(""), Ok(Models::default()));
    }

    #[test]
    fn the_error_names_the_invalid_part_of_a_list() {
        let table = [
            ("gpt-5.1", "\"gpt-5.1\" is not a price"),
            ("ok=1/1,gpt-5.1=3", "\"gpt-5.1=3\" is not a price"),
            ("=1/2", "\"=1/2\" is not a price"),
            ("m=1/x", "\"x\" in \"m=1/x\" is not an amount"),
            ("m=x/page", "\"x\" in \"m=x/page\" is not an amount"),
            ("m=-1/2", "\"-1\" in \"m=-1/2\" is not an amount"),
            ("m=1/inf", "\"inf\" in \"m=1/inf\" is not an amount"),
        ];
        for (list, message) in table {
            let error = Models::parse(list).unwrap_err().to_string();
            assert!(error.starts_with(message), "{list}: {error}");
        }
    }
}
