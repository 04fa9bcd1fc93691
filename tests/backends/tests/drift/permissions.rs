//! Each role allows exactly the calls that its function or state machine makes.

use std::collections::BTreeSet;

use everypage_backends::root;
use serde_json::Value;

use crate::{block, files, machine, part, states, template};

const ALL_FUNCTIONS: [&str; 4] = ["Intake", "Worker", "Finalize", "Api"];

/// Resources, as [`short`] abbreviates them.
const TABLE: &[&str] = &["Table.Arn", "${Table.Arn}/index/*"];
const SECRET: &[&str] = &["If [MakesSecret, Ref ProviderKeys, Ref ProviderKeysSecretArn]"];
const MACHINE: &[&str] = &["MACHINE"];
const LANES: &[&str] =
    &["LowQueue.Arn", "NormalQueue.Arn", "HighQueue.Arn", "CriticalQueue.Arn", "UrgentQueue.Arn"];
const DEAD_LETTER_QUEUES: &[&str] = &[
    "LowDeadLetters.Arn",
    "NormalDeadLetters.Arn",
    "HighDeadLetters.Arn",
    "CriticalDeadLetters.Arn",
    "UrgentDeadLetters.Arn",
];
/// The key, for our own calls.
const SEALED: &[&str] =
    &["If [MakesKey, Key.Arn, Ref KmsKeyArn] if kms:EncryptionContext:application: everypage"];
/// The key, for calls by S3 and SNS: bucket and topic are encrypted with it.
const KEY_OF_BUCKET_AND_TOPIC: &[&str] = &[
    "If [MakesKey, Key.Arn, Ref KmsKeyArn] if kms:ViaService: [s3.${AWS::Region}.${AWS::URLSuffix}, sns.${AWS::Region}.${AWS::URLSuffix}]",
];
const KEY_OF_TOPIC: &[&str] =
    &["If [MakesKey, Key.Arn, Ref KmsKeyArn] if kms:ViaService: [sns.${AWS::Region}.${AWS::URLSuffix}]"];

