//! How many calls may be doubled, over all processes.
//!
//! A process that has made twenty calls since may double one without asking: what each has earned by itself is
//! earned by all together. Only a process that has made fewer asks the others: it adds its calls to a credit that
//! all share, and takes one doubled call from that. So nothing is written while no call is late, and a busy process
//! writes nothing at all.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::warn;

use super::hedge::{CALLS_PER_HEDGE, Credit, MAX_CREDIT};
use crate::{
    events::Store,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, When, Written},
    },
    records::{Versioned, decode, encode},
    time::after,
};

/// A process that was refused does not ask again for this long.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Fewer calls are not added to the credit for their own sake.
const MIN_DEPOSIT: u32 = 5;
/// Conditional writes that other processes may win; then the call is not doubled.
const MAX_TRIES: u32 = 4;

/// The calls that may be doubled, as one process sees them.
#[derive(Clone)]
pub struct Hedges {
    store: Store,
    own: Arc<Mutex<Own>>,
    /// One task at a time asks.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Own {
    /// Calls of this process that are neither used up nor part of the credit.
    calls: u32,
    refused_until: Option<Timestamp>,
}

impl Hedges {
    pub fn new(store: Store) -> Self {
        Self { store, own: Arc::default(), asking: Arc::default() }
    }

    /// Counts a call.
    pub fn count_call(&self) {
        let mut own = self.own.lock();
        own.calls = (own.calls + 1).min(MAX_CREDIT);
    }

    /// Takes one of the few calls that may be doubled. When the store can't be reached there is none: a page is
    /// read without it.
    pub async fn take(&self) -> bool {
        if let Some(answer) = self.known_answer() {
            return answer;
        }
        let _asking = self.asking.lock().await;
        // Another task may have taken it meanwhile.
        if let Some(answer) = self.known_answer() {
            return answer;
        }
        let is_granted = self.ask().await.unwrap_or_else(|fault| {
            warn!(%fault, "a late call is not doubled");
            false
        });
        if !is_granted {
            self.own.lock().refused_until = Some(after(self.store.clock.now(), REFUSED_FOR));
        }
        is_granted
    }

    /// The answer where it is known without the others.
    fn known_answer(&self) -> Option<bool> {
        let now = self.store.clock.now();
        let mut own = self.own.lock();
        if own.calls >= CALLS_PER_HEDGE {
            own.calls -= CALLS_PER_HEDGE;
            return Some(true);
        }
        own.refused_until.is_some_and(|until| now < until).then_some(false)
    }

    async fn ask(&self) -> Result<bool, Fault> {
        let item = self.store.records_once.get(&record::hedge_credit()).await?;
        let mut known: Versioned<Credit> = item.as_ref().map(decode).transpose()?.unwrap_or_default();
        for _ in 0..MAX_TRIES {
            // Out of reach of other tasks until it is known whether they were added.
            let calls = std::mem::take(&mut self.own.lock().calls);
            let keep = || self.own.lock().calls += calls;
            let credit = known.value.with_calls(calls);
            let left = credit.take();
            if left.is_none() && calls < MIN_DEPOSIT {
                keep();
                return Ok(false);
            }
            let when = if known.version == 0 { When::Absent } else { When::Version(known.version) };
            let draft = Draft::new(record::hedge_credit(), encode(&left.unwrap_or(credit))?);
            // Where the reply is lost they count as added: they must not be twice.
            match self.store.write_once(vec![Change::Put { draft, when }]).await? {
                Written::Applied => return Ok(left.is_some()),
                Written::Refused { existing, .. } => {
                    keep();
                    known = existing.as_deref().map(decode).transpose()?.unwrap_or_default();
                }
            }
        }
        Ok(false)
    }
}
