//! Options of a request, from its query, headers, form fields or JSON.

use axum::http::HeaderMap;
use everypage_core::{
    intake::options::{OptionError, OptionOverrides},
    secret::Secret,
    trace::TraceContext,
};
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Carries the password of a document. Never the query: proxies and servers log addresses.
const PASSWORD: &str = "everypage-password";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const TRACEPARENT: &str = "traceparent";

const MAX_NAME: usize = 255;
const MAX_KEY: usize = 255;

/// Everything that a request carries next to its document.
#[derive(Debug, Default)]
pub struct RequestOptions {
    pub name: Option<String>,
    pub password: Option<Secret>,
    pub idempotency_key: Option<String>,
    pub traceparent: Option<TraceContext>,
    pub overrides: OptionOverrides,
    seen: Vec<String>,
    errors: Vec<OptionError>,
}

impl RequestOptions {
    /// Reads the headers and the query. Errors are collected until [`Self::checked`].
    pub fn read(headers: &HeaderMap, query: &[(String, String)]) -> Self {
        let mut options = Self::default();
        for (name, value) in query {
            if name.eq_ignore_ascii_case("password") {
                options.reject("password", "send it in the header Everypage-Password: addresses are logged");
            } else {
                options.set(name, value);
            }
        }
        if let Some(value) = headers.get(PASSWORD) {
            match std::str::from_utf8(value.as_bytes()) {
                Ok(password) => options.set("password", password),
                Err(_) => options.reject("Everypage-Password", "not UTF-8"),
            }
        }
        match idempotency_key(headers) {
            Ok(key) => options.idempotency_key = key,
            Err(error) => options.errors.push(error),
        }
        // The W3C recommendation: a malformed traceparent is ignored.
        let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        options.traceparent = traceparent.and_then(|text| text.trim().parse().ok());
        options
    }

    /// Sets one option from its text.
    pub fn set(&mut self, name: &str, value: &str) {
        if self.seen.iter().any(|seen| seen == name) {
            return self.reject(name, "given twice");
        }
        self.seen.push(name.to_owned());
        match name {
            "name" => match document_name(value) {
                Some(name) => self.name = Some(name),
                None => self.reject(name, format!("must have 1 to {MAX_NAME} characters")),
            },
            // Forms send an empty field where nothing was entered.
            "password" if value.is_empty() => {}
            "password" => self.password = Some(Secret::new(value)),
            _ => match self.overrides.set(name, value) {
                Ok(true) => {}
                Ok(false) => {
                    let names = OptionOverrides::NAMES.join(", ");
                    self.reject(name, format!("unknown option (accepted: name, password, {names})"));
                }
                Err(error) => self.errors.push(error),
            },
        }
    }

    /// Sets options from the fields of a JSON object.
    pub fn set_all(&mut self, fields: Map<String, Value>) {
        for (name, value) in fields {
            match value {
                Value::Null => {}
                Value::String(text) => self.set(&name, &text),
                Value::Bool(_) | Value::Number(_) => self.set(&name, &value.to_string()),
                Value::Array(_) | Value::Object(_) => {
                    self.reject(&name, "must be text, a number, true or false")
                }
            }
        }
    }

    /// Names the document after its file, unless the request named it.
    pub fn name_after(&mut self, file_name: Option<&str>) {
        if self.name.is_none() {
            self.name = file_name.and_then(document_name);
        }
    }

    /// A field of a form. An explicit `name` replaces the file's.
    pub fn set_form_field(&mut self, field: &str, value: &str) {
        match document_name(value) {
            Some(name) if field == "name" => self.name = Some(name),
            _ => self.set(field, value),
        }
    }

    pub fn reject(&mut self, name: &str, message: impl Into<String>) {
        self.errors.push(OptionError::new(name, message));
    }

    /// The options, or a problem that lists every error.
    pub fn checked(mut self) -> Result<Self, Problem> {
        if self.overrides.force && self.idempotency_key.is_some() {
            self.reject("force", "an Idempotency-Key marks a repeated request; send one of the two");
        }
        match std::mem::take(&mut self.errors) {
            errors if errors.is_empty() => Ok(self),
            errors => Err(Problem::invalid_fields(errors)),
        }
    }
}

/// The `Idempotency-Key` of a request.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, OptionError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok(key) if (1..=MAX_KEY).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let message = format!("must have 1 to {MAX_KEY} characters of ASCII");
            Err(OptionError::new("Idempotency-Key", message))
        }
    }
}

/// A name without folders and control characters; `None` when it is empty or too long.
fn document_name(text: &str) -> Option<String> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let name = name.trim();
    (1..=MAX_NAME).contains(&name.chars().count()).then(|| name.to_owned())
}
