//! Whom to ask, in which order.

use crate::providers::target::{Models, Provider, Target, Tier};

/// The providers that can be asked at all, first the preferred one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverOrder {
    pub providers: Vec<(Provider, Models)>,
}

impl FailoverOrder {
    /// Primary provider with the tier's model, then its secondary model; then the same of the
    /// secondary provider. Nobody is asked twice.
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

    /// Puts `first` in front, where it is available at all.
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
    fn each_provider_is_asked_with_the_tiers_model_and_then_its_secondary() {
        assert_eq!(
            names(Tier::Primary),
            ["openai:o-primary", "openai:o-secondary", "anthropic:a-primary", "anthropic:a-secondary"]
        );
        assert_eq!(names(Tier::Fast)[0], "openai:o-fast");
    }

    #[test]
    fn nobody_is_asked_twice() {
        assert_eq!(names(Tier::Secondary), ["openai:o-secondary", "anthropic:a-secondary"]);
    }

    proptest! {
        /// Whatever the models are called and whoever leads: at most four steps, none twice, the
        /// leader's first, and everybody who can be asked is.
        #[test]
        fn the_order_holds_for_any_roster(
            names in prop::collection::vec("[ab]", 6),
            providers in 0usize..3,
            lead: bool,
            tier in prop::sample::select(vec![Tier::Primary, Tier::Fast, Tier::Secondary]),
        ) {
            let models = |from: usize| Models {
                primary: names[from].clone(),
                secondary: names[from + 1].clone(),
                fast: names[from + 2].clone(),
            };
            let all = [(Provider::OpenAi, models(0)), (Provider::Anthropic, models(3))];
            let first = if lead { Provider::Anthropic } else { Provider::OpenAi };
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
            // A provider's steps stand together.
            let changes = steps.windows(2).filter(|pair| pair[0].provider != pair[1].provider).count();
            prop_assert!(changes < providers.max(1));
        }
    }
}
