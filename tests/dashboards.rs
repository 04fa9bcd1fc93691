//! Dashboards and alarms use metrics that the code records, under the same names and labels.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use everypage_core::telemetry::metrics::{ALL, Definition, Kind};
use serde_json::Value;

/// Where CloudWatch keeps the metrics of one stack.
const NAMESPACE: &str = "Everypage/${AWS::StackName}";

const TEMPLATE: &str = include_str!("../infra/template.yaml");
const GRAFANA: &str = include_str!("../infra/grafana.json");
const RULES: &str = include_str!("../infra/prometheus-rules.yml");
const OPERATE: &str = include_str!("../docs/operate.md");
const DEPLOY: &str = include_str!("../docs/deploy.md");
const TABLE: &str = include_str!("../shared/core/src/telemetry/metrics.rs");

fn defined(name: &str) -> &'static Definition {
    ALL.into_iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name} is not recorded"))
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Words that look like one of our metrics.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|character| !is_word(character)).filter(|word| word.starts_with("everypage_")).collect()
}

/// Every text between `before` and `after`.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split_once(after).map(|(found, _)| found))
}

/// Asserts that a metric has a label with a documented value.
fn assert_label(metric: &Definition, label: &str, value: &str) {
    assert!(metric.labels.contains(&label), "{} has no label {label}", metric.name);
    let row = TABLE.lines().find(|line| line.starts_with(&format!("//! | `{}`", metric.name)));
    assert!(row.is_some_and(|row| row.contains(&format!("`{value}`"))), "{}: {label}={value}", metric.name);
}

/// The dashboard's JSON, and the alarms before it.
fn cloudwatch() -> (&'static str, Value) {
    let (before, rest) = TEMPLATE.split_once("      DashboardBody: !Sub |\n").expect("a dashboard");
    let alarms = before.split_once("# ---- Alarms").expect("alarms").1;
    let body: String = rest
        .lines()
        .take_while(|line| line.starts_with("        "))
        .map(|line| format!("{line}\n"))
        .collect();
    (alarms, serde_json::from_str(&body).expect("the dashboard is JSON"))
}

#[test]
fn the_dashboard_shows_exactly_the_recorded_metrics_with_their_dimensions() {
    let (_, dashboard) = cloudwatch();
    let mut shown = BTreeSet::new();
    let widgets = dashboard["widgets"].as_array().unwrap().iter();
    for line in widgets.filter_map(|widget| widget["properties"]["metrics"].as_array()).flatten() {
        let (name, dimensions) = match line[0].as_str() {
            Some(namespace) if namespace == NAMESPACE => plain(line.as_array().unwrap()),
            Some(_) => continue,
            None => searched(&line[0]),
        };
        let metric = defined(name);
        assert_eq!(dimensions, metric.labels, "{name}");
        assert!(metric.on_aws, "{name} is not recorded on AWS");
        shown.insert(name);
    }
    let recorded: BTreeSet<&str> =
        ALL.iter().filter(|metric| metric.on_aws).map(|metric| metric.name).collect();
    assert_eq!(shown, recorded);
    // The loop above saw every metric.
    assert_eq!(names(&dashboard.to_string()), recorded);
}

/// `[namespace, name, label, value, …, {options}]`
fn plain(line: &[Value]) -> (&str, Vec<&str>) {
    let dimensions = line[2..].iter().step_by(2).filter_map(Value::as_str).collect();
    (line[1].as_str().unwrap(), dimensions)
}

/// `SEARCH('{namespace,label,…} MetricName="name"', …)`, labelled by its dimensions.
fn searched(line: &Value) -> (&str, Vec<&str>) {
    let expression = line["expression"].as_str().unwrap();
    let mut dimensions = between(expression, "SEARCH('{", "} ").next().expect(expression).split(',');
    let namespace = dimensions.next().map(|quoted| quoted.trim_matches('"'));
    assert_eq!(namespace, Some(NAMESPACE), "{expression}");
    let dimensions: Vec<&str> = dimensions.collect();
    for shown in between(line["label"].as_str().unwrap(), "PROP('Dim.", "')") {
        assert!(dimensions.contains(&shown), "{expression}: no {shown}");
    }
    let name = between(expression, "MetricName=\"", "\"").next().expect(expression);
    (name, dimensions)
}

#[test]
fn the_functions_emit_to_the_namespace_that_dashboard_and_alarms_read() {
    assert!(TEMPLATE.contains(&format!("        METRICS_NAMESPACE: !Sub '{NAMESPACE}'\n")));
}

