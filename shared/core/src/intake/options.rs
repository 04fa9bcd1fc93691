//! Options of a job that a caller overrides, by the names of the command line's options, as text.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, time::Duration};

use crate::{
    ids::Priority,
    job::{JobOptions, selection::PageSelection},
    providers::target::{Provider, Tier},
    settings::{AiPages, parse_duration},
};

/// What was asked for; the rest is as the tenant's settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionOverrides {
    pub pages: Option<PageSelection>,
    pub ai_pages: Option<AiPages>,
    pub tier: Option<Tier>,
    pub provider: Option<Provider>,
    /// How long the job may take, from now.
    pub deadline: Option<Duration>,
    pub priority: Option<Priority>,
    /// Start anew even if the same was asked before.
    pub force: bool,
}

/// An option that can't be used, and what is accepted.
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
    pub const NAMES: [&str; 7] = ["pages", "ai_pages", "tier", "provider", "deadline", "priority", "force"];

    /// Takes one option. `ai-pages` is `ai_pages`, in any case, for doors that know no underscore.
    /// False when there is no option of that name.
    pub fn take(&mut self, name: &str, value: &str) -> Result<bool, OptionError> {
        fn read<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, OptionError> {
            value.parse().map_err(|error| OptionError::new(name, format!("{error}")))
        }
        let (name, value) = (name.to_ascii_lowercase().replace('-', "_"), value.trim());
        match name.as_str() {
            "pages" => self.pages = Some(read(&name, value)?),
            "ai_pages" => self.ai_pages = Some(read(&name, value)?),
            "tier" => self.tier = Some(read(&name, value)?),
            "provider" => self.provider = Some(read(&name, value)?),
            "priority" => self.priority = Some(read(&name, value)?),
            "deadline" => {
                let time = parse_duration(value)
                    .map_err(|wanted| OptionError::new(&name, format!("{value:?} is not {wanted}")))?;
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

    /// Reads options out of a map that may hold other things, such as an object's metadata;
    /// answers every mistake.
    pub fn among<'a>(
        map: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, Vec<OptionError>> {
        let mut wishes = Self::default();
        let taken = map.into_iter().map(|(name, value)| wishes.take(name, value));
        let mistakes: Vec<OptionError> = taken.filter_map(Result::err).collect();
        if mistakes.is_empty() { Ok(wishes) } else { Err(mistakes) }
    }

    /// As [`OptionOverrides::among`] reads them, for those who pass them on.
    pub fn told(&self) -> BTreeMap<String, String> {
        let ai_pages = self.ai_pages.map(|which| match which {
            AiPages::Graphics => "graphics".to_owned(),
            AiPages::All => "all".to_owned(),
        });
        let told = [
            ("pages", self.pages.as_ref().map(ToString::to_string)),
            ("ai_pages", ai_pages),
            ("tier", self.tier.map(|tier| tier.to_string())),
            ("provider", self.provider.map(|provider| provider.to_string())),
            ("deadline", self.deadline.map(|time| format!("{}ms", time.as_millis()))),
            ("priority", self.priority.map(|priority| priority.level().to_string())),
            ("force", self.force.then(|| "true".to_owned())),
        ];
        told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// The options of a job that would otherwise have `default`.
    pub fn over(&self, default: JobOptions) -> JobOptions {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        JobOptions {
            pages: self.pages.clone().unwrap_or(default.pages),
            ai_pages: self.ai_pages.unwrap_or(default.ai_pages),
            tier: self.tier.unwrap_or(default.tier),
            provider: self.provider.unwrap_or(default.provider),
            job_timeout_ms: self.deadline.map_or(default.job_timeout_ms, milliseconds),
            priority: self.priority.unwrap_or(default.priority),
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
    fn options_are_read_whatever_the_door_makes_of_their_names() {
        let given = map(&[("Ai-Pages", "all"), ("deadline", " 2m "), ("priority", "5"), ("sender", "x")]);
        let wishes = OptionOverrides::among(&given).unwrap();
        assert_eq!(wishes.ai_pages, Some(AiPages::All));
        assert_eq!(wishes.deadline, Some(Duration::from_secs(120)));
        assert_eq!(wishes.priority, Some(Priority::Urgent));
        assert_eq!(wishes.pages, None);
    }

    #[test]
    fn every_mistake_is_told_and_says_what_is_accepted() {
        let given = map(&[("pages", "0"), ("tier", "best"), ("deadline", "soon"), ("force", "perhaps")]);
        let mistakes = OptionOverrides::among(&given).unwrap_err();
        let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[1].starts_with("deadline: \"soon\" is not a time with its unit"), "{told:?}");
        assert!(told[3].contains("primary, fast or secondary"), "{told:?}");
    }

    #[test]
    fn what_is_passed_on_is_read_force() {
        assert!(OptionOverrides::default().told().is_empty());
        let all = map(&[
            ("pages", "1-10,12,40-"),
            ("ai_pages", "all"),
            ("tier", "fast"),
            ("provider", "anthropic"),
            ("deadline", "90s"),
            ("priority", "urgent"),
            ("force", "true"),
        ]);
        let wishes = OptionOverrides::among(&all).unwrap();
        let told = wishes.told();
        assert_eq!(told.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
        assert_eq!(OptionOverrides::among(&told), Ok(wishes));
    }

    #[test]
    fn every_name_is_an_option() {
        for name in OptionOverrides::NAMES {
            assert_ne!(OptionOverrides::default().take(name, ""), Ok(false), "{name}");
        }
    }
}
