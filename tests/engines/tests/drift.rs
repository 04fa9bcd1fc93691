//! What is written twice, in the template or the state machine and in the code, says the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use everypage_aws::{VARIABLES, queue_variable};
use everypage_core::{
    config::{Settings, parse_duration},
    domain::ids::Priority,
};
use everypage_engines::root;
use everypage_function::Name;
use serde_json::{Value, json};

fn template() -> String {
    std::fs::read_to_string(root().join("infra/template.yaml")).unwrap()
}

fn machine() -> Value {
    serde_json::from_slice(&std::fs::read(root().join("statemachine.asl.json")).unwrap()).unwrap()
}

/// The `NAME: value` lines below `heading`, as far as they are indented deeper.
fn block(template: &str, heading: &str) -> BTreeMap<String, String> {
    let mut lines = template.lines().skip_while(|line| line.trim_end() != heading);
    let depth = lines.next().map(indent).unwrap_or_else(|| panic!("the template has no {heading:?}"));
    lines
        .take_while(|line| line.trim().is_empty() || indent(line) > depth)
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, _)| !name.starts_with('#'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Every state of a machine, however deep.
fn states(machine: &Value) -> Vec<&Value> {
    let mut all = Vec::new();
    for state in machine["States"].as_object().into_iter().flatten().map(|(_, state)| state) {
        all.push(state);
        let branches = state["Branches"].as_array().into_iter().flatten();
        for inner in branches.chain([&state["ItemProcessor"]]) {
            all.extend(states(inner));
        }
    }
    all
}

fn is_lambda(state: &Value) -> bool {
    state["Resource"].as_str().is_some_and(|resource| resource.contains(":states:::lambda:"))
}

#[test]
fn the_functions_environment_is_what_the_code_reads() {
    let given: BTreeSet<String> = block(&template(), "      Variables:").into_keys().collect();
    let queues =
        Priority::ALL.into_iter().flat_map(|lane| ["QUEUE", "DLQ"].map(|kind| queue_variable(kind, lane)));
    let place: BTreeSet<String> = VARIABLES.map(str::to_owned).into_iter().chain(queues).collect();
    assert_eq!(place.difference(&given).collect::<Vec<_>>(), Vec::<&String>::new(), "not given");
    let reading = Settings::read(|_| None).unwrap();
    let settings: BTreeSet<String> = reading.entries.iter().map(|entry| entry.name.to_owned()).collect();
    let unknown: Vec<_> = given.difference(&place).filter(|name| !settings.contains(*name)).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "nobody reads these");
}

#[test]
fn parameters_have_the_defaults_of_the_code() {
    let (template, reading) = (template(), Settings::read(|_| None).unwrap());
    let parameters = block(&template, "      Variables:");
    for entry in &reading.entries {
        let Some(parameter) = parameters.get(entry.name).and_then(|value| value.strip_prefix("!Ref ")) else {
            continue;
        };
        let default = block(&template, &format!("  {parameter}:"));
        let default = default.get("Default").unwrap_or_else(|| panic!("{parameter} has no default"));
        let default = default.trim_matches('\'');
        // Left to the code where empty; named by the installation; more to say where nobody watches.
        if default.is_empty() || ["ENVIRONMENT", "LOG_LEVEL"].contains(&entry.name) {
            continue;
        }
        let same_time = || Some(parse_duration(default).ok()? == parse_duration(&entry.value).ok()?);
        assert!(
            default == entry.value || same_time() == Some(true),
            "{}: {default} in the template, {} in the code",
            entry.name,
            entry.value
        );
    }
}

#[test]
fn queues_give_up_when_the_code_says() {
    let (template, settings) = (template(), Settings::read(|_| None).unwrap().settings);
    let counts: Vec<&str> =
        template.lines().filter_map(|line| line.split("maxReceiveCount: ").nth(1)).collect();
    let expected = settings.max_receive_count.to_string();
    assert_eq!(counts.len(), Priority::ALL.len(), "a redrive policy for each lane");
    assert!(counts.iter().all(|count| count.trim_end_matches(['}', ' ']) == expected), "{counts:?}");
    for lane in Priority::ALL {
        let queue = block(&template, &format!("  {lane:?}Queue:"));
        assert_eq!(queue["VisibilityTimeout"], "!Ref WorkerTimeoutSeconds", "{lane:?}");
        assert!(template.contains(&format!("  {lane:?}DeadLetters:")), "{lane:?}");
    }
}

#[test]
fn the_table_is_what_the_adapter_expects() {
    let template = template();
    for name in ["pk", "sk", "tenant_pk", "tenant_sk", "state_pk", "state_sk"] {
        assert!(template.contains(&format!("AttributeName: {name}")), "{name}");
    }
    assert!(template.contains("IndexName: tenant") && template.contains("IndexName: state"));
    assert!(template.contains("AttributeName: expires"), "time to live");
}

