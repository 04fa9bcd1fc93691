//! Reads variables by kind, and collects their values and all errors.

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::{
    secret::Secret,
    settings::{Entry, Variables, parse_duration},
};

pub fn show_duration(time: &Duration) -> String {
    match time.as_millis() {
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// Reads variables through `var`, and collects what it found.
pub struct Reader<'a> {
    var: &'a dyn Fn(&str) -> Option<String>,
    /// The variables that are set.
    pub given: Variables,
    pub entries: Vec<Entry>,
    pub warnings: Vec<String>,
    pub faults: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(var: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { var, given: Variables::default(), entries: vec![], warnings: vec![], faults: vec![] }
    }

    pub fn secret(&mut self, name: &'static str, about: &'static str) -> Option<Secret> {
        let secret = self.raw(name).map(Secret::new);
        let shown = if secret.is_some() { "(set)" } else { "(not set)" };
        self.add_entry(name, shown.into(), secret.is_some(), about);
        secret
    }

    pub fn url(&mut self, name: &'static str, unset: &str, about: &'static str) -> Option<String> {
        let url = self.raw(name);
        if let Some(url) = &url
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            self.fault(name, &without_credentials(url), "a URL that starts with http:// or https://");
        }
        let shown = url.as_deref().map_or_else(|| unset.into(), without_credentials);
        self.add_entry(name, shown, url.is_some(), about);
        url
    }

    /// A URL that may hold credentials, and is never shown.
    pub fn hidden_url(
        &mut self,
        name: &'static str,
        schemes: &[&str],
        about: &'static str,
    ) -> Option<Secret> {
        let url = self.secret(name, about);
        let has_scheme = |url: &Secret| {
            schemes
                .iter()
                .any(|scheme| url.expose().strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://")))
        };
        if url.as_ref().is_some_and(|url| !has_scheme(url)) {
            let accepted: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
            self.fault(name, "(hidden)", &format!("a URL that starts with {}", accepted.join(" or ")));
        }
        url
    }

    /// The value as it is set; an empty value counts as not set.
    pub fn raw(&mut self, name: &str) -> Option<String> {
        let value =
            (self.var)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())?;
        self.given.0.insert(name.to_owned(), value.clone());
        Some(value)
    }

    pub fn add_entry(
        &mut self,
        name: &'static str,
        value: String,
        from_environment: bool,
        about: &'static str,
    ) {
        self.entries.push(Entry { name, value, from_environment, about });
    }

    pub fn fault(&mut self, name: &str, value: &str, accepted: &str) {
        self.faults.push(format!("{name} is {value:?}; accepted: {accepted}"));
    }

    pub fn text(&mut self, name: &'static str, about: &'static str) -> Option<String> {
        let value = self.raw(name);
        self.add_entry(name, value.clone().unwrap_or_else(|| "(not set)".into()), value.is_some(), about);
        value
    }

    pub fn parsed<T: FromStr + Display + Clone>(
        &mut self,
        name: &'static str,
        default: T,
        accepted: &str,
        about: &'static str,
    ) -> T {
        let raw = self.raw(name);
        let value = match raw.as_deref().map(str::parse) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(_)) => {
                self.fault(name, raw.as_deref().unwrap_or_default(), accepted);
                default
            }
        };
        self.add_entry(name, value.to_string(), raw.is_some(), about);
        value
    }

    pub fn bounded<T: FromStr + Display + Clone + PartialOrd>(
        &mut self,
        name: &'static str,
        default: T,
        min: T,
        max: T,
        about: &'static str,
    ) -> T {
        let accepted = format!("a whole number from {min} to {max}");
        let value = self.parsed(name, default.clone(), &accepted, about);
        if value < min || value > max {
            self.fault(name, &value.to_string(), &accepted);
            return default;
        }
        value
    }

    /// Reads a whole number from 1 to `max`, or `auto`, which is the default and `None`.
    pub fn bounded_or_auto(&mut self, name: &'static str, max: usize, about: &'static str) -> Option<usize> {
        let raw = self.raw(name);
        let value = match raw.as_deref() {
            None => None,
            Some(text) if text.eq_ignore_ascii_case("auto") => None,
            Some(text) => match text.parse() {
                Ok(value) if (1..=max).contains(&value) => Some(value),
                _ => {
                    self.fault(name, text, &format!("auto, or a whole number from 1 to {max}"));
                    None
                }
            },
        };
        let shown = value.map_or_else(|| "auto".to_owned(), |value| value.to_string());
        self.add_entry(name, shown, raw.is_some(), about);
        value
    }

    /// Reads one of `choices`; the first one is the default.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&'static str, T)],
        about: &'static str,
    ) -> T {
        let raw = self.raw(name);
        let wanted = raw.as_deref().unwrap_or(choices[0].0).to_ascii_lowercase();
        let found = choices.iter().find(|(word, _)| *word == wanted);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.fault(name, &wanted, &words.join(" or "));
        }
        let (word, value) = found.copied().unwrap_or(choices[0]);
        self.add_entry(name, word.to_owned(), raw.is_some(), about);
        value
    }

    pub fn flag(&mut self, name: &'static str, about: &'static str) -> bool {
        self.choice(
            name,
            &[("false", false), ("true", true), ("0", false), ("1", true), ("no", false), ("yes", true)],
            about,
        )
    }

    /// On unless it is turned off.
    pub fn switch(&mut self, name: &'static str, about: &'static str) -> bool {
        self.choice(name, &[("on", true), ("off", false)], about)
    }

    pub fn duration(
        &mut self,
        name: &'static str,
        old_name: Option<&'static str>,
        default_ms: u64,
        about: &'static str,
    ) -> Duration {
        let mut from = name;
        let mut raw = self.raw(name);
        if let Some(old) = old_name
            && let Some(value) = self.raw(old)
        {
            self.warnings.push(match raw {
                None => format!("{old} is an old name; use {name}"),
                Some(_) => format!("{old} is an old name and ignored because {name} is set"),
            });
            if raw.is_none() {
                raw = Some(value);
                from = old;
            }
        }
        let default = Duration::from_millis(default_ms);
        let time = match raw.as_deref().map(parse_duration) {
            None => default,
            Some(Ok(time)) => time,
            Some(Err(accepted)) => {
                self.fault(from, raw.as_deref().unwrap_or_default(), &accepted);
                default
            }
        };
        self.add_entry(name, show_duration(&time), raw.is_some(), about);
        time
    }

    pub fn optional_usd(&mut self, name: &'static str, about: &'static str) -> Option<f64> {
        let raw = self.text(name, about)?;
        match raw.parse::<f64>() {
            Ok(usd) if usd.is_finite() && usd >= 0.0 => Some(usd),
            _ => {
                self.fault(name, &raw, "an amount in US dollars such as 2.50");
                None
            }
        }
    }
}

/// An address as it may be shown: without the name and password before the host.
fn without_credentials(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}***{}", &rest[at..]),
        None => url.to_owned(),
    }
}
