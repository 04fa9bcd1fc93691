//! The names of a stack's resources: read from the environment that the template gives its
//! functions, or derived from the stack's name.

use std::collections::BTreeMap;

use everypage_core::ids::Priority;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackResources {
    pub table: String,
    pub bucket: String,
    pub state_machine: String,
    pub bus: String,
    pub topic: String,
    /// The KMS key that encrypts passwords.
    pub key: String,
    /// The secret with settings that must not be in an environment, such as API keys.
    pub secrets: Option<String>,
    /// Where CloudWatch keeps the stack's metrics.
    pub metrics_namespace: String,
    pub queues: BTreeMap<Priority, String>,
    pub dead_letter_queues: BTreeMap<Priority, String>,
}

/// The variables of [`StackResources::read`]; the template sets them for every function.
pub const VARIABLES: [&str; 8] = [
    "TABLE_NAME",
    "BUCKET_NAME",
    "STATE_MACHINE_ARN",
    "EVENT_BUS_NAME",
    "TOPIC_ARN",
    "KMS_KEY_ID",
    "SECRETS_ARN",
    "METRICS_NAMESPACE",
];

/// The variable with a lane's queue URL, such as `QUEUE_URL_URGENT`.
pub fn queue_variable(kind: &str, lane: Priority) -> String {
    format!("{kind}_URL_{}", format!("{lane:?}").to_ascii_uppercase())
}

/// The ARN partition of a region, and the domain of its services.
fn partition(region: &str) -> (&'static str, &'static str) {
    match region {
        china if china.starts_with("cn-") => ("aws-cn", "amazonaws.com.cn"),
        government if government.starts_with("us-gov-") => ("aws-us-gov", "amazonaws.com"),
        _ => ("aws", "amazonaws.com"),
    }
}

impl StackResources {
    /// Derives the resource names from the stack's name, as `infra/template.yaml` names them. The
    /// secret has a generated name and is left out. `tests/backends/tests/drift` compares this with
    /// the template.
    pub fn of_stack(stack: &str, account: &str, region: &str) -> Self {
        let (partition, domain) = partition(region);
        let arn = |service: &str, name: &str| format!("arn:{partition}:{service}:{region}:{account}:{name}");
        let queues = |kind: &str| {
            let url = |lane: Priority| {
                let lane = format!("{lane:?}").to_ascii_lowercase();
                format!("https://sqs.{region}.{domain}/{account}/{stack}-{lane}{kind}")
            };
            Priority::ALL.into_iter().map(|lane| (lane, url(lane))).collect()
        };
        Self {
            table: format!("{stack}-records"),
            bucket: format!("{stack}-{account}-{region}"),
            state_machine: arn("states", &format!("stateMachine:{stack}-jobs")),
            bus: stack.to_owned(),
            topic: arn("sns", &format!("{stack}-notices")),
            key: format!("alias/{stack}"),
            secrets: None,
            metrics_namespace: format!("Everypage/{stack}"),
            queues: queues(""),
            dead_letter_queues: queues("-dlq"),
        }
    }

    /// Reads the resource names from variables. The error lists every variable that is missing.
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
        let mut resources = Self {
            table: need("TABLE_NAME"),
            bucket: need("BUCKET_NAME"),
            state_machine: need("STATE_MACHINE_ARN"),
            bus: need("EVENT_BUS_NAME"),
            topic: need("TOPIC_ARN"),
            key: need("KMS_KEY_ID"),
            secrets: given("SECRETS_ARN"),
            metrics_namespace: need("METRICS_NAMESPACE"),
            queues: BTreeMap::new(),
            dead_letter_queues: BTreeMap::new(),
        };
        for lane in Priority::ALL {
            resources.queues.insert(lane, need(&queue_variable("QUEUE", lane)));
            resources.dead_letter_queues.insert(lane, need(&queue_variable("DLQ", lane)));
        }
        if missing.is_empty() { Ok(resources) } else { Err(missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_variable_is_named_and_only_secrets_may_be_missing() {
        let missing = StackResources::read(|_| None).unwrap_err();
        assert_eq!(missing.len(), VARIABLES.len() - 1 + 2 * Priority::ALL.len());
        for name in VARIABLES.iter().filter(|name| **name != "SECRETS_ARN") {
            assert!(missing.iter().any(|error| error.starts_with(name)), "{name}: {missing:?}");
        }
        assert!(missing.iter().any(|error| error.starts_with("DLQ_URL_URGENT")), "{missing:?}");
        let resources = StackResources::read(|name| Some(format!(" {name} "))).unwrap();
        assert_eq!(resources.queues[&Priority::Low], "QUEUE_URL_LOW");
        assert_eq!(resources.table, "TABLE_NAME");
    }

    #[test]
    fn resource_names_follow_from_the_stacks_name() {
        let resources = StackResources::of_stack("everypage", "123456789012", "eu-west-1");
        assert_eq!(resources.table, "everypage-records");
        assert_eq!(resources.bucket, "everypage-123456789012-eu-west-1");
        assert_eq!(
            resources.state_machine,
            "arn:aws:states:eu-west-1:123456789012:stateMachine:everypage-jobs"
        );
        assert_eq!(resources.topic, "arn:aws:sns:eu-west-1:123456789012:everypage-notices");
        assert_eq!((resources.bus.as_str(), resources.key.as_str()), ("everypage", "alias/everypage"));
        let urgent = "https://sqs.eu-west-1.amazonaws.com/123456789012/everypage-urgent";
        assert_eq!(resources.queues[&Priority::Urgent], urgent);
        assert_eq!(resources.dead_letter_queues[&Priority::Urgent], format!("{urgent}-dlq"));
    }

    #[test]
    fn other_partitions_have_other_arns_and_domains() {
        let resources = StackResources::of_stack("s", "1", "cn-north-1");
        assert_eq!(resources.topic, "arn:aws-cn:sns:cn-north-1:1:s-notices");
        assert_eq!(resources.queues[&Priority::Low], "https://sqs.cn-north-1.amazonaws.com.cn/1/s-low");
        assert!(StackResources::of_stack("s", "1", "us-gov-west-1").topic.starts_with("arn:aws-us-gov:"));
    }
}