#[test]
fn every_error_that_the_state_machine_names_is_one_that_somebody_raises() {
    let machine = machine();
    let all = states(&machine);
    let mut raised: BTreeSet<&str> = all.iter().filter_map(|state| state["Error"].as_str()).collect();
    raised.extend(Name::ALL.map(Name::as_str));
    let lists = all.iter().flat_map(|state| ["Retry", "Catch"].map(|list| &state[list]));
    let rules = lists.filter_map(Value::as_array).flatten();
    for error in rules.flat_map(|rule| rule["ErrorEquals"].as_array().unwrap()).filter_map(Value::as_str) {
        let foreign = error.starts_with("States.") || error.starts_with("Lambda.");
        assert!(foreign || raised.contains(error), "nobody raises {error}");
    }
}

#[test]
fn steps_are_tried_again_as_the_code_tries_its_own() {
    let machine = machine();
    let pauses = Settings::read(|_| None).unwrap().settings.retry_intervals;
    let never = [Name::DocumentError, Name::StepBroken].map(Name::as_str);
    for state in states(&machine).into_iter().filter(|state| is_lambda(state)) {
        let rules = state["Retry"].as_array().unwrap();
        assert_eq!(
            (&rules[0]["ErrorEquals"], &rules[0]["MaxAttempts"]),
            (&json!(never), &json!(0)),
            "{state}"
        );
        let last = rules.last().unwrap();
        let (first, rate) =
            (last["IntervalSeconds"].as_f64().unwrap(), last["BackoffRate"].as_f64().unwrap());
        let times = last["MaxAttempts"].as_u64().unwrap();
        let waits: Vec<f64> = (0..times).map(|time| first * rate.powi(time as i32)).collect();
        assert_eq!(waits, pauses.iter().map(|pause| pause.as_secs_f64()).collect::<Vec<_>>());
    }
}

#[test]
fn every_step_that_the_state_machine_asks_for_is_understood() {
    let machine = machine();
    let mut asked = 0;
    for state in states(&machine).into_iter().filter(|state| is_lambda(state)) {
        let parameters = &state["Parameters"];
        let payload: Value = parameters["Payload"].as_object().unwrap().iter().map(filled).collect();
        let function = parameters["FunctionName"].as_str().unwrap();
        let understood = match function {
            "${IntakeFunctionArn}" => {
                serde_json::from_value::<everypage_intake::Step>(payload.clone()).map(drop)
            }
            "${FinalizeFunctionArn}" => {
                serde_json::from_value::<everypage_finalize::Step>(payload.clone()).map(drop)
            }
            other => panic!("{other} is no function of ours"),
        };
        understood.unwrap_or_else(|error| panic!("{payload}: {error}"));
        asked += 1;
    }
    assert!(asked >= 8, "only {asked} steps were found");
    let schedule = json!({ "step": "sweep" });
    assert!(template().contains(&format!("Input: '{schedule}'")));
    serde_json::from_value::<everypage_finalize::Step>(schedule).unwrap();
}

/// A field of a payload with what its path stands for.
fn filled((name, value): (&String, &Value)) -> (String, Value) {
    let Some(name) = name.strip_suffix(".$") else { return (name.clone(), value.clone()) };
    let value = match name {
        "range" => json!({ "first": 1, "last": 2, "count": 2, "pages": "1-2" }),
        "error" => json!({ "Error": "States.Timeout", "Cause": "" }),
        "cause" => json!("settled"),
        "state" => json!("ACKED"),
        _ => json!("x"),
    };
    (name.to_owned(), value)
}

const EVERYONE: [&str; 4] = ["Intake", "Worker", "Finalize", "Api"];

/// Calls of the adapters, what a role must allow for them, and the functions whose use cases make them.
const CALLS: [(&str, &str, &[&str]); 24] = [
    ("get_item", "dynamodb:GetItem", &EVERYONE),
    ("batch_get_item", "dynamodb:BatchGetItem", &EVERYONE),
    ("query", "dynamodb:Query", &EVERYONE),
    ("put_item", "dynamodb:PutItem", &EVERYONE),
    // A transaction needs the rights of what is in it.
    ("transact_write_items", "dynamodb:PutItem", &EVERYONE),
    ("delete_item", "dynamodb:DeleteItem", &EVERYONE),
    ("put_events", "events:PutEvents", &EVERYONE),
    ("publish", "sns:Publish", &EVERYONE),
    ("get_secret_value", "secretsmanager:GetSecretValue", &EVERYONE),
    ("encrypt", "kms:Encrypt", &["Intake", "Api"]),
    ("decrypt", "kms:Decrypt", &["Intake", "Finalize", "Api"]),
    ("list_objects_v2", "s3:ListBucket", &EVERYONE),
    ("get_object", "s3:GetObject", &EVERYONE),
    ("put_object", "s3:PutObject", &EVERYONE),
    ("delete_objects", "s3:DeleteObject", &["Intake", "Api"]),
    // A version of an upload, and of the options beside it.
    ("get_object", "s3:GetObjectVersion", &["Intake"]),
    ("delete_object", "s3:DeleteObject", &["Intake"]),
    ("delete_object", "s3:DeleteObjectVersion", &["Intake"]),
    ("send_message_batch", "sqs:SendMessage", &["Worker", "Api"]),
    ("receive_message", "sqs:ReceiveMessage", &["Finalize"]),
    ("delete_message", "sqs:DeleteMessage", &["Finalize"]),
    ("change_message_visibility", "sqs:ChangeMessageVisibility", &["Worker", "Finalize"]),
    ("start_execution", "states:StartExecution", &["Intake", "Finalize", "Api"]),
    ("send_task_success", "states:SendTaskSuccess", &EVERYONE),
];

