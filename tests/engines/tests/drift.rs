//! What is written twice, in the template or the state machine and in the code, says the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use everypage_aws::{VARIABLES, queue_variable};
use everypage_core::{
    config::{Settings, parse_duration},
    domain::ids::Priority,
};
use everypage_engines::root;
use everypage_function::ErrorName;
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
    raised.extend(ErrorName::ALL.iter().map(|name| name.as_str()));
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
    let never = [ErrorName::DocumentError, ErrorName::StepBroken].map(ErrorName::as_str);
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

/// Resources as the policies below name them; see [`short`].
const TABLE: &[&str] = &["Table.Arn", "${Table.Arn}/index/*"];
const SECRET: &[&str] = &["If [MakesSecret, Ref ProviderKeys, Ref ProviderKeysSecretArn]"];
const MACHINE: &[&str] = &["MACHINE"];
/// Pages wait in child executions, which go by the machine's name and the map's label.
const MACHINE_AND_PAGES: &[&str] = &["MACHINE", "MACHINE/*"];
const LANES: &[&str] =
    &["LowQueue.Arn", "NormalQueue.Arn", "HighQueue.Arn", "CriticalQueue.Arn", "UrgentQueue.Arn"];
const DEAD: &[&str] = &[
    "LowDeadLetters.Arn",
    "NormalDeadLetters.Arn",
    "HighDeadLetters.Arn",
    "CriticalDeadLetters.Arn",
    "UrgentDeadLetters.Arn",
];
/// The key, by calls of ours.
const SEALED: &[&str] = &["Key.Arn if kms:EncryptionContext:application: everypage"];
/// The key, by S3 and SNS for us: bucket and topic are encrypted with it.
const KEY_OF_BUCKET_AND_TOPIC: &[&str] = &[
    "Key.Arn if kms:ViaService: [s3.${AWS::Region}.${AWS::URLSuffix}, sns.${AWS::Region}.${AWS::URLSuffix}]",
];

/// A call, what a role must allow for it and on what, and the functions whose use cases make it.
type Call = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const CALLS: [Call; 28] = [
    ("get_item", "dynamodb:GetItem", TABLE, &EVERYONE),
    ("batch_get_item", "dynamodb:BatchGetItem", TABLE, &EVERYONE),
    ("query", "dynamodb:Query", TABLE, &EVERYONE),
    ("put_item", "dynamodb:PutItem", TABLE, &EVERYONE),
    // A transaction needs the rights of what is in it.
    ("transact_write_items", "dynamodb:PutItem", TABLE, &EVERYONE),
    ("delete_item", "dynamodb:DeleteItem", TABLE, &EVERYONE),
    ("put_events", "events:PutEvents", &["EventBus.Arn"], &EVERYONE),
    ("publish", "sns:Publish", &["Ref Topic"], &EVERYONE),
    ("get_secret_value", "secretsmanager:GetSecretValue", SECRET, &EVERYONE),
    // Passwords, how a purchase is paid, tenants' webhooks.
    ("encrypt", "kms:Encrypt", SEALED, &["Intake", "Api"]),
    ("decrypt", "kms:Decrypt", SEALED, &["Intake", "Finalize", "Api"]),
    ("list_objects_v2", "s3:ListBucket", &["BUCKET"], &EVERYONE),
    ("get_object", "s3:GetObject", &["BUCKET/jobs/*"], &EVERYONE),
    ("put_object", "s3:PutObject", &["BUCKET/jobs/*"], &EVERYONE),
    ("delete_objects", "s3:DeleteObject", &["BUCKET/jobs/*"], &["Intake", "Api"]),
    // An upload, a version of it, and the options beside it.
    ("get_object", "s3:GetObject", &["BUCKET/incoming/*"], &["Intake"]),
    ("get_object", "s3:GetObjectVersion", &["BUCKET/incoming/*"], &["Intake"]),
    ("delete_object", "s3:DeleteObject", &["BUCKET/incoming/*.json"], &["Intake"]),
    ("delete_object", "s3:DeleteObjectVersion", &["BUCKET/incoming/*.json"], &["Intake"]),
    // Links for uploads are signed with the role's rights; a deleted job's upload goes with it.
    ("put_object", "s3:PutObject", &["BUCKET/incoming/*"], &["Api"]),
    ("delete_object", "s3:DeleteObject", &["BUCKET/incoming/*"], &["Api"]),
    ("send_message_batch", "sqs:SendMessage", LANES, &["Worker", "Api"]),
    ("change_message_visibility", "sqs:ChangeMessageVisibility", LANES, &["Worker"]),
    ("receive_message", "sqs:ReceiveMessage", DEAD, &["Finalize"]),
    ("delete_message", "sqs:DeleteMessage", DEAD, &["Finalize"]),
    ("change_message_visibility", "sqs:ChangeMessageVisibility", DEAD, &["Finalize"]),
    ("start_execution", "states:StartExecution", MACHINE, &["Intake", "Finalize", "Api"]),
    // Intake and the API wake a job; workers and the sweep settle its pages.
    ("send_task_success", "states:SendTaskSuccess", MACHINE, &EVERYONE),
];

