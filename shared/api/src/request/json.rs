//! JSON bodies.

use axum::body::{Body, Bytes, to_bytes};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, error::Category};

use crate::{
    MAX_JSON,
    problem::{Code, Problem},
};

/// Parses a JSON body; an empty one gives the defaults.
pub fn parse<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => {
            Problem::new(Code::BadOptions, format!("the JSON does not match the schema: {error}"))
        }
        _ => Problem::new(Code::BadRequest, format!("the body is not JSON: {error}")),
    })
}

/// Reads a JSON object of up to [`MAX_JSON`] bytes.
pub async fn object(body: Body) -> Result<Map<String, Value>, Problem> {
    let bytes = to_bytes(body, MAX_JSON).await.map_err(|_| {
        let detail = format!("the JSON has more than {MAX_JSON} bytes; send the document as application/pdf");
        Problem::new(Code::FileTooLarge, detail)
    })?;
    parse(&bytes)
}