/// Allowed for the platform's sake, not for a call of ours.
const PLATFORM: [(&str, &[&str]); 10] = [
    ("logs:CreateLogStream", &EVERYONE),
    ("logs:PutLogEvents", &EVERYONE),
    ("xray:PutTraceSegments", &EVERYONE),
    ("xray:PutTelemetryRecords", &EVERYONE),
    // By S3 and SNS, with the key of bucket and topic.
    ("kms:Decrypt", &EVERYONE),
    ("kms:GenerateDataKey", &EVERYONE),
    // Lambda reads the lanes for the worker, and keeps notifications that intake did not get through.
    ("sqs:ReceiveMessage", &["Worker"]),
    ("sqs:DeleteMessage", &["Worker"]),
    ("sqs:GetQueueAttributes", &["Worker"]),
    ("sqs:SendMessage", &["Intake"]),
];

#[test]
fn each_functions_role_allows_what_it_calls_and_nothing_else() {
    let (source, template) = (sources(&root().join("shared/aws/src")), template());
    for (call, ..) in CALLS {
        assert!(source.contains(&format!(".{call}()")), "nobody calls {call}");
    }
    for function in EVERYONE {
        let called = CALLS.iter().map(|(_, action, callers)| (*action, *callers)).chain(PLATFORM);
        let needed: BTreeSet<String> = called
            .filter(|(_, callers)| callers.contains(&function))
            .map(|(action, _)| action.to_owned())
            .collect();
        assert_eq!(actions(&template, &format!("  {function}Role:")), needed, "{function}");
    }
}

#[test]
fn only_sqs_itself_puts_messages_among_the_dead_of_a_lane() {
    let template = template();
    let senders = template.split("- Sid: ").filter(|statement| statement.contains("sqs:SendMessage"));
    let mut seen = 0;
    for statement in senders {
        seen += 1;
        for lane in Priority::ALL {
            assert!(!statement.contains(&format!("{lane:?}DeadLetters.Arn")), "{statement}");
        }
    }
    assert!(seen >= 4, "only {seen} statements were found");
}

#[test]
fn images_that_can_not_be_made_do_not_end_a_document() {
    let machine = machine();
    let work = &machine["States"]["Race"]["Branches"][0]["States"];
    let caught = &work["RenderImages"]["Catch"];
    assert_eq!(caught, &json!([{ "ErrorEquals": ["States.ALL"], "ResultPath": null, "Next": "Plan" }]));
    // Without its text no page could be published: that is a failure.
    assert_eq!(work["ReadTexts"]["Catch"], Value::Null);
}

#[test]
fn routes_that_need_no_key_are_open_at_the_gateway_too() {
    let document: Value =
        serde_json::from_slice(&std::fs::read(root().join("shared/api/openapi.json")).unwrap()).unwrap();
    let open = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.filter(|(_, operation)| operation["security"] == json!([{}])).map(move |_| path.as_str())
    });
    let open: BTreeSet<&str> = open.collect();
    let template = template();
    let routes = template.lines().filter(|line| line.contains("Auth: {Authorizer: NONE}"));
    let given: BTreeSet<&str> =
        routes.map(|line| line.split("Path: ").nth(1).unwrap().split(',').next().unwrap()).collect();
    assert_eq!(given, open);
}

/// What a role's policy allows, as far as it is written with a service's prefix.
fn actions(template: &str, heading: &str) -> BTreeSet<String> {
    let mut lines = template.lines().skip_while(|line| *line != heading);
    let depth = indent(lines.next().unwrap());
    let part: Vec<&str> = lines.take_while(|line| line.trim().is_empty() || indent(line) > depth).collect();
    let services = [
        "dynamodb:",
        "events:",
        "sns:",
        "kms:",
        "secretsmanager:",
        "s3:",
        "sqs:",
        "states:",
        "logs:",
        "xray:",
    ];
    let words = part.iter().filter(|line| line.contains("Action") || line.trim().starts_with("- "));
    words
        .flat_map(|line| line.split([' ', ',', '[', ']']))
        .filter(|word| services.iter().any(|service| word.starts_with(service)))
        .map(str::to_owned)
        .collect()
}

fn sources(folder: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    all
}
