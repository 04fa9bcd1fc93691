//! The account of a tenant: its credits, those reserved for jobs, and those being bought.
//!
//! ```text
//!  reserved      allocated       added          settled
//! ─────────▶ ordered ─────▶ allocated ─────▶ balance ─────▶ spent
//! ◀─────────         ◀─────           ◀─────    │  ▲
//!  released     taken back       deducted       ▼  │ released
//!                                          reserved for a job
//! ```
//!
//! The balance is the sum of the ledger and includes reserved credits. Like a job, an account is the
//! fold of its events; an event that would break a rule is refused and changes nothing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Aggregate, DomainEvent, Event, Head, decode},
    ids::{JobId, Priority, PurchaseId, TenantId},
};

/// The limit of balance, ordered and allocated credits together: far below what JSON numbers can hold.
pub const MAX_CREDITS: u64 = 1_000_000_000_000;

/// Why credits are added, spent or reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    Job {
        job: JobId,
    },
    Purchase {
        purchase: PurchaseId,
    },
    /// Added or deducted by an operator.
    Operator {
        by: String,
        note: String,
    },
    /// `WELCOME_CREDITS`.
    Welcome {},
}

/// Events of an account's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum AccountEvent {
    /// Credits of the balance are reserved for a job, or room for a purchase.
    #[serde(rename = "credit.reserved")]
    Reserved { credits: u64, cause: Cause },
    /// A job spent credits that were reserved for it. If `deducted`, a `credit.deducted` before it took them
    /// from the balance; in trails of version 0.1 this event did.
    #[serde(rename = "credit.settled")]
    Settled {
        credits: u64,
        job: JobId,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        deducted: bool,
    },
    #[serde(rename = "credit.released")]
    Released { credits: u64, cause: Cause },
    /// Ordered credits are paid, and not in the balance yet.
    #[serde(rename = "credit.allocated")]
    Allocated { credits: u64, purchase: PurchaseId },
    #[serde(rename = "credit.taken_back")]
    TakenBack { credits: u64, purchase: PurchaseId },
    #[serde(rename = "credit.added")]
    Added { credits: u64, cause: Cause },
    #[serde(rename = "credit.deducted")]
    Deducted { credits: u64, cause: Cause },
    /// The record or the ledger differed from this trail and was rebuilt from it.
    #[serde(rename = "account.repaired")]
    Repaired { by: String, findings: Vec<String> },
}

impl DomainEvent for AccountEvent {
    fn priority(&self) -> Option<Priority> {
        match self {
            Self::Repaired { .. } => None,
            Self::Reserved { .. }
            | Self::Settled { .. }
            | Self::Released { .. }
            | Self::Allocated { .. }
            | Self::TakenBack { .. }
            | Self::Added { .. }
            | Self::Deducted { .. } => Some(Priority::High),
        }
    }
}