#[test]
fn every_metric_of_an_alarm_is_recorded_with_its_dimensions() {
    let (alarms, _) = cloudwatch();
    let mut queried = BTreeSet::new();
    for line in alarms.lines() {
        let found = names(line);
        let Some(name) = found.first() else { continue };
        let metric = defined(name);
        assert!(metric.on_aws, "{name} is not recorded on AWS");
        if let Some((_, rest)) = line.split_once("Expression: !Sub SELECT ") {
            let from = rest.split_once(" FROM ").expect(line).1;
            assert_eq!(from.split(' ').next(), Some(format!("\"{NAMESPACE}\"").as_str()), "{line}");
            for condition in from.split_once(" WHERE ").map_or("", |(_, all)| all).split(" AND ") {
                let Some((label, value)) = condition.split_once(" = ") else { continue };
                let quoted = label.strip_prefix('"').and_then(|label| label.strip_suffix('"'));
                let label = quoted.unwrap_or_else(|| panic!("{label} is not in double quotes: {line}"));
                assert_label(metric, label, value.trim_matches('\''));
            }
        } else {
            assert!(line.contains(&format!("Namespace: !Sub '{NAMESPACE}', MetricName: {name}, ")), "{line}");
            let labels: Vec<&str> = between(line, "{Name: ", ",").collect();
            assert_eq!(labels, metric.labels, "{line}");
            for (label, value) in labels.iter().zip(between(line, "Value: ", "}")) {
                assert_label(metric, label, value);
            }
        }
        queried.insert(metric.name);
    }
    assert_eq!(queried, names(alarms), "every metric is checked");
    assert!(queried.len() >= 5, "{queried:?}");
}

#[test]
fn exactly_the_defined_alarms_are_documented_with_their_thresholds() {
    let (alarms, _) = cloudwatch();
    let (_, table) = DEPLOY.split_once("| alarm | it means | what to do |").expect("a table of alarms");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with("| `")).collect();
    let mut explained = BTreeSet::new();
    for alarm in alarms.split("Type: AWS::CloudWatch::Alarm").skip(1) {
        let field = |name: &str| alarm.lines().find_map(|line| line.trim().strip_prefix(name)).expect(alarm);
        let name = field("AlarmName: !Sub '${AWS::StackName}-").trim_end_matches('\'');
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/deploy.md does not explain the alarm {name}"));
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{row}");
        match field("Threshold: ") {
            // The alarm fires on any, or on none.
            "0" | "1" => {}
            threshold => {
                let documented = match threshold.strip_prefix("!Ref ") {
                    Some(parameter) => format!("`{parameter}` ({})", default_of(parameter)),
                    None => format!("more than {threshold} "),
                };
                assert!(
                    cells[1].contains(&documented),
                    "the threshold {documented} of {name} is missing: {}",
                    cells[1]
                );
            }
        }
        explained.insert(name);
    }
    assert_eq!(explained.len(), rows.len(), "rows without an alarm: {rows:#?}");
}

fn default_of(parameter: &str) -> &'static str {
    let (_, rest) = TEMPLATE.split_once(&format!("\n  {parameter}:\n")).expect(parameter);
    rest.lines().find_map(|line| line.trim().strip_prefix("Default: ")).expect(parameter)
}

#[test]
fn every_alert_uses_recorded_metrics_and_is_documented() {
    let mut queried = BTreeSet::new();
    for expression in RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: ")) {
        for found in names(expression) {
            let name = ["_bucket", "_count"].iter().find_map(|end| found.strip_suffix(end)).unwrap_or(found);
            let metric = defined(name);
            for selector in between(expression, &format!("{found}{{"), "}") {
                let (label, value) = selector.split_once('=').expect(selector);
                match metric.kind {
                    Kind::Histogram(bounds) if label == "le" => {
                        let bound: f64 = value.trim_matches('"').parse().expect(selector);
                        assert!(bounds.contains(&bound), "{expression}");
                    }
                    _ => assert_label(metric, label, value.trim_matches('"')),
                }
            }
            queried.insert(name);
        }
    }
    assert_eq!(queried.len(), 8, "{queried:?}");
    for alert in RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(
            OPERATE.contains(&format!("| `{alert}` |")),
            "docs/operate.md does not explain the alert {alert}"
        );
    }
}

#[test]
fn grafana_shows_every_metric_with_its_own_labels() {
    let dashboard: Value = serde_json::from_str(GRAFANA).unwrap();
    let mut shown = BTreeSet::new();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array());
    for target in targets.flatten() {
        let expression = target["expr"].as_str().unwrap();
        let found = names(expression);
        let queried = found.first().unwrap_or_else(|| panic!("{expression} uses none of our metrics"));
        let (name, series) =
            match ["_bucket", "_sum", "_count"].iter().find_map(|end| queried.strip_suffix(end)) {
                Some(name) if matches!(defined(name).kind, Kind::Histogram(_)) => (name, true),
                _ => (*queried, false),
            };
        let metric = defined(name);
        assert_eq!(series, matches!(metric.kind, Kind::Histogram(_)), "{expression}");
        let grows = expression.contains("rate(") || expression.contains("increase(");
        assert_eq!(grows, metric.kind != Kind::Gauge, "{expression}");
        let grouped = between(expression, " by (", ")").flat_map(|labels| labels.split(", "));
        let legend = between(target["legendFormat"].as_str().unwrap(), "{{", "}}");
        for label in grouped.chain(legend) {
            let bucket = label == "le" && queried.ends_with("_bucket");
            assert!(bucket || metric.labels.contains(&label), "{expression}: {name} has no {label}");
        }
        shown.insert(metric.name);
    }
    assert_eq!(shown, ALL.iter().map(|metric| metric.name).collect());
}