/// An SDK call, the action and resources that a role must allow for it, and the functions that make it.
type Call = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const CALLS: [Call; 31] = [
    ("get_item", "dynamodb:GetItem", TABLE, &ALL_FUNCTIONS),
    ("batch_get_item", "dynamodb:BatchGetItem", TABLE, &ALL_FUNCTIONS),
    ("query", "dynamodb:Query", TABLE, &ALL_FUNCTIONS),
    ("put_item", "dynamodb:PutItem", TABLE, &ALL_FUNCTIONS),
    // A transaction needs the permissions of its items.
    ("transact_write_items", "dynamodb:PutItem", TABLE, &ALL_FUNCTIONS),
    ("delete_item", "dynamodb:DeleteItem", TABLE, &ALL_FUNCTIONS),
    ("put_events", "events:PutEvents", &["EventBus.Arn"], &ALL_FUNCTIONS),
    ("publish", "sns:Publish", &["Ref Topic"], &ALL_FUNCTIONS),
    ("get_secret_value", "secretsmanager:GetSecretValue", SECRET, &ALL_FUNCTIONS),
    // Passwords, payment methods, webhook secrets.
    ("encrypt", "kms:Encrypt", SEALED, &["Intake", "Api"]),
    ("decrypt", "kms:Decrypt", SEALED, &["Intake", "Finalize", "Api"]),
    ("list_objects_v2", "s3:ListBucket", &["BUCKET"], &ALL_FUNCTIONS),
    ("get_object", "s3:GetObject", &["BUCKET/jobs/*"], &ALL_FUNCTIONS),
    ("put_object", "s3:PutObject", &["BUCKET/jobs/*"], &ALL_FUNCTIONS),
    ("delete_objects", "s3:DeleteObject", &["BUCKET/jobs/*"], &["Intake", "Finalize", "Api"]),
    // An upload, a version of it, and its options file.
    ("get_object", "s3:GetObject", &["BUCKET/incoming/*"], &["Intake"]),
    ("get_object", "s3:GetObjectVersion", &["BUCKET/incoming/*"], &["Intake"]),
    // An upload becomes the job's source by a copy inside the bucket.
    ("copy_object", "s3:GetObjectVersion", &["BUCKET/incoming/*"], &["Intake"]),
    ("delete_object", "s3:DeleteObject", &["BUCKET/incoming/*.json"], &["Intake"]),
    ("delete_object", "s3:DeleteObjectVersion", &["BUCKET/incoming/*.json"], &["Intake"]),
    // Upload links are signed with the role's permissions; deleting a job deletes its upload, and so does its
    // retention.
    ("put_object", "s3:PutObject", &["BUCKET/incoming/*"], &["Api"]),
    ("delete_object", "s3:DeleteObject", &["BUCKET/incoming/*"], &["Finalize", "Api"]),
    ("send_message_batch", "sqs:SendMessage", LANES, &["Intake", "Worker", "Api"]),
    ("change_message_visibility", "sqs:ChangeMessageVisibility", LANES, &["Worker"]),
    // How many pages wait, of all jobs.
    ("get_queue_attributes", "sqs:GetQueueAttributes", LANES, &["Worker"]),
    ("receive_message", "sqs:ReceiveMessage", DEAD_LETTER_QUEUES, &["Finalize"]),
    ("delete_message", "sqs:DeleteMessage", DEAD_LETTER_QUEUES, &["Finalize"]),
    ("change_message_visibility", "sqs:ChangeMessageVisibility", DEAD_LETTER_QUEUES, &["Finalize"]),
    ("start_execution", "states:StartExecution", MACHINE, &["Intake", "Finalize", "Api"]),
    // Every page is settled, or a person changed the job.
    ("send_task_success", "states:SendTaskSuccess", MACHINE, &["Intake", "Worker", "Finalize"]),
    ("send_task_failure", "states:SendTaskFailure", MACHINE, &["Intake", "Finalize", "Api"]),
];

/// Calls of the command line, with the permissions of its user.
const BY_COMMAND_LINE: [&str; 3] = ["get_caller_identity", "get_queue_url", "head_object"];

