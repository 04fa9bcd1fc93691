//! The prices of models.

use std::{collections::BTreeMap, str::FromStr};

use everypage_core::ports::vision::Price;

/// Prices by model name; a name also covers its dated and suffixed versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices(BTreeMap<String, Price>);

/// The part of a price list that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PricesError {
    #[error("{entry:?} is not a price: write MODEL=INPUT/OUTPUT, in US dollars per million tokens")]
    Shape { entry: String },
    #[error("{amount:?} in {entry:?} is not an amount: write a number such as 1.25, not below 0")]
    Amount { entry: String, amount: String },
}

/// Model, US dollars per million input tokens, and per million output tokens: the providers' list
/// prices of the default models, and of cheaper models whose names start with one of theirs and which
/// it would cover otherwise.
const BUILT_IN: [(&str, f64, f64); 13] = [
    ("gpt-5.4", 2.5, 15.0),
    ("gpt-5.4-mini", 0.75, 4.5),
    ("gpt-5.4-nano", 0.2, 1.25),
    ("claude-sonnet-4-6", 3.0, 15.0),
    ("claude-opus-4-6", 5.0, 25.0),
    ("gpt-5.1", 1.25, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4.1-mini", 0.4, 1.6),
    ("gpt-4.1-nano", 0.1, 0.4),
    ("claude-sonnet-4-5", 3.0, 15.0),
    ("claude-opus-4-5", 5.0, 25.0),
    ("claude-haiku-4-5", 1.0, 5.0),
];

impl Default for Prices {
    fn default() -> Self {
        let price = |(model, input, output): (&str, f64, f64)| (model.to_owned(), Price { input, output });
        Self(BUILT_IN.into_iter().map(price).collect())
    }
}

impl Prices {
    /// The built-in prices, overridden and extended by `MODEL=INPUT/OUTPUT,…`. The list may be empty.
    pub fn parse(list: &str) -> Result<Self, PricesError> {
        let mut prices = Self::default();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (model, price) = parse_entry(entry)?;
            prices.0.insert(model, price);
        }
        Ok(prices)
    }

    /// The price of the longest name that `model` equals or starts with, up to a separator:
    /// `gpt-5.1` covers `gpt-5.1-2025-11-13`, not `gpt-5.10`.
    pub fn of(&self, model: &str) -> Option<Price> {
        let covers = |name: &str| {
            model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':']))
        };
        let longest = self.0.iter().filter(|(name, _)| covers(name)).max_by_key(|(name, _)| name.len());
        longest.map(|(_, price)| *price)
    }

    /// Zero where the price is unknown: a wrong figure would be worse than a missing one.
    pub fn cost_usd(&self, model: &str, input_tokens: u64, output_tokens: u64) -> f64 {
        self.of(model).map_or(0.0, |price| {
            (input_tokens as f64 * price.input + output_tokens as f64 * price.output) / 1_000_000.0
        })
    }
}

impl FromStr for Prices {
    type Err = PricesError;

    fn from_str(list: &str) -> Result<Self, PricesError> {
        Self::parse(list)
    }
}

fn parse_entry(entry: &str) -> Result<(String, Price), PricesError> {
    let shape = || PricesError::Shape { entry: entry.to_owned() };
    let (model, amounts) = entry.rsplit_once('=').ok_or_else(shape)?;
    let (input, output) = amounts.split_once('/').ok_or_else(shape)?;
    let model = model.trim();
    if model.is_empty() {
        return Err(shape());
    }
    let amount = |text: &str| {
        let parsed = text.trim().parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
        parsed.ok_or_else(|| PricesError::Amount { entry: entry.to_owned(), amount: text.trim().to_owned() })
    };
    Ok((model.to_owned(), Price { input: amount(input)?, output: amount(output)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_wins_and_covers_dated_versions() {
        let prices = Prices::default();
        let table = [
            ("gpt-5.1", Some(1.25)),
            ("gpt-5.1-2025-11-13", Some(1.25)),
            ("gpt-5.10", None),
            ("gpt-5", None),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("gpt-4.1-2025-04-14", Some(2.0)),
            ("gpt-4.1-mini-2025-04-14", Some(0.4)),
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-opus-4-5", Some(5.0)),
            ("claude-haiku-4-5@20251001", Some(1.0)),
            ("qwen2.5-vl", None),
            ("", None),
        ];
        for (model, input) in table {
            assert_eq!(prices.of(model).map(|price| price.input), input, "{model}");
        }
    }

    #[test]
    fn cost_is_tokens_times_price_and_zero_for_unknown_models() {
        let prices = Prices::default();
        assert_eq!(prices.cost_usd("gpt-5.1", 1_000_000, 100_000), 2.25);
        assert_eq!(prices.cost_usd("qwen2.5-vl", 1_000_000, 100_000), 0.0);
    }

    #[test]
    fn a_list_adds_to_the_built_in_prices_and_overrides_them() {
        let prices = Prices::parse("gpt-5.1=2/20, my-model=0/0 ,a=b=1.5/3,").unwrap();
        assert_eq!(prices.of("gpt-5.1"), Some(Price { input: 2.0, output: 20.0 }));
        assert_eq!(prices.of("my-model"), Some(Price { input: 0.0, output: 0.0 }));
        assert_eq!(prices.of("a=b"), Some(Price { input: 1.5, output: 3.0 }));
        assert_eq!(prices.of("gpt-4.1"), Some(Price { input: 2.0, output: 8.0 }));
        assert_eq!(Prices::parse(""), Ok(Prices::default()));
    }

    #[test]
    fn the_error_names_the_invalid_part_of_a_list() {
        let table = [
            ("gpt-5.1", "\"gpt-5.1\" is not a price"),
            ("ok=1/1,gpt-5.1=3", "\"gpt-5.1=3\" is not a price"),
            ("=1/2", "\"=1/2\" is not a price"),
            ("m=1/x", "\"x\" in \"m=1/x\" is not an amount"),
            ("m=-1/2", "\"-1\" in \"m=-1/2\" is not an amount"),
            ("m=1/inf", "\"inf\" in \"m=1/inf\" is not an amount"),
        ];
        for (list, message) in table {
            let error = Prices::parse(list).unwrap_err().to_string();
            assert!(error.starts_with(message), "{list}: {error}");
        }
    }
}
