//! Whom to ask, in which order.

use super::target::{Models, Provider, Target, Tier};

/// The providers that can be asked at all, first the preferred one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    pub engines: Vec<(Provider, Models)>,
}

impl Roster {
    /// Primary provider with the tier's model, then its secondary model; then the same of the
    /// secondary provider. Nobody is asked twice.
    pub fn steps(&self, tier: Tier) -> Vec<Target> {
        let mut steps: Vec<Target> = Vec::with_capacity(4);
        for (provider, models) in &self.engines {
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
    pub fn led_by(mut self, first: Provider) -> Self {
        self.engines.sort_by_key(|(provider, _)| *provider != first);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(prefix: &str) -> Models {
        let name = |role: &str| format!("{prefix}-{role}");
        Models { primary: name("primary"), secondary: name("secondary"), fast: name("fast") }
    }

    fn names(tier: Tier) -> Vec<String> {
        let roster =
            Roster { engines: vec![(Provider::OpenAi, models("o")), (Provider::Anthropic, models("a"))] };
        roster.steps(tier).iter().map(Target::to_string).collect()
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
}
