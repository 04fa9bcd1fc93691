//! The template, the state machine and the console agree with the code.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod permissions;
mod state_machine;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use everypage_backends::root;
use serde_json::Value;

fn template() -> String {
    std::fs::read_to_string(root().join("infra/template.yaml")).unwrap()
}

/// The state machine, with the numbers that CloudFormation fills in as texts.
fn machine() -> Value {
    let text = std::fs::read_to_string(root().join("statemachine.asl.json")).unwrap();
    let mut parts = text.split(": ${");
    let mut json = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        json.push_str(&format!(": \"${{{name}}}\"{rest}"));
    }
    serde_json::from_str(&json).unwrap()
}

/// The `NAME: value` lines below `heading` that are indented deeper.
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

/// Every state of a machine, including nested ones.
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

/// The lines below a heading that are indented deeper.
fn part(template: &str, heading: &str) -> String {
    let mut lines = template.lines().skip_while(|line| *line != heading);
    let depth = lines.next().map(indent).unwrap_or_else(|| panic!("the template has no {heading:?}"));
    let lines = lines.take_while(|line| line.trim().is_empty() || indent(line) > depth);
    lines.collect::<Vec<_>>().join("\n")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The names in `name: [a, b]` below a heading.
fn list(template: &str, heading: &str, name: &str) -> BTreeSet<String> {
    let below = part(template, heading);
    let found = below
        .lines()
        .find_map(|line| line.trim().trim_start_matches("- ").strip_prefix(name)?.strip_prefix(": ["));
    let found = found.unwrap_or_else(|| panic!("{heading} has no {name}")).trim_end_matches(']');
    found.split(", ").map(str::to_owned).collect()
}

/// Every text between `before` and `after`.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split_once(after).map(|(found, _)| found))
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
