//! The order in which models are called.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::providers::target::{Models, Provider, Target, Tier};

/// An ordered list of models, written `openai:gpt-5.4,gemini:gemini-3.8-flash`. An empty one means that the
/// order is derived from the providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FailoverList(pub Vec<Target>);

impl FailoverList {
    pub const ACCEPTED: &str = "models as PROVIDER:MODEL, separated by commas, each once, such as openai:gpt-5.4,gemini:gemini-3.8-flash";

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for FailoverList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut targets: Vec<Target> = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let target: Target = entry.parse()?;
            if targets.contains(&target) {
                return Err(format!("{target} is listed twice"));
            }
            targets.push(target);
        }
        Ok(Self(targets))
    }
}

impl fmt::Display for FailoverList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Target::to_string).collect();
        f.write_str(&names.join(","))
    }
}

/// The models that can be called, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailoverOrder {
    /// For each provider, the preferred one first, the tier's model and then its secondary model.
    ByTier(Vec<(Provider, Models)>),
    /// These models, whatever the tier.
    List(Vec<Target>),
}

impl FailoverOrder {
    /// The models in the order in which they are called, without duplicates.
    pub fn steps(&self, tier: Tier) -> Vec<Target> {
        let providers = match self {
            Self::List(targets) => return targets.clone(),
            Self::ByTier(providers) => providers,
        };
        let mut steps: Vec<Target> = Vec::with_capacity(4);
        for (provider, models) in providers {
            for model in [models.of_tier(tier), models.of_tier(Tier::Secondary)] {
                let target = Target::new(*provider, model);
                if !steps.contains(&target) {
                    steps.push(target);
                }
            }
        }
        steps
    }

    /// Every model that a job may call, whatever its tier.
    pub fn targets(&self) -> Vec<Target> {
        let tiers = [Tier::Primary, Tier::Secondary, Tier::Fast];
        let mut targets: Vec<Target> = tiers.into_iter().flat_map(|tier| self.steps(tier)).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    /// No model can be called.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::ByTier(providers) => providers.is_empty(),
            Self::List(targets) => targets.is_empty(),
        }
    }

    /// The providers of the models, in order.
    pub fn providers(&self) -> Vec<Provider> {
        let mut providers: Vec<Provider> = match self {
            Self::ByTier(providers) => providers.iter().map(|(provider, _)| *provider).collect(),
            Self::List(targets) => targets.iter().map(|target| target.provider).collect(),
        };
        let mut seen = Vec::new();
        providers.retain(|provider| {
            let is_new = !seen.contains(provider);
            seen.push(*provider);
            is_new
        });
        providers
    }

    /// Moves the models of `first` to the front, if there are any and none of them is there. The others keep
    /// their order.
    pub fn starting_with(mut self, first: Provider) -> Self {
        match &mut self {
            Self::ByTier(providers) => providers.sort_by_key(|(provider, _)| *provider != first),
            Self::List(targets) if targets.first().is_some_and(|target| target.provider == first) => {}
            Self::List(targets) => targets.sort_by_key(|target| target.provider != first),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn models(prefix: &str) -> Models {
        let name = |role: &str| format!("{prefix}-{role}");
        Models { primary: name("primary"), secondary: name("secondary"), fast: name("fast") }
    }

    fn names(tier: Tier) -> Vec<String> {
        let failover_order =
            FailoverOrder::ByTier(vec![(Provider::OpenAi, models("o")), (Provider::Anthropic, models("a"))]);
        failover_order.steps(tier).iter().map(Target::to_string).collect()
    }

    #[test]
    fn each_provider_is_called_with_the_tiers_model_and_then_its_secondary() {
        assert_eq!(
            names(Tier::Primary),
            ["openai:o-primary", "openai:o-secondary", "anthropic:a-primary", "anthropic:a-secondary"]
        );
        assert_eq!(names(Tier::Fast)[0], "openai:o-fast");
    }

    #[test]
    fn no_model_is_called_twice() {
        assert_eq!(names(Tier::Secondary), ["openai:o-secondary", "anthropic:a-secondary"]);
    }

    #[test]
    fn a_list_is_called_in_its_own_order_whatever_the_tier() {
        let text = "mistral:mistral-ocr-4-1,openai:a,gemini:b,openai:us.c:0,anthropic:d,azure:e";
        let list: FailoverList = text.parse().unwrap();
        assert_eq!(list.to_string(), text);
        let order = FailoverOrder::List(list.0.clone());
        assert_eq!(order.steps(Tier::Primary), list.0);
        assert_eq!(order.steps(Tier::Fast), list.0);
        use Provider::{Anthropic, Azure, Gemini, Mistral, OpenAi};
        assert_eq!(order.providers(), [Mistral, OpenAi, Gemini, Anthropic, Azure]);
        assert_eq!(order.clone().starting_with(Mistral), order);
        let moved = order.starting_with(OpenAi).steps(Tier::Primary);
        let moved: Vec<&str> = moved.iter().map(|target| target.model.as_str()).collect();
        assert_eq!(moved, ["a", "us.c:0", "mistral-ocr-4-1", "b", "d", "e"]);
    }

    #[test]
    fn a_bad_list_is_an_error_that_says_what_is_wrong() {
        for (text, message) in [
            ("gpt-5.4", "\"gpt-5.4\" is not PROVIDER:MODEL"),
            ("openai:", "\"openai:\" is not PROVIDER:MODEL"),
            ("grok:x", "unknown provider \"grok\""),
            ("openai:a, openai:a", "openai:a is listed twice"),
        ] {
            let error = text.parse::<FailoverList>().unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        assert_eq!(" ,".parse::<FailoverList>(), Ok(FailoverList::default()));
    }

    proptest! {
        /// With any model names and any preferred provider: at most two steps per provider, none twice,
        /// and the preferred provider's first.
        #[test]
        fn the_order_holds_for_any_providers_and_models(
            names in prop::collection::vec("[ab]", 6),
            providers in 0usize..3,
            anthropic_first: bool,
            tier in prop::sample::select(vec![Tier::Primary, Tier::Fast, Tier::Secondary]),
        ) {
            let models = |from: usize| Models {
                primary: names[from].clone(),
                secondary: names[from + 1].clone(),
                fast: names[from + 2].clone(),
            };
            let all = [(Provider::OpenAi, models(0)), (Provider::Anthropic, models(3))];
            let first = if anthropic_first { Provider::Anthropic } else { Provider::OpenAi };
            let failover_order = FailoverOrder::ByTier(all[..providers].to_vec()).starting_with(first);
            let steps = failover_order.steps(tier);
            prop_assert!(steps.len() <= 2 * providers);
            prop_assert_eq!(steps.is_empty(), providers == 0);
            let mut unique = steps.clone();
            unique.sort();
            unique.dedup();
            prop_assert_eq!(unique.len(), steps.len());
            if let FailoverOrder::ByTier(providers) = &failover_order
                && let Some((provider, models)) = providers.first()
            {
                prop_assert_eq!(&steps[0], &Target::new(*provider, models.of_tier(tier)));
            }
            // The steps of a provider are adjacent.
            let changes = steps.windows(2).filter(|pair| pair[0].provider != pair[1].provider).count();
            prop_assert!(changes < providers.max(1));
        }
    }
}
