//! Settings and limits in `infra/template.yaml` agree with the code.

use std::{collections::BTreeSet, time::Duration};

use everypage_aws::{VARIABLES, queue_variable};
use everypage_core::{
    ids::Priority,
    providers::target::{Provider, Tier},
    settings::{Cost, MaxInflight, Settings, parse_duration},
};

use crate::{between, block, list, part, template};

#[test]
fn the_functions_environment_has_exactly_the_variables_that_the_code_reads() {
    let given: BTreeSet<String> = block(&template(), "      Variables:").into_keys().collect();
    let queues =
        Priority::ALL.into_iter().flat_map(|lane| ["QUEUE", "DLQ"].map(|kind| queue_variable(kind, lane)));
    let resources: BTreeSet<String> = VARIABLES.map(str::to_owned).into_iter().chain(queues).collect();
    assert_eq!(
        resources.difference(&given).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "missing in the template"
    );
    let reading = Settings::read(|_| None).unwrap();
    let settings: BTreeSet<String> = reading.entries.iter().map(|entry| entry.name.to_owned()).collect();
    let unknown: Vec<_> = given.difference(&resources).filter(|name| !settings.contains(*name)).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "not read by the code");
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
        // An empty default leaves the value to the code; these two have their own defaults on AWS.
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
fn content_expires_in_table_and_bucket_after_the_same_time() {
    let template = template();
    let variables = block(&template, "      Variables:");
    assert_eq!(variables["DATA_RETENTION"], "!Sub '${DataRetentionDays}d'");
    let days = block(&template, "  DataRetentionDays:")["Default"].clone();
    let read = |name: &str| (name == "DATA_RETENTION").then(|| format!("{days}d"));
    let retention = Settings::read(read).unwrap().settings.data_retention;
    assert_eq!(retention, Some(Duration::from_secs(30 * 24 * 3600)));
    assert_eq!(template.matches("ExpirationInDays: !Ref DataRetentionDays").count(), 2, "incoming/, jobs/");
}

#[test]
fn browsers_may_request_parts_of_results() {
    let template = template();
    let lists = |name: &str| -> Vec<BTreeSet<String>> {
        between(&template, &format!("{name}: ["), "]")
            .map(|list| list.split(", ").map(str::to_owned).collect())
            .collect()
    };
    let has = |list: &BTreeSet<String>, names: [&str; 2]| names.iter().all(|name| list.contains(*name));
    let (allowed, exposed) = (lists("      AllowHeaders"), lists("      ExposeHeaders"));
    assert_eq!((allowed.len(), exposed.len()), (2, 2), "both APIs");
    assert!(allowed.iter().all(|list| has(list, ["range", "if-range"])), "{allowed:?}");
    assert!(exposed.iter().all(|list| has(list, ["accept-ranges", "content-range"])), "{exposed:?}");
}

#[test]
fn parameters_allow_exactly_the_providers_and_tiers_of_the_code() {
    let template = template();
    for (parameter, names) in
        [("PrimaryEngine", Provider::NAMES), ("SecondaryEngine", Provider::NAMES), ("ModelTier", Tier::NAMES)]
    {
        let expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(list(&template, &format!("  {parameter}:"), "AllowedValues"), expected, "{parameter}");
    }
}

/// The longest is the ARN of an inference profile of one's own account.
#[test]
fn parameters_of_models_take_every_name_that_a_model_has() {
    let template = template();
    let arn = "arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0";
    assert!(arn.len() > 100 && arn.chars().all(|c| c.is_ascii_alphanumeric() || "_./:@-".contains(c)));
    let variables = block(&template, "      Variables:");
    let models = Provider::ALL.iter().flat_map(|provider| provider.profile().variables.of_models());
    let mut count = 0;
    for parameter in models.filter_map(|name| variables.get(name)?.strip_prefix("!Ref ")) {
        let pattern = block(&template, &format!("  {parameter}:"))["AllowedPattern"].clone();
        assert_eq!(pattern, "'[a-zA-Z0-9_./:@-]{0,200}'", "{parameter}");
        count += 1;
    }
    assert_eq!(count, 9, "OpenAI, Anthropic and Bedrock, three tiers each");
}