/// Permissions that AWS itself needs, or that a call above needs on further resources.
type Grant = (&'static str, &'static [&'static str], &'static [&'static str]);

const PLATFORM: [Grant; 9] = [
    ("xray:PutTraceSegments", &["*"], &ALL_FUNCTIONS),
    ("xray:PutTelemetryRecords", &["*"], &ALL_FUNCTIONS),
    ("kms:Decrypt", KEY_OF_BUCKET_AND_TOPIC, &ALL_FUNCTIONS),
    ("kms:GenerateDataKey", KEY_OF_BUCKET_AND_TOPIC, &ALL_FUNCTIONS),
    // Lambda polls the lanes for the worker, and the notifications of uploads for intake.
    ("sqs:ReceiveMessage", LANES, &["Worker"]),
    ("sqs:DeleteMessage", LANES, &["Worker"]),
    ("sqs:ReceiveMessage", &["ArrivalsQueue.Arn"], &["Intake"]),
    ("sqs:DeleteMessage", &["ArrivalsQueue.Arn"], &["Intake"]),
    ("sqs:GetQueueAttributes", &["ArrivalsQueue.Arn"], &["Intake"]),
];

#[test]
fn each_functions_role_allows_exactly_its_calls() {
    let template = template();
    for function in ALL_FUNCTIONS {
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
fn exactly_the_sdk_calls_of_the_code_are_listed() {
    let mut called = BTreeSet::new();
    for folder in ["shared/aws/src", "functions", "cli/src"] {
        for (path, source) in sources(&root().join(folder)) {
            let (operations, sends) = operations(&source);
            // A client under another name would be missed.
            assert!(
                sends <= operations.len(),
                "{path}: {sends} calls are sent, but only {operations:?} were found"
            );
            called.extend(operations);
        }
    }
    let listed = CALLS.iter().map(|(call, ..)| *call).chain(BY_COMMAND_LINE).map(str::to_owned);
    assert_eq!(called, listed.collect::<BTreeSet<String>>());
}

/// The operations that are called on a `client` or on one of the `clients`, and the number of sent ones.
fn operations(source: &str) -> (Vec<String>, usize) {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let dense: String = lines.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect();
    let word = |text: &str| {
        text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').count()
    };
    let mut found = Vec::new();
    for (owner, depth) in [("client.", 1), ("clients.", 2)] {
        for mut rest in dense.split(owner).skip(1) {
            for _ in 1..depth {
                rest = rest[word(rest)..].strip_prefix('.').unwrap_or_default();
            }
            let (name, after) = rest.split_at(word(rest));
            // Not operations: methods that any value has.
            if after.starts_with("()") && !["clone", "as_deref"].contains(&name) {
                found.push(name.to_owned());
            }
        }
    }
    (found, dense.matches(".send()").count() + dense.matches(".presigned(").count())
}

#[test]
fn the_state_machines_role_allows_exactly_what_its_states_do() {
    let (template, machine) = (template(), machine());
    let substitutions = block(&template, "      DefinitionSubstitutions:");
    // The resource that a `${Name}` of the definition refers to, as policies name it.
    let resource_of = |value: &Value| -> String {
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
    needed.extend(granted(&["kms:Decrypt", "kms:GenerateDataKey"], KEY_OF_TOPIC));
    for state in states(&machine) {
        let parameters = &state["Parameters"];
        let resource = state["Resource"].as_str().unwrap_or_default();
        let service = resource.rsplit(":states:::").next().unwrap_or_default();
        match service.trim_end_matches(".waitForTaskToken") {
            "" => {}
            "lambda:invoke" => {
                let alias = resource_of(&parameters["FunctionName"]);
                let function = alias.strip_prefix("Ref ").and_then(|alias| alias.strip_suffix(".Alias"));
                let function =
                    format!("{}.Arn", function.unwrap_or_else(|| panic!("{alias} is not an alias")));
                // Executions that an earlier template started call the function itself.
                let live = format!("${{{function}}}:live");
                needed.extend(granted(&["lambda:InvokeFunction"], &[&live, &function]));
            }
            "sqs:sendMessage" => {
                let queue = resource_of(&parameters["QueueUrl"]).replacen("Ref ", "", 1) + ".Arn";
                needed.extend(granted(&["sqs:SendMessage"], &[&queue]));
            }
            "sns:publish" => {
                needed.extend(granted(&["sns:Publish"], &[&resource_of(&parameters["TopicArn"])]));
            }
            other => panic!("the permissions for {other} are not listed here"),
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
    let unused: Vec<_> = given.difference(needed).collect();
    assert!(missing.is_empty() && unused.is_empty(), "{role}Role lacks {missing:#?}; unused: {unused:#?}");
}

/// What a role's policy allows: each action with each resource and its condition.
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

/// A value that is a single item or a list, on one line or on several.
fn items(value: &str) -> Vec<String> {
    let value = value.trim();
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        return list.split(", ").map(short).collect();
    }
    value.lines().map(|line| short(line.strip_prefix("- ").unwrap_or(line))).collect()
}

/// A short name for a resource.
fn short(value: &str) -> String {
    let states =
        "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:${AWS::StackName}-jobs";
    let bucket = "${AWS::StackName}-${AWS::AccountId}-${AWS::Region}";
    let value = value
        .trim()
        .replace("!GetAtt ", "")
        .replace("!Ref ", "Ref ")
        .replace("!Sub ", "")
        .replace("!If ", "If ");
    let value = value.replace('\'', "").replace(states, "MACHINE");
    value.replace("arn:${AWS::Partition}:s3:::", "").replace(bucket, "BUCKET")
}

/// Every source file below a folder except tests, with its path.
fn sources(folder: &std::path::Path) -> Vec<(String, String)> {
    files(folder, "rs")
}
