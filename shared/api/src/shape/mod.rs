//! The domain as callers see it, as JSON. None of it is stored: the domain's own types may change
//! without changing these.

mod account;
mod breaker;
mod dead_letter;
mod event;
mod job;
mod list;
mod load;
mod me;
mod message;
mod notice;
mod page;
mod priority;
mod progress;
mod result;
mod stats;
mod upload;
mod webhook;

pub use account::{Account, Cause, LedgerEntry, Purchase, PurchaseStep};
pub use breaker::{Breaker, BreakerState};
pub use dead_letter::{DeadLetter, Estimate, Purged, RedriveFailure, Redriven, Subject};
pub use event::{Event, EventMetadata};
pub use job::{Document, Failure, InLine, Job, Links, Options, Pages, Plan, Status, Submitted};
pub use list::{
    BreakerList, DeadLetterList, EventList, JobList, LedgerEntryList, List, NoticeList, PageList,
    PurchaseList, WebhookDeliveryList, WebhookList,
};
pub use load::{InFlight, Lane, Load};
pub use me::Me;
pub use notice::Notice;
pub use page::{Page, PageDetail, PageImage, Settlement};
pub use priority::Priority;
pub use progress::progress;
pub use result::{Healing, ResultInfo};
pub use stats::{Stats, StatsBucket};
pub use upload::UploadLink;
pub use webhook::{Webhook, WebhookDelivery};
