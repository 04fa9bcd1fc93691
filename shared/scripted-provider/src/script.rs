//! Which behaviour a call gets: ordered rules, the first that matches and decides.

use std::{str::FromStr, time::Duration};

use everypage_core::providers::target::Provider;
use serde::{Deserialize, Serialize};

use super::{Behaviour, GrammarError, Pages, Shape, Share, Tier, request::ModelRequest};

/// Conditions that must all hold; an absent one always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    pub provider: Option<Provider>,
    /// A name, or a prefix with a final `*`.
    pub model: Option<String>,
    pub page: Option<Pages>,
    /// The shape of the call's image.
    pub shape: Option<Shape>,
    /// The tier that the call asks for.
    pub tier: Option<Tier>,
    /// Skips this many calls that reach the rule.
    pub after_calls: Option<u64>,
    /// Matches this many calls that reach the rule, after `after_calls`.
    pub first_calls: Option<u64>,
    /// Matches this share of the calls that reach the rule, spread at random.
    pub share: Option<Share>,
    /// Milliseconds since the script's first call.
    pub from_ms: Option<u64>,
    /// Milliseconds since the script's first call; exclusive.
    pub to_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    pub when: When,
    pub then: Behaviour,
}

/// Rules in order. Where none matches, the page is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Script {
    pub rules: Vec<Rule>,
}

impl Script {
    /// Parses one rule per text, as on a command line.
    pub fn parse<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> Result<Self, GrammarError> {
        let rules = rules.into_iter().map(|rule| rule.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// A script with one behaviour for every call.
    pub fn always(then: Behaviour) -> Self {
        Self { rules: vec![Rule { when: When::default(), then }] }
    }
}

impl From<Behaviour> for Script {
    fn from(then: Behaviour) -> Self {
        Self::always(then)
    }
}

impl FromStr for Script {
    type Err = GrammarError;

    /// Parses one rule a line; skips empty lines and lines that start with `#`.
    fn from_str(text: &str) -> Result<Self, GrammarError> {
        Self::parse(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')))
    }
}

impl When {
    /// Do the conditions hold for this call, `since` the first one? Those that count calls are not
    /// among them.
    pub(super) fn matches(&self, request: &ModelRequest, since: Duration) -> bool {
        let model = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => request.model.starts_with(start),
            None => request.model == *pattern,
        };
        self.provider.is_none_or(|provider| provider == request.provider)
            && self.model.as_ref().is_none_or(model)
            && self.page.as_ref().is_none_or(|pages| request.page.is_some_and(|page| pages.contains(page)))
            && self.shape.is_none_or(|shape| request.image.is_some_and(|image| shape.fits(image)))
            && self.tier.is_none_or(|tier| tier == request.tier)
            && self.from_ms.is_none_or(|from| since >= Duration::from_millis(from))
            && self.to_ms.is_none_or(|to| since < Duration::from_millis(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_json_too() {
        let json = r#"[{"when":{"provider":"openai","page":"7,9-12","first_calls":3},"then":{"rate_limited":{"retry_after":5}}},
            {"then":"hang"}]"#;
        let script: Script = serde_json::from_str(json).unwrap();
        assert_eq!(
            script,
            Script::parse(["provider=openai;page=7,9-12;first=3=429;retry-after=5", "hang"]).unwrap()
        );
        let json = r#"[{"when":{"share":"3%","from_ms":5000,"to_ms":25000},"then":{"status":500}},
            {"then":{"limit":{"at_once":50,"requests":{"amount":10,"per_ms":60000},"retry_after":"auto","headers":true}}},
            {"then":{"lognormal":{"median_ms":500,"sigma_percent":60,"then":"next"}}}]"#;
        let rules = [
            "share=3%;from=5s;to=25s=500",
            "limit;at-once=50;requests=10/60s;retry-after=auto;headers",
            "next;delay=500ms~0.6",
        ];
        assert_eq!(serde_json::from_str::<Script>(json).unwrap(), Script::parse(rules).unwrap());
        let again: Script = serde_json::from_str(&serde_json::to_string(&script).unwrap()).unwrap();
        assert_eq!(again, script);
        assert!(serde_json::from_str::<Script>(r#"[{"when":{"pages":"7"},"then":"hang"}]"#).is_err());
    }

    #[test]
    fn a_file_of_rules_may_have_comments() {
        let script: Script = "# outage\n\nhang\n  page=1=500\n".parse().unwrap();
        assert_eq!(script, Script::parse(["hang", "page=1=500"]).unwrap());
    }
}