#[test]
fn the_worker_may_call_the_default_models_of_bedrock_and_no_others() {
    let template = template();
    let arns: BTreeSet<&str> = template
        .lines()
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| line.starts_with("arn:aws:bedrock:"))
        .collect();
    let profile = Provider::Bedrock.profile();
    let models = [profile.primary_model, profile.secondary_model, profile.fast_model];
    let expected: BTreeSet<String> = models
        .iter()
        .flat_map(|model| {
            let base = model.trim_start_matches("global.");
            [
                format!("arn:aws:bedrock:*:*:inference-profile/{model}"),
                format!("arn:aws:bedrock:*::foundation-model/{base}"),
            ]
        })
        .collect();
    assert_eq!(arns, expected.iter().map(String::as_str).collect());
    let policy = template.split("  WorkerBedrockPolicy:").nth(1).unwrap();
    let policy = policy.split("  WorkerFunction:").next().unwrap();
    assert!(policy.contains("Action: 'bedrock:InvokeModel', Resource: !Ref BedrockModelArns"));
    assert!(policy.contains("Condition: CallsBedrock") && policy.contains("Roles: [!Ref WorkerRole]"));
    // The condition compares with the parameter's default, which CloudFormation can't name.
    let condition =
        template.split("  CallsBedrock:").nth(1).unwrap().split("  HasAlarmEmail:").next().unwrap();
    let compared: Vec<&str> =
        condition.lines().filter_map(|line| Some(line.split("- arn:").nth(1)?.trim())).collect();
    let default =
        template.split("  BedrockModelArns:").nth(1).unwrap().split("    Description:").next().unwrap();
    let default: Vec<&str> = default
        .lines()
        .filter_map(|line| Some(line.trim().strip_prefix("arn:")?.trim_end_matches(',')))
        .collect();
    assert_eq!(compared, default);
}

#[test]
fn models_and_money_are_parameters() {
    let parameters = block(&template(), "      Variables:");
    for (variable, parameter) in [
        ("FAILOVER", "Failover"),
        ("BUDGET_USD", "BudgetUsd"),
        ("TENANT_BUDGET_USD", "TenantBudgetUsd"),
        ("COST", "Cost"),
        ("BEDROCK_PRIMARY_MODEL", "BedrockPrimaryModel"),
        ("BEDROCK_SECONDARY_MODEL", "BedrockSecondaryModel"),
        ("BEDROCK_FAST_MODEL", "BedrockFastModel"),
    ] {
        assert_eq!(parameters.get(variable), Some(&format!("!Ref {parameter}")));
    }
    let costs = [Cost::Standard, Cost::Low].map(|cost| cost.to_string());
    assert_eq!(list(&template(), "  Cost:", "AllowedValues"), BTreeSet::from(costs));
}

#[test]
fn the_queues_redrive_policy_has_the_receive_count_of_the_code() {
    let (template, settings) = (template(), Settings::read(|_| None).unwrap().settings);
    let expected = settings.max_receive_count.to_string();
    for lane in Priority::ALL {
        let queue = block(&template, &format!("  {lane:?}Queue:"));
        assert_eq!(queue["maxReceiveCount"], expected, "{lane:?}");
        assert_eq!(queue["VisibilityTimeout"], "!Ref WorkerTimeoutSeconds", "{lane:?}");
        assert!(template.contains(&format!("  {lane:?}DeadLetters:")), "{lane:?}");
    }
}

/// A first deployment that fails must be able to delete what it has created, and must fit into a new account.
#[test]
fn a_first_deployment_with_all_defaults_can_fail_and_be_repeated() {
    let template = template();
    assert_eq!(block(&template, "  ProtectData:")["Default"], "'false'");
    assert_eq!(block(&template, "  Table:")["DeletionProtectionEnabled"], "!If [ProtectsData, true, false]");
    for resource in ["Key", "Bucket", "Table"] {
        let policy = &block(&template, &format!("  {resource}:"))["DeletionPolicy"];
        assert_eq!(policy, "RetainExceptOnCreate", "{resource}");
    }
    assert_eq!(block(&template, "  ReserveConcurrency:")["Default"], "'false'");
    let size = &block(&template, "  WorkerScale:")["Default"];
    let lanes = block(&template, "  Scale:")[size].clone();
    for lane in Priority::ALL {
        assert!(lanes.contains(&format!("{lane:?}: 2,")), "{lane:?} leaves too little of 10: {lanes}");
    }
}

#[test]
fn every_lane_alone_has_enough_batches_for_the_models() {
    let scales = block(&template(), "  Scale:");
    for (size, numbers) in &scales {
        let numbers: Vec<(&str, u32)> = numbers
            .trim_matches(['{', '}'])
            .split(", ")
            .map(|pair| pair.split_once(": ").unwrap())
            .map(|(name, number)| (name, number.parse().unwrap()))
            .collect();
        let of = |name: &str| numbers.iter().find(|(other, _)| *other == name).unwrap().1;
        let lanes = Priority::ALL.map(|lane| of(&format!("{lane:?}")));
        assert!(lanes.iter().all(|lane| *lane == lanes[0]), "{size}: {lanes:?}");
        assert_eq!(lanes.iter().sum::<u32>(), of("Worker"), "{size}");
        // Batches of ten pages for the calls to one model that its pace may reach.
        assert!(size == "small" || lanes[0] * 10 >= MaxInflight::MAX, "{size}: {lanes:?}");
    }
    assert_eq!(scales.len(), 3);
}

