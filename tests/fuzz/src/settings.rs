use std::collections::BTreeMap;

use everypage_core::{job::JobOptions, providers::target::Provider, settings::Settings};

/// Shorter ones are found in any text by chance.
const LONG_ENOUGH: usize = 12;

/// Lines of `NAME=VALUE` give settings, or faults that each name a variable and what it accepts.
/// No key is ever shown.
pub fn settings(data: &[u8]) {
    let given: BTreeMap<&str, &str> = super::assignments(data).into_iter().collect();
    let read = Settings::read(|name| given.get(name).map(|value| (*value).to_owned()));
    let shown = format!("{read:?}");
    for key in Provider::api_key_variables() {
        let Some(secret) = given.get(key).map(|value| value.trim()) else { continue };
        let elsewhere = given.iter().any(|(name, value)| *name != key && value.contains(secret));
        if secret.len() >= LONG_ENOUGH && !elsewhere && !secret.contains(['"', '\\']) {
            assert!(!shown.contains(secret) || default_shows(secret), "{key} is shown");
        }
    }
    match read {
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in faults {
                let named = given.keys().any(|name| !name.is_empty() && fault.contains(name));
                assert!(named && fault.contains("accepted"), "{fault}");
            }
        }
        Ok(reading) => {
            let settings = reading.settings;
            let _ = (settings.failover_order(), JobOptions::from_settings(&settings));
            let _ = everypage_vision::VisionSettings::from_settings(&settings);
            let some: BTreeMap<String, String> =
                given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let _ = settings.overridden(&some);
        }
    }
}

/// A value that the defaults hold as well tells nothing.
fn default_shows(secret: &str) -> bool {
    format!("{:?}", Settings::read(|_| None)).contains(secret)
}
