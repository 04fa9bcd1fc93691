//! The JSON Schema of the JSON result, from the schemas of the OpenAPI document.

use std::collections::BTreeMap;

use everypage_core::finish::result::ResultDocument;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::openapi::openapi;

const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

/// The schema of a result, published or provisional (JSON Schema 2020-12, which OpenAPI 3.1 is based on).
pub fn result_schema() -> Value {
    let document = serde_json::to_value(openapi()).unwrap_or_default();
    let all = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let root = ResultDocument::name().into_owned();
    let mut used = BTreeMap::new();
    add(&root, &all, &mut used);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everypage result",
        "description": "The result of a job in the JSON format. Fields may be added; none changes its meaning.",
        "$ref": format!("{DEFINITIONS}{root}"),
        "$defs": used,
    });
    // The same text in every build: a feature of serde_json keeps the order of insertion.
    schema.sort_all_objects();
    schema
}

/// Adds a schema and all that it refers to.
fn add(name: &str, all: &Map<String, Value>, used: &mut BTreeMap<String, Value>) {
    let Some(schema) = all.get(name).filter(|_| !used.contains_key(name)) else { return };
    let (mut schema, mut names) = (schema.clone(), Vec::new());
    point_to_definitions(&mut schema, &mut names);
    used.insert(name.to_owned(), schema);
    for name in names {
        add(&name, all, used);
    }
}

/// Makes references to components those to definitions, and collects their names.
fn point_to_definitions(schema: &mut Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name =
                    value.as_str().filter(|_| key == "$ref").and_then(|to| to.strip_prefix(COMPONENTS));
                match name.map(ToOwned::to_owned) {
                    Some(name) => {
                        *value = format!("{DEFINITIONS}{name}").into();
                        names.push(name);
                    }
                    None => point_to_definitions(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point_to_definitions(item, names)),
        _ => {}
    }
}
