//! Which behaviour a call gets: ordered rules, the first that matches.

use std::str::FromStr;

use everypage_core::domain::target::Provider;
use serde::{Deserialize, Serialize};

use super::{Behaviour, GrammarError, Pages, Shape, request::Asked};

/// Conditions that must all hold; an absent one always does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    pub provider: Option<Provider>,
    /// A name, or with a final `*` the beginning of one.
    pub model: Option<String>,
    pub page: Option<Pages>,
    /// Of the image that comes with the call.
    pub shape: Option<Shape>,
    /// Not the first so many calls that come to this rule.
    pub after_calls: Option<u64>,
    /// Only so many calls that come to this rule, once `after_calls` are over.
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
    /// One rule for each text, as on a command line.
    pub fn parse<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> Result<Self, GrammarError> {
        let rules = rules.into_iter().map(|rule| rule.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// The same for every call.
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

    /// One rule a line; empty lines and lines that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Self, GrammarError> {
        Self::parse(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')))
    }
}

/// A script being played: how many calls have come to each rule.
#[derive(Debug, Default)]
pub(super) struct Playing {
    script: Script,
    come: Vec<u64>,
}

impl Playing {
    pub(super) fn new(script: Script) -> Self {
        Self { come: vec![0; script.rules.len()], script }
    }

    /// From the beginning, with every rule fresh.
    pub(super) fn rewind(&mut self) {
        self.come.fill(0);
    }

    pub(super) fn next(&mut self, asked: &Asked) -> Behaviour {
        for (rule, come) in self.script.rules.iter().zip(&mut self.come) {
            if !rule.when.describes(asked) {
                continue;
            }
            let earlier = *come;
            *come += 1;
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
    fn describes(&self, asked: &Asked) -> bool {
        let model = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => asked.model.starts_with(start),
            None => asked.model == *pattern,
        };
        self.provider.is_none_or(|provider| provider == asked.provider)
            && self.model.as_ref().is_none_or(model)
            && self.page.as_ref().is_none_or(|pages| asked.page.is_some_and(|page| pages.contains(page)))
            && self.shape.is_none_or(|shape| asked.image.is_some_and(|image| shape.fits(image)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(rules: &[&str], calls: &[(Provider, &str, u32)]) -> Vec<String> {
        let mut playing = Playing::new(Script::parse(rules).unwrap());
        let asked = |&(provider, model, page): &(Provider, &str, u32)| Asked {
            provider,
            model: model.to_owned(),
            page: (page > 0).then_some(page),
            ..Asked::default()
        };
        calls
            .iter()
            .map(|call| Rule { then: playing.next(&asked(call)), ..Rule::default() }.to_string())
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
    fn first_and_after_count_the_calls_that_come_to_the_rule() {
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
