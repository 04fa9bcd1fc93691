//! Admission: an accepted document waits in line until there is room for it, by priority and fairly between
//! tenants.
//!
//! ```text
//! accepted ─▶ waiting, with a place ─▶ admitted, with a seat ─▶ its flow runs ─▶ ended, its seat is free
//! ```
//!
//! A seat is the id of a job in a stored set, not a number that is counted up and down: a seat that was not given
//! back is seen, and freed. Whatever dies between two steps, the next [`Admission::recover`] continues.

mod admit;
pub mod decide;
pub mod line;
pub mod seats;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{events::Store, ports::flow::Flow, settings::Settings};

pub use line::Ahead;

/// What admitting documents needs.
#[derive(Clone)]
pub struct Admission {
    pub store: Store,
    pub flow: Arc<dyn Flow>,
    pub settings: Arc<Settings>,
    /// One task of a process admits at a time: several would only refuse each other's writes.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The line as this process saw it last.
    seen: Arc<Mutex<Option<line::Seen>>>,
}

impl Admission {
    pub fn new(store: Store, flow: Arc<dyn Flow>, settings: Arc<Settings>) -> Self {
        Self { store, flow, settings, turn: Arc::default(), seen: Arc::default() }
    }
}
