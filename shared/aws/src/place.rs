//! Where a stack's parts are, as the template tells its functions in their environment.

use std::collections::BTreeMap;

use everypage_core::domain::ids::Priority;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub table: String,
    pub bucket: String,
    pub state_machine: String,
    pub bus: String,
    pub topic: String,
    /// Seals passwords.
    pub key: String,
    /// Holds what must not stand in an environment, such as API keys.
    pub secrets: Option<String>,
    pub queues: BTreeMap<Priority, String>,
    pub dead_letter_queues: BTreeMap<Priority, String>,
}

/// The variables of [`Place::read`]; the template gives them to every function.
pub const VARIABLES: [&str; 7] = [
    "TABLE_NAME",
    "BUCKET_NAME",
    "STATE_MACHINE_ARN",
    "EVENT_BUS_NAME",
    "TOPIC_ARN",
    "KMS_KEY_ID",
    "SECRETS_ARN",
];

/// `QUEUE_URL_URGENT` and the like.
pub fn queue_variable(kind: &str, lane: Priority) -> String {
    format!("{kind}_URL_{}", format!("{lane:?}").to_ascii_uppercase())
}

impl Place {
    /// All mistakes together, each naming its variable.
    pub fn read(var: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let mut missing = Vec::new();
        let given =
            |name: &str| var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let mut need = |name: &str| {
            given(name).unwrap_or_else(|| {
                missing.push(format!("{name} is not set; the stack's template sets it"));
                String::new()
            })
        };
        let mut place = Self {
            table: need("TABLE_NAME"),
            bucket: need("BUCKET_NAME"),
            state_machine: need("STATE_MACHINE_ARN"),
            bus: need("EVENT_BUS_NAME"),
            topic: need("TOPIC_ARN"),
            key: need("KMS_KEY_ID"),
            secrets: given("SECRETS_ARN"),
            queues: BTreeMap::new(),
            dead_letter_queues: BTreeMap::new(),
        };
        for lane in Priority::ALL {
            place.queues.insert(lane, need(&queue_variable("QUEUE", lane)));
            place.dead_letter_queues.insert(lane, need(&queue_variable("DLQ", lane)));
        }
        if missing.is_empty() { Ok(place) } else { Err(missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_variable_is_named_and_only_secrets_may_be_missing() {
        let faults = Place::read(|_| None).unwrap_err();
        assert_eq!(faults.len(), VARIABLES.len() - 1 + 2 * Priority::ALL.len());
        for name in VARIABLES.iter().filter(|name| **name != "SECRETS_ARN") {
            assert!(faults.iter().any(|fault| fault.starts_with(name)), "{name}: {faults:?}");
        }
        assert!(faults.iter().any(|fault| fault.starts_with("DLQ_URL_URGENT")), "{faults:?}");
        let place = Place::read(|name| Some(format!(" {name} "))).unwrap();
        assert_eq!(place.queues[&Priority::Low], "QUEUE_URL_LOW");
        assert_eq!(place.table, "TABLE_NAME");
    }
}
