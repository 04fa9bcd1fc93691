//! The order in which models are called.

use crate::providers::target::{Models, Provider, Target, Tier};

/// The providers that can be called, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverOrder {
    pub providers: Vec<(Provider, Models)>,
}

impl FailoverOrder {
    /// For each provider in order, the tier's model and then its secondary model, without duplicates.
    pub fn steps(&self, tier: Tier) -> Vec<Target> {
        let mut steps: Vec<Target> = Vec::with_capacity(4);
        for (provider, models) in &self.providers {
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

    /// Moves `first` to the front, if it is in the list.
    pub fn starting_with(mut self, first: Provider) -> Self {
        self.providers.sort_by_key(|(provider, _)| *provider != first);
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
        let failover_order = FailoverOrder {
            providers: vec![(Provider::OpenAi, models("o")), (Provider::Anthropic, models("a"))],
        };
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
            let failover_order = FailoverOrder { providers: all[..providers].to_vec() }.starting_with(first);
            let steps = failover_order.steps(tier);
            prop_assert!(steps.len() <= 2 * providers);
            prop_assert_eq!(steps.is_empty(), providers == 0);
            let mut unique = steps.clone();
            unique.sort();
            unique.dedup();
            prop_assert_eq!(unique.len(), steps.len());
            if let Some((provider, models)) = failover_order.providers.first() {
                prop_assert_eq!(&steps[0], &Target::new(*provider, models.of_tier(tier)));
            }
            // The steps of a provider are adjacent.
            let changes = steps.windows(2).filter(|pair| pair[0].provider != pair[1].provider).count();
            prop_assert!(changes < providers.max(1));
        }
    }
}
