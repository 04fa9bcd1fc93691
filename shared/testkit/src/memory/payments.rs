use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::{
    domain::outcome::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments, Refund},
};

/// What a payment service does instead of what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It does as it is asked.
    Fine,
    Declines,
    /// It does nothing, and nobody knows.
    Away,
    /// It does it, and nobody knows.
    LosesReply,
}

/// A payment service that keeps its keys, and fails as it is told.
#[derive(Default)]
pub struct MemoryPayments {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    taken: BTreeMap<String, Charge>,
    given_back: BTreeSet<String>,
    /// Moods of the next calls; then it is fine.
    charges: VecDeque<Mood>,
    refunds: VecDeque<Mood>,
    calls: usize,
}

impl MemoryPayments {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn charges_will(&self, moods: impl IntoIterator<Item = Mood>) {
        self.books().charges = moods.into_iter().collect();
    }

    pub fn refunds_will(&self, moods: impl IntoIterator<Item = Mood>) {
        self.books().refunds = moods.into_iter().collect();
    }

    /// Calls of either kind so far.
    pub fn calls(&self) -> usize {
        self.books().calls
    }

    /// Charges that were taken and not given back.
    pub fn kept(&self) -> Vec<Charge> {
        let books = self.books();
        let kept = books.taken.iter().filter(|(key, _)| !books.given_back.contains(*key));
        kept.map(|(_, charge)| charge.clone()).collect()
    }

    /// What was taken and not given back.
    pub fn income(&self) -> MicroUsd {
        MicroUsd(self.kept().iter().map(|charge| charge.amount.0).sum())
    }
}

#[async_trait]
impl Payments for MemoryPayments {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let mut books = self.books();
        books.calls += 1;
        let mood = books.charges.pop_front().unwrap_or(Mood::Fine);
        match mood {
            Mood::Away => return Err(PaymentError::Unavailable("it answered 503".into())),
            Mood::Declines => return Err(PaymentError::Declined("the card was declined".into())),
            Mood::Fine | Mood::LosesReply => {}
        }
        if books.given_back.contains(&charge.key) {
            return Err(PaymentError::Declined("this payment was given back".into()));
        }
        books.taken.entry(charge.key.clone()).or_insert_with(|| charge.clone());
        match mood {
            Mood::LosesReply => Err(PaymentError::Unavailable("it did not answer in time".into())),
            _ => Ok(format!("pay-{}", charge.key)),
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        let mut books = self.books();
        books.calls += 1;
        let mood = books.refunds.pop_front().unwrap_or(Mood::Fine);
        match mood {
            Mood::Away => return Err(PaymentError::Unavailable("it answered 503".into())),
            Mood::Declines => return Err(PaymentError::Declined("it is too old to be given back".into())),
            Mood::Fine | Mood::LosesReply => {}
        }
        books.given_back.insert(refund.charge.clone());
        match mood {
            Mood::LosesReply => Err(PaymentError::Unavailable("it did not answer in time".into())),
            _ => Ok(()),
        }
    }
}
