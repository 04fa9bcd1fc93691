//! A tenant's credits: what it has, what jobs hold of it, and what is being bought.
//!
//! ```text
//!  reserved      allocated       added          settled
//! ─────────▶ ordered ─────▶ allocated ─────▶ balance ─────▶ spent
//! ◀─────────         ◀─────           ◀─────    │  ▲
//!  released     taken back       deducted       ▼  │ released
//!                                            held for a job
//! ```
//!
//! The balance is the sum of the ledger, held credits among it. Like a job, an account is nothing but
//! the fold of its events, and a change that would break a rule is refused and changes nothing.

use serde::{Deserialize, Serialize};

use crate::{
    event::{Aggregate, Event, Head, decode},
    ids::{JobId, PurchaseId, TenantId},
};

/// Most credits of an account in all its places: far from where numbers end, in JSON too.
pub const MOST_CREDITS: u64 = 1_000_000_000_000;

/// Why credits come, go or wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    Job {
        job: JobId,
    },
    Purchase {
        purchase: PurchaseId,
    },
    /// Given or taken by an operator.
    Operator {
        by: String,
        note: String,
    },
}

/// Events of an account's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum AccountEvent {
    /// A job holds credits, or a purchase has its place.
    #[serde(rename = "credit.reserved")]
    Reserved { credits: u64, cause: Cause },
    /// What a job held was used.
    #[serde(rename = "credit.settled")]
    Settled { credits: u64, job: JobId },
    #[serde(rename = "credit.released")]
    Released { credits: u64, cause: Cause },
    /// What was ordered is paid, and about to be the tenant's.
    #[serde(rename = "credit.allocated")]
    Allocated { credits: u64, purchase: PurchaseId },
    #[serde(rename = "credit.taken_back")]
    TakenBack { credits: u64, purchase: PurchaseId },
    #[serde(rename = "credit.added")]
    Added { credits: u64, cause: Cause },
    #[serde(rename = "credit.deducted")]
    Deducted { credits: u64, cause: Cause },
}

impl AccountEvent {
    pub fn credits(&self) -> u64 {
        match self {
            Self::Reserved { credits, .. }
            | Self::Settled { credits, .. }
            | Self::Released { credits, .. }
            | Self::Allocated { credits, .. }
            | Self::TakenBack { credits, .. }
            | Self::Added { credits, .. }
            | Self::Deducted { credits, .. } => *credits,
        }
    }
}

/// Why a change was not made. The wording is shown to people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not enough credits: {needed} are needed and {available} are available")]
    NotEnough { needed: u64, available: u64 },
    #[error("an account holds at most {MOST_CREDITS} credits; with {credits} more it would be {sum}")]
    TooMany { credits: u64, sum: u64 },
    #[error("{what} has {found} credits, not the {wanted} that should be there")]
    Missing { what: &'static str, wanted: u64, found: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub tenant: TenantId,
    /// What the tenant has: the sum of its ledger.
    pub balance: u64,
    /// Of the balance, what jobs hold until they end.
    pub reserved: u64,
    /// Being bought and not paid yet.
    pub ordered: u64,
    /// Paid and not in the balance yet.
    pub allocated: u64,
    pub head: Head,
}

impl Account {
    pub fn new(tenant: TenantId) -> Self {
        Self { tenant, balance: 0, reserved: 0, ordered: 0, allocated: 0, head: Head::default() }
    }

    /// What a new job may hold.
    pub fn available(&self) -> u64 {
        self.balance - self.reserved
    }

    /// The account after `event`, without its place in the trail.
    pub fn apply(&self, event: &AccountEvent) -> Result<Self, Refused> {
        let mut next = self.clone();
        match event {
            AccountEvent::Reserved { credits, cause: Cause::Purchase { .. } } => {
                next.has_room(*credits)?;
                next.ordered += credits;
            }
            AccountEvent::Reserved { credits, .. } => {
                next.afford(*credits)?;
                next.reserved += credits;
            }
            AccountEvent::Settled { credits, .. } => {
                take("what jobs hold", &mut next.reserved, *credits)?;
                take("the balance", &mut next.balance, *credits)?;
            }
            AccountEvent::Released { credits, cause: Cause::Purchase { .. } } => {
                take("what is ordered", &mut next.ordered, *credits)?;
            }
            AccountEvent::Released { credits, .. } => {
                take("what jobs hold", &mut next.reserved, *credits)?;
            }
            AccountEvent::Allocated { credits, .. } => {
                take("what is ordered", &mut next.ordered, *credits)?;
                next.allocated += credits;
            }
            AccountEvent::TakenBack { credits, .. } => {
                take("what is allocated", &mut next.allocated, *credits)?;
                next.ordered += credits;
            }
            AccountEvent::Added { credits, cause: Cause::Purchase { .. } } => {
                take("what is allocated", &mut next.allocated, *credits)?;
                next.balance += credits;
            }
            AccountEvent::Added { credits, .. } => {
                next.has_room(*credits)?;
                next.balance += credits;
            }
            AccountEvent::Deducted { credits, cause } => {
                next.afford(*credits)?;
                next.balance -= credits;
                if let Cause::Purchase { .. } = cause {
                    next.allocated += credits;
                }
            }
        }
        Ok(next)
    }

    /// Rebuilds an account from its trail alone.
    pub fn replay(tenant: &TenantId, events: &[Event]) -> Result<Self, String> {
        let mut account = Self::new(tenant.clone());
        for event in events {
            if event.aggregate != Aggregate::Account(tenant.clone()) {
                return Err(format!("event {} belongs to {}", event.id, event.aggregate));
            }
            let typed: AccountEvent =
                decode(event).map_err(|error| format!("event {}: {error}", event.id))?;
            account = account.apply(&typed).map_err(|refused| format!("event {}: {refused}", event.id))?;
            account.head = Head::of(event);
        }
        Ok(account)
    }

    fn afford(&self, credits: u64) -> Result<(), Refused> {
        let available = self.available();
        if credits > available {
            return Err(Refused::NotEnough { needed: credits, available });
        }
        Ok(())
    }

    /// Whatever is somewhere now may come to be the balance.
    fn has_room(&self, credits: u64) -> Result<(), Refused> {
        let sum = (self.balance + self.ordered + self.allocated).saturating_add(credits);
        if sum > MOST_CREDITS { Err(Refused::TooMany { credits, sum }) } else { Ok(()) }
    }
}

fn take(what: &'static str, from: &mut u64, credits: u64) -> Result<(), Refused> {
    let missing = Refused::Missing { what, wanted: credits, found: *from };
    *from = from.checked_sub(credits).ok_or(missing)?;
    Ok(())
}

/// One line of the ledger: written with the event that changed the balance, and never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The event's place in the account's trail.
    pub sequence: u64,
    pub at: jiff::Timestamp,
    /// Less than zero for what went.
    pub amount: i64,
    /// After this entry.
    pub balance: u64,
    pub cause: Cause,
}

impl LedgerEntry {
    /// The line for an event, where it moved the balance.
    pub fn of(before: &Account, after: &Account, event: &AccountEvent, at: jiff::Timestamp) -> Option<Self> {
        let amount = after.balance as i64 - before.balance as i64;
        let cause = match event {
            AccountEvent::Settled { job, .. } => Cause::Job { job: job.clone() },
            AccountEvent::Added { cause, .. } | AccountEvent::Deducted { cause, .. } => cause.clone(),
            _ => return None,
        };
        let (sequence, balance) = (after.head.sequence, after.balance);
        (amount != 0).then_some(Self { sequence, at, amount, balance, cause })
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