impl AccountEvent {
    pub fn credits(&self) -> u64 {
        match self {
            Self::Repaired { .. } => 0,
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

/// Why a change was refused. The text is shown to people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not enough credits: {needed} are needed and {available} are available")]
    NotEnough { needed: u64, available: u64 },
    #[error("too many credits: with {credits} more the account would have {sum}; the limit is {MAX_CREDITS}")]
    TooMany { credits: u64, sum: u64 },
    #[error("{what} are {found}; expected at least {wanted}")]
    Missing { what: &'static str, wanted: u64, found: u64 },
}

/// Totals since the account's first event. What was earned less what was spent is the balance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Credits that were added, less those of purchases that were undone.
    pub earned: u64,
    /// Credits that jobs used or operators deducted.
    pub spent: u64,
    /// How often the balance changed.
    pub transactions: u64,
    /// When the first and the last event happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
}

impl Figures {
    fn add(&mut self, event: &AccountEvent) {
        match event {
            AccountEvent::Added { credits, .. } => self.earned += credits,
            AccountEvent::Deducted { credits, cause: Cause::Purchase { .. } } => {
                self.earned = self.earned.saturating_sub(*credits);
            }
            AccountEvent::Deducted { credits, .. }
            | AccountEvent::Settled { credits, deducted: false, .. } => {
                self.spent += credits;
            }
            AccountEvent::Reserved { .. }
            | AccountEvent::Settled { deducted: true, .. }
            | AccountEvent::Released { .. }
            | AccountEvent::Allocated { .. }
            | AccountEvent::TakenBack { .. }
            | AccountEvent::Repaired { .. } => return,
        }
        self.transactions += u64::from(event.credits() > 0);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub tenant: TenantId,
    /// The sum of the ledger.
    pub balance: u64,
    /// The part of the balance that is reserved for jobs until they end.
    pub reserved: u64,
    /// Being bought, and not paid yet.
    pub ordered: u64,
    /// Paid, and not in the balance yet.
    pub allocated: u64,
    /// Absent in records of version 0.1; the store reads them from the trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Whether it got its `WELCOME_CREDITS`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_welcomed: bool,
    pub head: Head,
}

impl Account {
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            balance: 0,
            reserved: 0,
            ordered: 0,
            allocated: 0,
            figures: Some(Figures::default()),
            is_welcomed: false,
            head: Head::default(),
        }
    }

    /// Credits that can be reserved for a new job.
    pub fn available(&self) -> u64 {
        self.balance - self.reserved
    }

    /// The account with the position and time of the event that was just applied to it.
    pub fn recorded(mut self, head: Head, at: Timestamp) -> Self {
        self.head = head;
        if let Some(figures) = &mut self.figures {
            figures.first_at.get_or_insert(at);
            figures.last_at = Some(at);
        }
        self
    }

    /// The account after `event`, without the new head of its trail.
    pub fn apply(&self, event: &AccountEvent) -> Result<Self, Refused> {
        let mut next = self.clone();
        match event {
            AccountEvent::Reserved { credits, cause: Cause::Purchase { .. } } => {
                next.check_limit(*credits)?;
                next.ordered += credits;
            }
            AccountEvent::Reserved { credits, .. } => {
                next.check_available(*credits)?;
                next.reserved += credits;
            }
            AccountEvent::Settled { deducted: true, .. } => {}
            AccountEvent::Settled { credits, .. }
            | AccountEvent::Deducted { credits, cause: Cause::Job { .. } } => {
                take("the reserved credits", &mut next.reserved, *credits)?;
                take("the credits of the balance", &mut next.balance, *credits)?;
            }
            AccountEvent::Released { credits, cause: Cause::Purchase { .. } } => {
                take("the ordered credits", &mut next.ordered, *credits)?;
            }
            AccountEvent::Released { credits, .. } => {
                take("the reserved credits", &mut next.reserved, *credits)?;
            }
            AccountEvent::Allocated { credits, .. } => {
                take("the ordered credits", &mut next.ordered, *credits)?;
                next.allocated += credits;
            }
            AccountEvent::TakenBack { credits, .. } => {
                take("the allocated credits", &mut next.allocated, *credits)?;
                next.ordered += credits;
            }
            AccountEvent::Added { credits, cause: Cause::Purchase { .. } } => {
                take("the allocated credits", &mut next.allocated, *credits)?;
                next.balance += credits;
            }
            AccountEvent::Added { credits, cause } => {
                next.check_limit(*credits)?;
                next.balance += credits;
                next.is_welcomed |= matches!(cause, Cause::Welcome {});
            }
            AccountEvent::Deducted { credits, cause } => {
                next.check_available(*credits)?;
                next.balance -= credits;
                if let Cause::Purchase { .. } = cause {
                    next.allocated += credits;
                }
            }
            AccountEvent::Repaired { .. } => {}
        }
        if let Some(figures) = &mut next.figures {
            figures.add(event);
        }
        Ok(next)
    }

    /// Rebuilds an account from its trail.
    pub fn replay(tenant: &TenantId, events: &[Event]) -> Result<Self, String> {
        let mut account = Self::new(tenant.clone());
        for event in events {
            if event.aggregate != Aggregate::Account(tenant.clone()) {
                return Err(format!("event {} belongs to {}", event.id, event.aggregate));
            }
            let typed: AccountEvent =
                decode(event).map_err(|error| format!("event {}: {error}", event.id))?;
            account = account
                .apply(&typed)
                .map_err(|refused| format!("event {}: {refused}", event.id))?
                .recorded(Head::of(event), event.timestamp);
        }
        Ok(account)
    }

    fn check_available(&self, credits: u64) -> Result<(), Refused> {
        let available = self.available();
        if credits > available {
            return Err(Refused::NotEnough { needed: credits, available });
        }
        Ok(())
    }

    /// Counts ordered and allocated credits too, because all of them may become part of the balance.
    fn check_limit(&self, credits: u64) -> Result<(), Refused> {
        let sum = (self.balance + self.ordered + self.allocated).saturating_add(credits);
        if sum > MAX_CREDITS { Err(Refused::TooMany { credits, sum }) } else { Ok(()) }
    }
}

fn take(what: &'static str, from: &mut u64, credits: u64) -> Result<(), Refused> {
    let missing = Refused::Missing { what, wanted: credits, found: *from };
    *from = from.checked_sub(credits).ok_or(missing)?;
    Ok(())
}

/// One line of the ledger: written together with the event that changed the balance, and immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The sequence number of the event in the account's trail.
    pub sequence: u64,
    pub at: Timestamp,
    /// Negative if credits were spent or deducted.
    pub amount: i64,
    /// The balance after this entry.
    pub balance: u64,
    pub cause: Cause,
}

impl LedgerEntry {
    /// The line for an event; `None` if it did not change the balance.
    pub fn of(before: &Account, after: &Account, event: &AccountEvent, at: Timestamp) -> Option<Self> {
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