#[test]
fn a_key_of_ones_own_encrypts_table_and_queues_too() {
    let template = template();
    assert!(
        part(&template, "  Table:")
            .contains("- {SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !Ref KmsKeyArn}")
    );
    for queue in template.split("    Type: AWS::SQS::Queue\n").skip(1) {
        let queue = queue.split("\n\n").next().unwrap();
        assert!(queue.contains("SqsManagedSseEnabled: !If [HasOwnKey, !Ref AWS::NoValue, true]"), "{queue}");
        assert!(
            queue.contains("KmsMasterKeyId: !If [HasOwnKey, !Ref KmsKeyArn, !Ref AWS::NoValue]"),
            "{queue}"
        );
    }
    let policy = part(&template, "  OwnKeyPolicy:");
    for role in ["Intake", "Worker", "Finalize", "Api", "StateMachine"] {
        assert!(policy.contains(&format!("!Ref {role}Role")), "{role}");
    }
    for service in ["dynamodb", "sqs"] {
        assert!(policy.contains(&format!("'{service}.${{AWS::Region}}.${{AWS::URLSuffix}}'")), "{service}");
    }
}

#[test]
fn uploads_reach_intake_through_their_own_queue_one_at_a_time() {
    let template = template();
    let (queue, function) = (block(&template, "  ArrivalsQueue:"), block(&template, "  IntakeFunction:"));
    let number = |value: &String| value.parse::<u64>().unwrap();
    assert_eq!(number(&queue["VisibilityTimeout"]), 6 * number(&function["Timeout"]));
    assert_eq!(number(&queue["maxReceiveCount"]), 20);
    assert_eq!(queue["deadLetterTargetArn"], "!GetAtt UploadsDeadLetters.Arn");
    assert_eq!(function["Queue"], "!GetAtt ArrivalsQueue.Arn");
    assert_eq!(function["BatchSize"], "1");
    assert_eq!(function["FunctionResponseTypes"], "[ReportBatchItemFailures]");
    let bucket = block(&template, "  Bucket:");
    assert_eq!(bucket["Queue"], "!GetAtt ArrivalsQueue.Arn");
    assert_eq!(bucket["DependsOn"], "ArrivalsQueuePolicy");
    let policy = template.split("  ArrivalsQueuePolicy:").nth(1).unwrap();
    let policy = policy.split("\n\n").next().unwrap();
    for needed in ["s3.amazonaws.com", "aws:SourceArn", "aws:SourceAccount", "sqs:SendMessage"] {
        assert!(policy.contains(needed), "{needed}");
    }
    // The size of the stack decides how many documents are open.
    for (scale, open) in [("small", 100), ("medium", 500), ("large", 2000)] {
        let line =
            template.lines().find(|line| line.trim_start().starts_with(&format!("{scale}: {{"))).unwrap();
        assert!(line.contains(&format!("OpenJobs: {open},")), "{line}");
    }
}

#[test]
fn the_table_has_the_attributes_and_indexes_that_the_adapter_uses() {
    let template = template();
    for name in ["pk", "sk", "tenant_pk", "tenant_sk", "state_pk", "state_sk"] {
        assert!(template.contains(&format!("AttributeName: {name}")), "{name}");
    }
    let projection = |index: &str| {
        let index = template.split(&format!("IndexName: {index}\n")).nth(1).unwrap();
        between(index, "ProjectionType: ", "}").next().unwrap()
    };
    assert_eq!((projection("tenant"), projection("work")), ("ALL", "KEYS_ONLY"));
    assert_eq!(block(&template, "  KeepStateIndex:")["Default"], "'false'");
    for index in ["tenant", "work"] {
        let alarm = format!("{{Name: GlobalSecondaryIndexName, Value: {index}}}");
        assert!(template.contains(&alarm), "no alarm sees that {index} is throttled");
    }
    assert!(template.contains("AttributeName: expires"), "time to live");
}

#[test]
fn only_sqs_itself_sends_to_the_dead_letter_queue_of_a_lane() {
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
fn a_range_of_the_slowest_pages_fits_into_intakes_timeout() {
    let (template, settings) = (template(), Settings::read(|_| None).unwrap().settings);
    let time: u64 = block(&template, "  IntakeFunction:")["Timeout"].parse().unwrap();
    // Its memory size comes with nearly two processors, and a parser runs on each.
    let needed = settings.pdf.page_timeout * settings.range_pages / 2;
    assert!(needed.as_secs() < time, "up to {needed:?} are needed, the timeout is {time} s");
}
