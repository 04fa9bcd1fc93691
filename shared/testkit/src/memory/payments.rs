use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::{
    money::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments, Refund},
};

/// What a payment service does with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentBehaviour {
    Succeeds,
    Declines,
    /// Does nothing and answers 503.
    Unavailable,
    /// Makes the payment, but the caller gets no reply.
    LosesReply,
}

/// A payment service that honours idempotency keys, and fails as the test scripts it.
#[derive(Default)]
pub struct MemoryPayments {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: BTreeMap<String, Charge>,
    refunded: BTreeSet<String>,
    /// Behaviour of the next calls; later ones succeed.
    charges: VecDeque<PaymentBehaviour>,
    refunds: VecDeque<PaymentBehaviour>,
    calls: usize,
}

impl MemoryPayments {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn script_charges(&self, behaviours: impl IntoIterator<Item = PaymentBehaviour>) {
        self.state().charges = behaviours.into_iter().collect();
    }

    pub fn script_refunds(&self, behaviours: impl IntoIterator<Item = PaymentBehaviour>) {
        self.state().refunds = behaviours.into_iter().collect();
    }

    /// Calls of either kind so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Charges that were taken and not refunded.
    pub fn charges(&self) -> Vec<Charge> {
        let state = self.state();
        let kept = state.taken.iter().filter(|(key, _)| !state.refunded.contains(*key));
        kept.map(|(_, charge)| charge.clone()).collect()
    }

    /// The sum of [`MemoryPayments::charges`].
    pub fn income(&self) -> MicroUsd {
        MicroUsd(self.charges().iter().map(|charge| charge.amount.0).sum())
    }
}

#[async_trait]
impl Payments for MemoryPayments {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let mut state = self.state();
        state.calls += 1;
        let behaviour = state.charges.pop_front().unwrap_or(PaymentBehaviour::Succeeds);
        match behaviour {
            PaymentBehaviour::Unavailable => return Err(PaymentError::Unavailable("it answered 503".into())),
            PaymentBehaviour::Declines => return Err(PaymentError::Declined("the card was declined".into())),
            PaymentBehaviour::Succeeds | PaymentBehaviour::LosesReply => {}
        }
        if state.refunded.contains(&charge.key) {
            return Err(PaymentError::Declined("this payment was refunded".into()));
        }
        state.taken.entry(charge.key.clone()).or_insert_with(|| charge.clone());
        match behaviour {
            PaymentBehaviour::LosesReply => {
                Err(PaymentError::Unavailable("it did not answer in time".into()))
            }
            _ => Ok(format!("pay-{}", charge.key)),
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        let mut state = self.state();
        state.calls += 1;
        let behaviour = state.refunds.pop_front().unwrap_or(PaymentBehaviour::Succeeds);
        match behaviour {
            PaymentBehaviour::Unavailable => return Err(PaymentError::Unavailable("it answered 503".into())),
            PaymentBehaviour::Declines => {
                return Err(PaymentError::Declined("the charge is too old to refund".into()));
            }
            PaymentBehaviour::Succeeds | PaymentBehaviour::LosesReply => {}
        }
        state.refunded.insert(refund.charge.clone());
        match behaviour {
            PaymentBehaviour::LosesReply => {
                Err(PaymentError::Unavailable("it did not answer in time".into()))
            }
            _ => Ok(()),
        }
    }
}
