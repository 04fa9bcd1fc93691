//! Notices to people: stored together with the change that they are about, sent at least once, and
//! coalesced, so that a hundred dead letters are a few messages and not a hundred.
//!
//! ```text
//! a use case writes its change and the notice in one batch ─▶ due
//! sender: leases the group (tenant, kind, topic) ─▶ one message per channel ─▶ sent
//!                 └── the group was notified a moment ago: waits, and goes out with the others
//! ```
//!
//! A crash anywhere leaves a notice that is due: the next process sends it, at worst a second time.

pub mod notice;
pub mod send;
mod store;

use std::sync::Arc;

pub use notice::{NewNotice, NoticeRecord, Progress};
pub use store::{all, change, delete_about, list_page};

use crate::{events::Store, ports::notifier::Notifier, tenants::Tenants};

/// The ports with which notices are sent.
#[derive(Clone)]
pub struct Notices {
    pub store: Store,
    pub tenants: Tenants,
    /// A notice is sent through each of them.
    pub notifiers: Vec<Arc<dyn Notifier>>,
}
