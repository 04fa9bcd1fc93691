//! The options of a job that a caller overrides, read from text by the names that the command line uses.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, time::Duration};

use crate::{
    ids::Priority,
    job::{JobOptions, selection::PageSelection},
    money::MicroUsd,
    providers::{
        failover::FailoverList,
        target::{Provider, Tier},
    },
    settings::{AiPages, Cost, Patience, parse_duration},
};

/// The options that a caller set. The others come from the tenant's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionOverrides {
    pub pages: Option<PageSelection>,
    pub ai_pages: Option<AiPages>,
    pub tier: Option<Tier>,
    pub provider: Option<Provider>,
    /// Time from acceptance to the job's deadline.
    pub deadline: Option<Duration>,
    pub priority: Option<Priority>,
    /// How long a page is retried after failures that pass.
    pub patience: Option<Patience>,
    /// Models in the order in which they are called.
    pub failover: Option<FailoverList>,
    /// What the job's model calls may cost.
    pub budget_usd: Option<MicroUsd>,
    pub cost: Option<Cost>,
    /// Create a new job even if the request is a repetition.
    pub force: bool,
}

/// An invalid option, and which values are accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct OptionError {
    pub name: String,
    pub message: String,
}

impl OptionError {
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into() }
    }
}

impl OptionOverrides {
    pub const NAMES: [&str; 11] = [
        "pages",
        "ai_pages",
        "tier",
        "provider",
        "failover",
        "deadline",
        "patience",
        "priority",
        "budget_usd",
        "cost",
        "force",
    ];

    /// Sets one option; false if there is no option of that name. Names are matched in any case, with `-`
    /// for `_`, because headers and metadata allow no underscore.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, OptionError> {
        fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, OptionError> {
            value.parse().map_err(|error| OptionError::new(name, format!("{error}")))
        }
        let (name, value) = (name.to_ascii_lowercase().replace('-', "_"), value.trim());
        match name.as_str() {
            "pages" => self.pages = Some(parse(&name, value)?),
            "ai_pages" => self.ai_pages = Some(parse(&name, value)?),
            "tier" => self.tier = Some(parse(&name, value)?),
            "provider" => self.provider = Some(parse(&name, value)?),
            "priority" => self.priority = Some(parse(&name, value)?),
            "patience" => self.patience = Some(parse(&name, value)?),
            "cost" => self.cost = Some(parse(&name, value)?),
            "budget_usd" => self.budget_usd = Some(parse(&name, value)?),
            "failover" => self.failover = Some(parse(&name, value)?),
            "deadline" => {
                let time = parse_duration(value)
                    .map_err(|accepted| OptionError::new(&name, format!("{value:?} is not {accepted}")))?;
                self.deadline = Some(time);
            }
            "force" => {
                self.force = match value.to_ascii_lowercase().as_str() {
                    "true" | "1" | "yes" => true,
                    "false" | "0" | "no" => false,
                    _ => return Err(OptionError::new(&name, format!("{value:?} is not true or false"))),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options from a map that may have other entries, such as an object's metadata. Returns the
    /// errors of all invalid options.
    pub fn from_map<'a>(
        map: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, Vec<OptionError>> {
        let mut overrides = Self::default();
        let results = map.into_iter().map(|(name, value)| overrides.set(name, value));
        let errors: Vec<OptionError> = results.filter_map(Result::err).collect();
        if errors.is_empty() { Ok(overrides) } else { Err(errors) }
    }

    /// The options as text, which [`OptionOverrides::from_map`] reads again.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let options = [
            ("pages", self.pages.as_ref().map(ToString::to_string)),
            ("ai_pages", self.ai_pages.map(|ai_pages| ai_pages.to_string())),
            ("tier", self.tier.map(|tier| tier.to_string())),
            ("provider", self.provider.map(|provider| provider.to_string())),
            ("failover", self.failover.as_ref().map(ToString::to_string)),
            ("cost", self.cost.map(|cost| cost.to_string())),
            ("budget_usd", self.budget_usd.map(|budget| budget.to_string())),
            ("deadline", self.deadline.map(|time| format!("{}ms", time.as_millis()))),
            ("patience", self.patience.map(|patience| patience.to_string())),
            ("priority", self.priority.map(|priority| priority.level().to_string())),
            ("force", self.force.then(|| "true".to_owned())),
        ];
        options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// Replaces the options in `default` that are set here.
    pub fn apply_to(&self, default: JobOptions) -> JobOptions {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // A list of models says which provider is first.
        let listed = self.failover.as_ref().and_then(|list| list.0.first()).map(|target| target.provider);
        JobOptions {
            pages: self.pages.clone().unwrap_or(default.pages),
            ai_pages: self.ai_pages.unwrap_or(default.ai_pages),
            tier: self.tier.unwrap_or(default.tier),
            provider: self.provider.or(listed).unwrap_or(default.provider),
            job_timeout_ms: self.deadline.map_or(default.job_timeout_ms, milliseconds),
            deadline_given: self.deadline.is_some() || default.deadline_given,
            priority: self.priority.unwrap_or(default.priority),
            patience: self.patience.unwrap_or(default.patience),
            failover: self.failover.clone().unwrap_or(default.failover),
            budget_usd: self.budget_usd.or(default.budget_usd),
            cost: self.cost.unwrap_or(default.cost),
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn option_names_are_read_in_any_case_and_with_dashes() {
        let given = map(&[("Ai-Pages", "all"), ("deadline", " 2m "), ("priority", "5"), ("sender", "x")]);
        let overrides = OptionOverrides::from_map(&given).unwrap();
        assert_eq!(overrides.ai_pages, Some(AiPages::All));
        assert_eq!(overrides.deadline, Some(Duration::from_secs(120)));
        assert_eq!(overrides.priority, Some(Priority::Urgent));
        assert_eq!(overrides.pages, None);
    }

    #[test]
    fn all_invalid_options_are_reported_with_the_accepted_values() {
        let given = map(&[("pages", "0"), ("tier", "best"), ("deadline", "soon"), ("force", "perhaps")]);
        let errors = OptionOverrides::from_map(&given).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(errors[0].starts_with("deadline: \"soon\" is not a time with its unit"), "{errors:?}");
        assert!(errors[3].contains("accepted: primary, fast, secondary"), "{errors:?}");
    }

    #[test]
    fn the_map_of_the_options_is_read_back_as_the_same_options() {
        assert!(OptionOverrides::default().to_map().is_empty());
        let all = map(&[
            ("pages", "1-10,12,40-"),
            ("ai_pages", "all"),
            ("tier", "fast"),
            ("provider", "anthropic"),
            ("failover", "gemini:gemini-3.8-flash,openai:gpt-5.4"),
            ("budget_usd", "2.5"),
            ("cost", "low"),
            ("deadline", "90s"),
            ("patience", "30s"),
            ("priority", "urgent"),
            ("force", "true"),
        ]);
        let overrides = OptionOverrides::from_map(&all).unwrap();
        let written = overrides.to_map();
        assert_eq!(written.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
        assert_eq!(OptionOverrides::from_map(&written), Ok(overrides));
    }

    #[test]
    fn every_name_is_an_option() {
        for name in OptionOverrides::NAMES {
            assert_ne!(OptionOverrides::default().set(name, ""), Ok(false), "{name}");
        }
    }
}
