use std::collections::BTreeMap;

use everypage_core::{job::JobOptions, providers::target::Provider, settings::Settings};

/// Shorter keys may occur in any text by chance.
const MIN_KEY_LENGTH: usize = 12;

/// Lines of `NAME=VALUE` give settings, or errors that each name a variable and what it accepts. No key is
/// ever shown.
pub fn settings(data: &[u8]) {
    let given: BTreeMap<&str, &str> = super::assignments(data).into_iter().collect();
    let read = Settings::read(|name| given.get(name).map(|value| (*value).to_owned()));
    let shown = format!("{read:?}");
    for key in Provider::api_key_variables() {
        let Some(secret) = given.get(key).map(|value| value.trim()) else { continue };
        let elsewhere = given.iter().any(|(name, value)| *name != key && value.contains(secret));
        if secret.len() >= MIN_KEY_LENGTH && !elsewhere && !secret.contains(['"', '\\']) {
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

/// Whether the defaults contain the value too, so that it reveals nothing.
fn default_shows(secret: &str) -> bool {
    format!("{:?}", Settings::read(|_| None)).contains(secret)
}
