//! Reading requests: options, documents and JSON bodies.

mod form;
mod json;
mod options;
mod spool;

pub use form::read as form;
pub use json::{object, parse as json};
pub use options::{RequestOptions, idempotency_key};
pub use spool::{Spooled, body};

use crate::problem::{Code, Problem};

/// A body that ended early or that the client broke.
fn broken_body(cause: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, format!("the request body could not be read: {cause}"))
}
