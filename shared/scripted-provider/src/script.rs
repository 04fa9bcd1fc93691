//! Which behaviour a call gets: ordered rules, the first that matches.

use std::str::FromStr;

use everypage_core::providers::target::Provider;
use serde::{Deserialize, Serialize};

use super::{Behaviour, GrammarError, Pages, Shape, request::ModelRequest};

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
    /// Skips this many calls that reach the rule.
    pub after_calls: Option<u64>,
    /// Matches this many calls that reach the rule, after `after_calls`.
    pub first_calls: Option<u64>,
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

/// A script in use, with the number of calls that reached each rule.
#[derive(Debug, Default)]
pub(super) struct RunningScript {
    script: Script,
    reached: Vec<u64>,
}

impl RunningScript {
    pub(super) fn new(script: Script) -> Self {
        Self { reached: vec![0; script.rules.len()], script }
    }

    /// Restarts the script.
    pub(super) fn rewind(&mut self) {
        self.reached.fill(0);
    }

    pub(super) fn next(&mut self, request: &ModelRequest) -> Behaviour {
        for (rule, reached) in self.script.rules.iter().zip(&mut self.reached) {
            if !rule.when.matches(request) {
                continue;
            }
            let earlier = *reached;
            *reached += 1;
            let after = rule.when.after_calls.unwrap_or(0);
            let within = |first: u64| earlier < after.saturating_add(first);
            if earlier >= after && rule.when.first_calls.is_none_or(within) {
                return rule.then.clone();
            }
        }
        Behaviour::Answer
    }
}

impl When {
    fn matches(&self, request: &ModelRequest) -> bool {
        let model = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => request.model.starts_with(start),
            None => request.model == *pattern,
        };
        self.provider.is_none_or(|provider| provider == request.provider)
            && self.model.as_ref().is_none_or(model)
            && self.page.as_ref().is_none_or(|pages| request.page.is_some_and(|page| pages.contains(page)))
            && self.shape.is_none_or(|shape| request.image.is_some_and(|image| shape.fits(image)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(rules: &[&str], calls: &[(Provider, &str, u32)]) -> Vec<String> {
        let mut script = RunningScript::new(Script::parse(rules).unwrap());
        let request = |&(provider, model, page): &(Provider, &str, u32)| ModelRequest {
            provider,
            model: model.to_owned(),
            page: (page > 0).then_some(page),
            ..ModelRequest::default()
        };
        calls
            .iter()
            .map(|call| Rule { then: script.next(&request(call)), ..Rule::default() }.to_string())
            .collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Provider::{Anthropic, OpenAi};
        let rules = ["openai:gpt-4*=hang", "page=2=500", "anthropic:*=html"];
        let calls = [(OpenAi, "gpt-4.1", 2), (OpenAi, "gpt-5", 2), (Anthropic, "c", 3), (OpenAi, "gpt-5", 0)];
        assert_eq!(play(&rules, &calls), ["hang", "500", "html", "answer"]);
    }

    #[test]
    fn first_and_after_count_the_calls_that_reach_the_rule() {
        let calls = [(Provider::OpenAi, "m", 1); 6];
        assert_eq!(play(&["first=2=529", "first=1=500"], &calls[..4]), ["529", "529", "500", "answer"]);
        assert_eq!(play(&["after=2=hang"], &calls[..4]), ["answer", "answer", "hang", "hang"]);
        let between = play(&["after=1;first=2=reset"], &calls[..5]);
        assert_eq!(between, ["answer", "reset", "reset", "answer", "answer"]);
    }

    #[test]
    fn scripts_are_json_too() {
        let json = r#"[{"when":{"provider":"openai","page":"7,9-12","first_calls":3},"then":{"rate_limited":{"retry_after":5}}},
            {"then":"hang"}]"#;
        let script: Script = serde_json::from_str(json).unwrap();
        assert_eq!(
            script,
            Script::parse(["provider=openai;page=7,9-12;first=3=429;retry-after=5", "hang"]).unwrap()
        );
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
