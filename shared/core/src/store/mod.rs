//! Typed records over the one `Records` port, and where each lives.
//!
//! | partition | sort | what |
//! | --- | --- | --- |
//! | `job#J` | `job` | the job |
//! | `job#J` | `event#0000000001` | its trail |
//! | `job#J` | `page#0000000017` | lease and outcome of a page |
//! | `job#J` | `pagelog#0000000017#0000000001` | a page's trail |
//! | `job#J` | `secret` | a sealed password, until intake is over |
//! | `job#J` | `wake` | on AWS, the token of the step that waits for a decision |
//! | `idempotency#T` | a key | the job that a request made |
//! | `breaker` | a target | its breaker |
//! | `breaker#…` | `event#…` | its trail |
//! | `slots#…` | `0000000000` | one in-flight slot of a target |
//! | `dead#…` | `dead` / `event#…` | a dead letter and its trail |

pub mod breakers;
pub mod dead;
pub mod jobs;
pub mod pages;
pub mod secrets;
pub mod slots;
pub mod trail;

use serde::{Serialize, de::DeserializeOwned};

use crate::ports::{Fault, records::Item};

/// A stored value and the version that a write to it must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    pub value: T,
    pub version: u64,
}

pub(crate) fn decode<T: DeserializeOwned>(item: &Item) -> Result<Kept<T>, Fault> {
    let value = serde_json::from_str(&item.draft.body).map_err(|error| {
        Fault::broken("records", format!("{}/{}: {error}", item.draft.key.partition, item.draft.key.sort))
    })?;
    Ok(Kept { value, version: item.version })
}

pub(crate) fn encode(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::broken("records", error))
}
