//! Where a listing goes on, as text that means nothing to callers.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::problem::Problem;

/// Longer than any place in a listing.
const LONGEST: usize = 512;

/// Which piece of a listing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Place {
    /// How many at most.
    #[param(minimum = 1)]
    pub limit: Option<usize>,
    /// Where to go on: `next` of the piece before.
    pub cursor: Option<String>,
}

impl Place {
    /// The limit as it was asked for or `usual`, up to `most`.
    pub fn limit(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        match self.limit {
            None => Ok(usual),
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::mistake("limit", format!("{limit} is not from 1 to {most}"))),
        }
    }

    /// The place in the listing called `list`; a cursor of another list is refused.
    pub fn after(&self, list: &str) -> Result<Option<String>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|bytes| bytes.len() <= LONGEST);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let place = text.as_deref().and_then(|text| text.strip_prefix(list)?.strip_prefix(':'));
        match place.filter(|place| !place.is_empty() && !place.chars().any(char::is_control)) {
            Some(place) => Ok(Some(place.to_owned())),
            None => Err(Problem::mistake("cursor", "it is not the `next` of an answer to this request")),
        }
    }
}

/// The text that leads to `place` of the listing called `list`.
pub fn write(list: &str, place: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}:{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cursor: &str) -> Place {
        Place { limit: None, cursor: Some(cursor.to_owned()) }
    }

    #[test]
    fn a_cursor_leads_back_to_its_place_in_its_own_list_only() {
        let cursor = write("jobs", "2026-11-16T00:00:00.000Z#a");
        assert_eq!(place(&cursor).after("jobs").unwrap().as_deref(), Some("2026-11-16T00:00:00.000Z#a"));
        for bad in [cursor.as_str(), "", "%%%", "é", &write("dlq", ""), &write("dlq", "a\0b")] {
            assert_eq!(place(bad).after("dlq").unwrap_err().code(), "bad_options", "{bad}");
        }
    }
}
