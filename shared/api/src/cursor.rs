//! Pagination: `limit`, and a cursor that is opaque to callers.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::problem::Problem;

/// Longer than any place in a list.
const MAX_PLACE: usize = 512;

/// Which part of a list to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// The maximum number of items.
    #[param(minimum = 1)]
    pub limit: Option<usize>,
    /// `next` of the previous response.
    pub cursor: Option<String>,
}

impl ListParams {
    /// The requested limit, at most `max`; `default` without one.
    pub fn limit(&self, default: usize, max: usize) -> Result<usize, Problem> {
        match self.limit {
            None => Ok(default),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::invalid("limit", format!("{limit} is not from 1 to {max}"))),
        }
    }

    /// The place in the list called `list` where the response starts; fails for a cursor of another list.
    pub fn after(&self, list: &str) -> Result<Option<String>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|bytes| bytes.len() <= MAX_PLACE);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let place = text.as_deref().and_then(|text| text.strip_prefix(list)?.strip_prefix(':'));
        match place.filter(|place| !place.is_empty() && !place.chars().any(char::is_control)) {
            Some(place) => Ok(Some(place.to_owned())),
            None => Err(Problem::invalid("cursor", "not the `next` of a response to this request")),
        }
    }
}

/// The cursor of a place in the list called `list`.
pub fn encode(list: &str, place: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}:{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(cursor: &str) -> ListParams {
        ListParams { limit: None, cursor: Some(cursor.to_owned()) }
    }

    #[test]
    fn a_cursor_is_valid_in_its_own_list_only() {
        let cursor = encode("jobs", "2026-11-16T00:00:00.000Z#a");
        assert_eq!(params(&cursor).after("jobs").unwrap().as_deref(), Some("2026-11-16T00:00:00.000Z#a"));
        for bad in [cursor.as_str(), "", "%%%", "é", &encode("dlq", ""), &encode("dlq", "a\0b")] {
            assert_eq!(
                params(bad).after("dlq").unwrap_err().code(),
                crate::problem::Code::BadOptions,
                "{bad}"
            );
        }
    }
}
