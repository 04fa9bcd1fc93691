//! Reads the numbers of a result as every version stored them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value};

use super::ResultMetadata;

/// Counts of pages that were lists of their numbers in version 0.1, and the names that the lists have now.
const LISTS_OF_0_1: [(&str, &str); 2] =
    [("missing_pages", "missing_page_numbers"), ("timeout_fallback_pages", "timeout_fallback_page_numbers")];

impl<'de> Deserialize<'de> for ResultMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        for (count, numbers) in LISTS_OF_0_1 {
            if let Some(Value::Array(list)) = fields.get_mut(count) {
                let list = std::mem::take(list);
                fields.insert(count.to_owned(), list.len().into());
                fields.insert(numbers.to_owned(), list.into());
            }
        }
        Self::deserialize(Value::Object(fields)).map_err(D::Error::custom)
    }
}

impl Serialize for ResultMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}