/// Calls of the command line, with its user's rights.
const BY_PEOPLE: [&str; 2] = ["get_caller_identity", "get_queue_url"];

/// What is allowed for the platform's sake, or for the same call on more.
type Grant = (&'static str, &'static [&'static str], &'static [&'static str]);

const PLATFORM: [Grant; 9] = [
    ("xray:PutTraceSegments", &["*"], &EVERYONE),
    ("xray:PutTelemetryRecords", &["*"], &EVERYONE),
    ("kms:Decrypt", KEY_OF_BUCKET_AND_TOPIC, &EVERYONE),
    ("kms:GenerateDataKey", KEY_OF_BUCKET_AND_TOPIC, &EVERYONE),
    ("states:SendTaskSuccess", MACHINE_AND_PAGES, &["Worker", "Finalize"]),
    // Lambda reads the lanes for the worker, and keeps notifications that intake did not get through.
    ("sqs:ReceiveMessage", LANES, &["Worker"]),
    ("sqs:DeleteMessage", LANES, &["Worker"]),
    ("sqs:GetQueueAttributes", LANES, &["Worker"]),
    ("sqs:SendMessage", &["UploadsDeadLetters.Arn"], &["Intake"]),
];

#[test]
fn each_functions_role_allows_what_it_calls_on_what_it_needs_and_nothing_else() {
    let template = template();
    for function in EVERYONE {
        let calls = CALLS.iter().map(|(_, action, resources, callers)| (*action, *resources, *callers));
        let mut needed: BTreeSet<(String, String)> = calls
            .chain(PLATFORM)
            .filter(|(.., callers)| callers.contains(&function))
            .flat_map(|(action, resources, _)| granted(&[action], resources))
            .collect();
        let logs = format!("{function}Logs.Arn");
        needed.extend(granted(&["logs:CreateLogStream", "logs:PutLogEvents"], &[&logs]));
        assert_same(&grants(&template, &format!("  {function}Role:")), &needed, function);
    }
}

#[test]
fn every_call_of_an_sdk_is_listed_above_and_the_reverse() {
    let mut called = BTreeSet::new();
    for folder in ["shared/aws/src", "functions", "cli/src"] {
        for (path, source) in sources(&root().join(folder)) {
            let (operations, sends) = operations(&source);
            // A client by another name would be overlooked.
            assert!(
                sends <= operations.len(),
                "{path}: {sends} sent, of which only {operations:?} were seen"
            );
            called.extend(operations);
        }
    }
    let listed = CALLS.iter().map(|(call, ..)| *call).chain(BY_PEOPLE).map(str::to_owned);
    assert_eq!(called, listed.collect::<BTreeSet<String>>());
}

/// The operations that are begun on a `client` or on one of the `clients`, and how many are sent.
fn operations(source: &str) -> (Vec<String>, usize) {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let dense: String = lines.flat_map(str::chars).filter(|letter| !letter.is_whitespace()).collect();
    let word =
        |text: &str| text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').count();
    let mut found = Vec::new();
    for (owner, depth) in [("client.", 1), ("clients.", 2)] {
        for mut rest in dense.split(owner).skip(1) {
            for _ in 1..depth {
                rest = rest[word(rest)..].strip_prefix('.').unwrap_or_default();
            }
            let (name, after) = rest.split_at(word(rest));
            // Of what is beside the clients, or what any value can do.
            if after.starts_with("()") && !["clone", "as_deref"].contains(&name) {
                found.push(name.to_owned());
            }
        }
    }
    (found, dense.matches(".send()").count() + dense.matches(".presigned(").count())
}

#[test]
fn the_state_machines_role_allows_what_its_states_do_and_nothing_else() {
    let (template, machine) = (template(), machine());
    let substitutions = block(&template, "      DefinitionSubstitutions:");
    // What stands for a `${Name}` of the definition, as policies name it.
    let stands_for = |value: &Value| -> String {
        let name = value.as_str().unwrap().trim_start_matches("${").trim_end_matches('}');
        short(&substitutions[name])
    };
    let mut needed = granted(
        &[
            "xray:PutTraceSegments",
            "xray:PutTelemetryRecords",
            "xray:GetSamplingRules",
            "xray:GetSamplingTargets",
        ],
        &["*"],
    );
    let deliveries = ["Create", "Get", "Update", "Delete"].map(|verb| format!("logs:{verb}LogDelivery"));
    needed.extend(granted(&deliveries.each_ref().map(String::as_str), &["*"]));
    let others = ["ListLogDeliveries", "PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups"];
    needed.extend(granted(&others.map(|name| format!("logs:{name}")).each_ref().map(String::as_str), &["*"]));
    needed.extend(granted(&["kms:Decrypt", "kms:GenerateDataKey"], KEY_OF_BUCKET_AND_TOPIC));
    for state in states(&machine) {
        let parameters = &state["Parameters"];
        let resource = state["Resource"].as_str().unwrap_or_default();
        let service = resource.rsplit(":states:::").next().unwrap_or_default();
        match service.trim_end_matches(".waitForTaskToken") {
            "" => {}
            "lambda:invoke" => {
                let function = stands_for(&parameters["FunctionName"]);
                needed.extend(granted(&["lambda:InvokeFunction"], &[&function]));
            }
            // A lane is named by the plan, others by the template.
            "sqs:sendMessage" if parameters["QueueUrl.$"] == "$.queue_url" => {
                needed.extend(granted(&["sqs:SendMessage"], LANES));
            }
            "sqs:sendMessage" => {
                let queue = stands_for(&parameters["QueueUrl"]).replacen("Ref ", "", 1) + ".Arn";
                needed.extend(granted(&["sqs:SendMessage"], &[&queue]));
            }
            "sns:publish" => {
                needed.extend(granted(&["sns:Publish"], &[&stands_for(&parameters["TopicArn"])]));
            }
            other => panic!("which rights {other} needs is not said here"),
        }
        if state["ItemReader"]["Resource"].as_str().is_some_and(|reader| reader.ends_with(":s3:getObject")) {
            let bucket = stands_for(&state["ItemReader"]["Parameters"]["Bucket"]);
            needed.extend(granted(&["s3:GetObject"], &[&format!("{bucket}/jobs/*")]));
        }
        if state["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED" {
            needed.extend(granted(&["states:StartExecution"], MACHINE));
            let watched = ["states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"];
            needed.extend(granted(&watched, &["EXECUTIONS:*", "EXECUTIONS/*"]));
        }
    }
    assert_same(&grants(&template, "  StateMachineRole:"), &needed, "StateMachine");
}

fn granted(actions: &[&str], resources: &[&str]) -> BTreeSet<(String, String)> {
    let pairs =
        |action: &&str| resources.iter().map(|one| (action.to_string(), one.to_string())).collect::<Vec<_>>();
    actions.iter().flat_map(pairs).collect()
}

fn assert_same(given: &BTreeSet<(String, String)>, needed: &BTreeSet<(String, String)>, role: &str) {
    let missing: Vec<_> = needed.difference(given).collect();
    let idle: Vec<_> = given.difference(needed).collect();
    assert!(missing.is_empty() && idle.is_empty(), "{role}Role lacks {missing:#?}; nobody needs {idle:#?}");
}

/// What a role's policy allows: each action with each resource, and under which condition.
fn grants(template: &str, heading: &str) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for statement in part(template, heading).split("- Sid: ").skip(1) {
        let sid = statement.lines().next().unwrap_or_default();
        let field = |name: &str| -> Option<String> {
            let (_, value) = statement.split_once(&format!("{name}:"))?;
            let ends =
                ["\n                Action:", "\n                Resource:", "\n                Condition:"];
            let end = ends.iter().filter_map(|end| value.find(end)).min().unwrap_or(value.len());
            let lines = value[..end].lines().map(str::trim).filter(|line| !line.starts_with('#'));
            Some(lines.collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(statement.matches("Effect: Allow").count(), 1, "{sid}");
        let actions = items(&field("Action").unwrap());
        let condition = field("Condition").map(|text| {
            let text = short(&text).replace("\n", " ").replace("StringEquals:", "");
            format!(" if {}", text.trim().trim_matches(['{', '}']).trim())
        });
        for resource in items(&field("Resource").unwrap()) {
            let resource = format!("{resource}{}", condition.as_deref().unwrap_or_default());
            all.extend(granted(&actions.iter().map(String::as_str).collect::<Vec<_>>(), &[&resource]));
        }
        assert!(!actions.is_empty(), "{sid} allows nothing");
    }
    all
}

/// A value that is one thing or a list, in one line or in several.
fn items(value: &str) -> Vec<String> {
    let value = value.trim();
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        return list.split(", ").map(short).collect();
    }
    value.lines().map(|line| short(line.strip_prefix("- ").unwrap_or(line))).collect()
}

/// A resource as people would name it.
fn short(value: &str) -> String {
    let states = |kind: &str| {
        format!(
            "arn:${{AWS::Partition}}:states:${{AWS::Region}}:${{AWS::AccountId}}:{kind}:${{AWS::StackName}}-jobs"
        )
    };
    let bucket = "${AWS::StackName}-${AWS::AccountId}-${AWS::Region}";
    let value = value
        .trim()
        .replace("!GetAtt ", "")
        .replace("!Ref ", "Ref ")
        .replace("!Sub ", "")
        .replace("!If ", "If ");
    let value = value.replace('\'', "").replace(&states("stateMachine"), "MACHINE");
    let value = value.replace(&states("execution"), "EXECUTIONS");
    value.replace("arn:${AWS::Partition}:s3:::", "").replace(bucket, "BUCKET")
}

/// The lines below a heading, as far as they are indented deeper.
fn part(template: &str, heading: &str) -> String {
    let mut lines = template.lines().skip_while(|line| *line != heading);
    let depth = lines.next().map(indent).unwrap_or_else(|| panic!("the template has no {heading:?}"));
    let lines = lines.take_while(|line| line.trim().is_empty() || indent(line) > depth);
    lines.collect::<Vec<_>>().join("\n")
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
fn a_range_of_the_slowest_pages_fits_into_intakes_time() {
    let (template, settings) = (template(), Settings::read(|_| None).unwrap().settings);
    let time: u64 = block(&template, "  IntakeFunction:")["Timeout"].parse().unwrap();
    // Its memory buys nearly two processors, and a parser works on each.
    let needed = settings.pdf.page_timeout * settings.range_pages / 2;
    assert!(needed.as_secs() < time, "{needed:?} may be needed, {time} s are given");
}

#[test]
fn images_that_can_not_be_made_do_not_end_a_document() {
    let machine = machine();
    let work = &machine["States"]["Race"]["Branches"][0]["States"];
    let room = "Lambda.TooManyRequestsException";
    let caught = |state: &str| -> Vec<(String, String)> {
        let rules = work[state]["Catch"].as_array().unwrap().iter();
        rules.map(|rule| (text(&rule["ErrorEquals"][0]), text(&rule["Next"]))).collect()
    };
    let rule = |error: &str, next: &str| (error.to_owned(), next.to_owned());
    assert_eq!(caught("RenderImages"), [rule(room, "WaitForCapacity"), rule("States.ALL", "Plan")]);
    // Without its text no page could be published: that is a failure.
    assert_eq!(caught("ReadTexts"), [rule(room, "WaitForCapacity")]);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
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

/// The names in `[a, b]` behind `name:`, below a heading.
fn list(template: &str, heading: &str, name: &str) -> BTreeSet<String> {
    let below = part(template, heading);
    let found = below
        .lines()
        .find_map(|line| line.trim().trim_start_matches("- ").strip_prefix(name)?.strip_prefix(": ["));
    let found = found.unwrap_or_else(|| panic!("{heading} has no {name}")).trim_end_matches(']');
    found.split(", ").map(str::to_owned).collect()
}

/// What stands between `before` and `after`, each time.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split_once(after).map(|(found, _)| found))
}

#[test]
fn a_page_of_another_origin_may_ask_all_that_the_api_understands_and_read_all_that_it_says() {
    let document: Value =
        serde_json::from_slice(&std::fs::read(root().join("shared/api/openapi.json")).unwrap()).unwrap();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let (mut methods, mut sent, mut told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (method, operation) in operations {
        methods.insert(method.to_uppercase());
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let headers = parameters.filter(|parameter| parameter["in"] == "header");
        sent.extend(headers.map(|header| header["name"].as_str().unwrap().to_lowercase()));
        let answers = operation["responses"].as_object().unwrap().values();
        let headers = answers.filter_map(|answer| answer["headers"].as_object()).flatten();
        told.extend(headers.map(|(name, _)| name.to_lowercase()));
    }
    // The document says these in words, or once for all routes.
    sent.extend(["authorization", "content-type", "if-none-match"].map(str::to_owned));
    told.extend(["retry-after", "x-request-id"].map(str::to_owned));
    let template = template();
    let cors = |name: &str| list(&template, "  Api:", name);
    assert_eq!(cors("AllowMethods"), methods);
    assert_eq!(cors("AllowHeaders"), sent);
    assert_eq!(cors("ExposeHeaders"), told);
    // Each method has a route; OPTIONS has none, so that the API itself answers it.
    let api = part(&template, "  ApiFunction:");
    let routes: BTreeSet<String> = between(&api, "!Ref Api, Method: ", ",").map(str::to_owned).collect();
    assert_eq!(routes, methods);
}

#[test]
fn the_console_asks_nothing_that_its_origin_is_not_allowed() {
    // What a browser sends and shows anywhere.
    const SAFE: [&str; 2] = ["accept", "content-type"];
    let template = template();
    let cors = |name: &str| list(&template, "  Api:", name);
    let (mut asked, mut read, mut methods) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (_, source) in files(&root().join("console/js"), "js") {
        // Names with a dash, as keys of an object; the others of that kind are attributes of elements.
        let keys = source.split('\'').collect::<Vec<_>>();
        let is_key = |before: &str, after: &str| after.starts_with(':') || before.ends_with("headers[");
        let keys = keys.windows(3).filter(|parts| is_key(parts[0], parts[2])).map(|parts| parts[1]);
        asked.extend(keys.filter(|name| is_header(name)).map(str::to_owned));
        let plain =
            ["authorization", "accept"].into_iter().filter(|name| source.contains(&format!("{{ {name}: ")));
        asked.extend(plain.map(str::to_owned));
        read.extend(between(&source, "headers.get('", "')").map(str::to_owned));
        methods.extend(between(&source, "method: '", "'").map(str::to_owned));
        methods.extend(between(&source, "send('", "'").map(str::to_owned));
    }
    assert!(asked.len() >= 5 && methods.len() >= 2 && read.len() >= 2, "{asked:?} {read:?} {methods:?}");
    let refused = |wanted: &BTreeSet<String>, allowed: BTreeSet<String>| -> Vec<String> {
        wanted
            .iter()
            .filter(|name| !SAFE.contains(&name.as_str()) && !allowed.contains(*name))
            .cloned()
            .collect()
    };
    assert_eq!(refused(&asked, cors("AllowHeaders")), Vec::<String>::new());
    assert_eq!(refused(&read, cors("ExposeHeaders")), Vec::<String>::new());
    assert_eq!(refused(&methods, cors("AllowMethods")), Vec::<String>::new());
    // Past the API: a link for an upload is a PUT that names the document's type.
    let bucket = part(&template, "  Bucket:");
    assert!(bucket.contains("- AllowedMethods: [PUT]\n            AllowedOrigins: [!Ref AllowedOrigin]"));
    assert!(list(&template, "  Bucket:", "AllowedHeaders").contains("content-type"));
}

fn is_header(name: &str) -> bool {
    let is_attribute = ["aria-", "data-"].iter().any(|kind| name.starts_with(kind));
    name.contains('-')
        && !is_attribute
        && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-')
}

#[test]
fn the_console_behind_cloudfront_has_the_headers_that_serve_sends() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (console, door) = (read("shared/serve/src/console.rs"), read("shared/serve/src/door.rs"));
    let policy = between(&console, "const POLICY: &str = \"", "\";").next().unwrap();
    let template = read("infra/console.yaml");
    let given = between(&template, "ContentSecurityPolicy: !Sub >-\n", "          ContentTypeOptions")
        .next()
        .unwrap();
    let directives = |text: &str| -> BTreeMap<String, Vec<String>> {
        let text = text.replace('\\', " ");
        let each = text.split(';').map(|one| one.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        each.filter(|words| !words.is_empty()).map(|mut words| (words.remove(0), words)).collect()
    };
    let (mut here, mut there) = (directives(policy), directives(given));
    assert!(here.len() >= 8, "{here:?}");
    let bucket = "https://${DocumentsBucket}.s3.${AWS::Region}.${AWS::URLSuffix}";
    assert_eq!(here.remove("connect-src").unwrap(), ["'self'"]);
    assert_eq!(there.remove("connect-src").unwrap(), ["'self'", "${ApiUrl}", bucket]);
    assert_eq!(there, here);
    // All others that either file sets, but for what belongs to a file itself.
    let all = console + door.split("#[cfg(test)]").next().unwrap();
    let names = between(&all, "HeaderName::from_static(\"", "\")").filter(|name| name.contains("origin"));
    let values = |name: &str| format!("{{Header: {name}, Value: same-origin, Override: true}}");
    let missing: Vec<&str> = names.filter(|name| !template.contains(&values(name))).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(all.contains("X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static(\"nosniff\")"));
    assert!(template.contains("ContentTypeOptions: {Override: true}"));
    assert!(all.contains("REFERRER_POLICY, HeaderValue::from_static(\"no-referrer\")"));
    assert!(template.contains("ReferrerPolicy: {Override: true, ReferrerPolicy: no-referrer}"));
}

/// Every source file below a folder but those of tests, by its path.
fn sources(folder: &std::path::Path) -> Vec<(String, String)> {
    files(folder, "rs")
}

fn files(folder: &std::path::Path, ending: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                all.extend(files(&path, ending));
            }
        } else if path.extension().is_some_and(|extension| extension == ending) && !path.ends_with("tests.rs")
        {
            all.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
        }
    }
    all
}
