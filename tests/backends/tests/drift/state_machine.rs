//! `statemachine.asl.json` agrees with the functions.

use std::collections::{BTreeMap, BTreeSet};

use everypage_aws::{JOB_CHANGED, MANY_RANGES};
use everypage_core::settings::{Reading, Settings};
use everypage_function::ErrorName;
use serde_json::{Value, json};

use crate::{block, is_lambda, machine, states, template, text};

#[test]
fn every_error_in_the_state_machine_is_raised_by_the_code_or_by_aws() {
    let machine = machine();
    let all = states(&machine);
    let mut raised: BTreeSet<&str> = all.iter().filter_map(|state| state["Error"].as_str()).collect();
    raised.extend(ErrorName::ALL.iter().map(|name| name.as_str()));
    raised.extend([JOB_CHANGED, MANY_RANGES]);
    let lists = all.iter().flat_map(|state| ["Retry", "Catch"].map(|list| &state[list]));
    let rules = lists.filter_map(Value::as_array).flatten();
    for error in rules.flat_map(|rule| rule["ErrorEquals"].as_array().unwrap()).filter_map(Value::as_str) {
        let by_aws =
            ["States.", "Lambda.", "Sandbox.", "Runtime."].iter().any(|prefix| error.starts_with(prefix));
        assert!(by_aws || raised.contains(error), "{error} is never raised");
    }
}

#[test]
fn steps_are_retried_with_the_four_numbers_of_the_settings() {
    let (machine, template) = (machine(), template());
    let never = [ErrorName::DocumentError, ErrorName::StepBroken].map(ErrorName::as_str);
    for state in states(&machine).into_iter().filter(|state| is_lambda(state)) {
        let rules = state["Retry"].as_array().unwrap();
        assert_eq!(
            (&rules[0]["ErrorEquals"], &rules[0]["MaxAttempts"]),
            (&json!(never), &json!(0)),
            "{state}"
        );
        let last = json!({
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": "${RetryFirstDelay}",
            "BackoffRate": "${RetryMultiplier}",
            "MaxDelaySeconds": "${RetryMaxDelay}",
            "MaxAttempts": "${MaxRetries}",
        });
        assert_eq!(rules.last(), Some(&last), "{state}");
    }
    // The functions get the same numbers, whose defaults are those of the code.
    let (substitutions, variables) =
        (block(&template, "      DefinitionSubstitutions:"), block(&template, "      Variables:"));
    let mut given = BTreeMap::new();
    for (parameter, variable, unit) in [
        ("MaxRetries", "MAX_RETRIES", ""),
        ("RetryFirstDelay", "RETRY_FIRST_DELAY", "s"),
        ("RetryMultiplier", "RETRY_MULTIPLIER", ""),
        ("RetryMaxDelay", "RETRY_MAX_DELAY", "s"),
    ] {
        assert_eq!(substitutions[parameter], format!("!Ref {parameter}"));
        let expected = match unit {
            "" => format!("!Ref {parameter}"),
            unit => format!("!Sub '${{{parameter}}}{unit}'"),
        };
        assert_eq!(variables[variable], expected);
        let default = block(&template, &format!("  {parameter}:"))["Default"].clone();
        given.insert(variable, format!("{default}{unit}"));
    }
    let read = |name: &str| given.get(name).cloned();
    let intervals = |reading: Reading| reading.settings.retry_intervals;
    let code = intervals(Settings::read(|_| None).unwrap());
    assert_eq!(intervals(Settings::read(read).unwrap()), code);
    assert_eq!(code.len(), 3);
}

#[test]
fn every_step_of_the_state_machine_is_parsed_by_its_function() {
    let machine = machine();
    let mut parsed_steps = 0;
    for state in states(&machine).into_iter().filter(|state| is_lambda(state)) {
        let parameters = &state["Parameters"];
        let payload: Value = parameters["Payload"].as_object().unwrap().iter().map(filled).collect();
        let function = parameters["FunctionName"].as_str().unwrap();
        let parsed = match function {
            "${IntakeFunctionArn}" => {
                serde_json::from_value::<everypage_intake::Step>(payload.clone()).map(drop)
            }
            "${FinalizeFunctionArn}" => {
                serde_json::from_value::<everypage_finalize::Step>(payload.clone()).map(drop)
            }
            other => panic!("{other} is not one of our functions"),
        };
        parsed.unwrap_or_else(|error| panic!("{payload}: {error}"));
        parsed_steps += 1;
    }
    assert!(parsed_steps >= 8, "only {parsed_steps} steps were found");
    let schedule = json!({ "step": "sweep" });
    assert!(template().contains(&format!("Input: '{schedule}'")));
    serde_json::from_value::<everypage_finalize::Step>(schedule).unwrap();
}

/// A field of a payload, with an example value for its path.
fn filled((name, value): (&String, &Value)) -> (String, Value) {
    let Some(name) = name.strip_suffix(".$") else { return (name.clone(), value.clone()) };
    let value = match name {
        "range" => json!({ "first": 1, "last": 2, "count": 2, "pages": "1-2" }),
        "error" => json!({ "Error": "States.Timeout", "Cause": "" }),
        "group" => json!({ "first": 1, "last": 2 }),
        "cause" => json!("PagesSettled"),
        "pages" => json!([1, 2]),
        "state" => json!("ACKED"),
        _ => json!("x"),
    };
    (name.to_owned(), value)
}

/// The Choice states compare with what the function returns, and finalize knows each end of the race.
#[test]
fn every_choice_and_every_end_of_the_race_is_known_to_the_functions() {
    let machine = machine();
    let choices = states(&machine).into_iter().filter_map(|state| state["Choices"].as_array()).flatten();
    let mut compared = 0;
    for choice in choices.filter(|choice| choice["Variable"] == "$.prepared.next") {
        serde_json::from_value::<everypage_intake::Next>(choice["StringEquals"].clone()).unwrap();
        compared += 1;
    }
    assert!(compared >= 5, "only {compared} comparisons were found");
    let caught = ["Race", "Recognition"].map(|state| machine["States"][state]["Catch"].as_array().unwrap());
    let caught = caught.into_iter().flatten();
    let ends = caught.filter(|rule| rule["Next"] == "Finalize").map(|rule| rule["ErrorEquals"][0].clone());
    let passed = ["FinalizeHalted", "FinalizeWithoutOcr"];
    let passed = passed.map(|state| machine["States"][state]["Result"]["Error"].clone());
    for end in ends.chain(passed) {
        let payload = json!({ "step": "finalize", "job_id": "x", "cause": end });
        serde_json::from_value::<everypage_finalize::Step>(payload).unwrap();
    }
}

#[test]
fn a_rendering_failure_does_not_fail_a_job() {
    let machine = machine();
    let ranges = &machine["States"]["Race"]["Branches"][0]["States"]["Ranges"];
    let work = &ranges["Branches"][0]["States"];
    let room = "Lambda.TooManyRequestsException";
    let caught = |state: &str| -> Vec<(String, String)> {
        let rules = work[state]["Catch"].as_array().unwrap().iter();
        rules.map(|rule| (text(&rule["ErrorEquals"][0]), text(&rule["Next"]))).collect()
    };
    let rule = |error: &str, next: &str| (error.to_owned(), next.to_owned());
    assert_eq!(caught("RenderImages"), [rule(room, "WaitForCapacity"), rule("States.ALL", "Plan")]);
    // Without its text no page can be published, so that failure fails the job.
    assert_eq!(caught("ReadTexts"), [rule(room, "WaitForCapacity")]);
}
