//! What callers see of the domain, as JSON. Nothing here is stored; the domain's own types may
//! change their shape without changing these.

mod account;
mod job;
mod operations;
mod page;
mod progress;
mod service;

use serde::Serialize;
use utoipa::ToSchema;

pub use account::{Account, Cause, LedgerEntry, Purchase, PurchaseStep};
pub use job::{
    Document, Failure, Job, Links, Metadata, Options, Pages, Plan, ResultInfo, Status, Submitted, UploadLink,
};
pub use operations::{
    Breaker, BreakerState, DeadLetter, Estimate, Event, EventMetadata, Healing, Purged, Redriven, Subject,
    Unsent,
};
pub use page::{Attempt, Page, PageDetail, PageImage, PageStatus, Settlement};
pub use progress::progress;
pub use service::{InFlight, Lane, Load, Me, Span, Stats, Webhook};

/// A piece of a listing.
#[derive(Debug, Serialize, ToSchema)]
pub struct Piece<T> {
    pub items: Vec<T>,
    /// Pass it as `cursor` for the next piece; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The name that serde gives a value, such as an enum's variant.
pub(crate) fn name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
