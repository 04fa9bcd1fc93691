#![allow(clippy::unwrap_used, reason = "an exam fails by panicking")]

use std::sync::Arc;

use everypage_core::{
    domain::{ids::TenantId, outcome::MicroUsd, secret::Secret},
    ports::payments::{Charge, PaymentError, Payments, Refund},
};

use crate::memory::{MemoryPayments, Mood};

/// Whoever takes the exam, and the books that it should fill.
pub struct Subject {
    payments: Arc<dyn Payments>,
    books: Arc<MemoryPayments>,
}

impl Subject {
    pub fn new(payments: Arc<dyn Payments>, books: Arc<MemoryPayments>) -> Self {
        Self { payments, books }
    }
}

fn charge() -> Charge {
    Charge {
        key: "p1:take_payment".into(),
        tenant: TenantId::new("acme"),
        credits: 1000,
        amount: MicroUsd(1_234_050_000),
        method: Some(Secret::new("card of ann")),
    }
}

fn refund() -> Refund {
    Refund {
        key: "p1:take_payment:undo".into(),
        charge: charge().key,
        tenant: charge().tenant,
        amount: charge().amount,
    }
}

pub async fn money_is_taken_as_it_was_asked_for_and_once_per_key(subject: &Subject) {
    let first = subject.payments.charge(&charge()).await.unwrap();
    let again = subject.payments.charge(&charge()).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(subject.books.kept(), [charge()]);
    let other = Charge { key: "p2:take_payment".into(), method: None, ..charge() };
    assert_ne!(subject.payments.charge(&other).await.unwrap(), first);
    assert_eq!(subject.books.kept(), [charge(), other]);
}

pub async fn a_no_is_told_from_no_answer(subject: &Subject) {
    subject.books.charges_will([Mood::Declines, Mood::Away, Mood::LosesReply]);
    let declined = subject.payments.charge(&charge()).await;
    assert_eq!(declined, Err(PaymentError::Declined("the card was declined".into())));
    for _ in 0..2 {
        let nobody_knows = subject.payments.charge(&charge()).await;
        assert!(matches!(nobody_knows, Err(PaymentError::Unavailable(_))), "{nobody_knows:?}");
    }
    assert!(subject.payments.charge(&charge()).await.is_ok());
    assert_eq!(subject.books.kept().len(), 1);
}

pub async fn money_is_given_back_however_often_that_is_asked(subject: &Subject) {
    subject.payments.charge(&charge()).await.unwrap();
    subject.books.refunds_will([Mood::Away, Mood::LosesReply]);
    for _ in 0..2 {
        let nobody_knows = subject.payments.refund(&refund()).await;
        assert!(matches!(nobody_knows, Err(PaymentError::Unavailable(_))), "{nobody_knows:?}");
    }
    subject.payments.refund(&refund()).await.unwrap();
    assert_eq!(subject.books.income(), MicroUsd(0));
}

pub async fn what_was_given_back_before_it_came_is_never_taken(subject: &Subject) {
    subject.payments.refund(&refund()).await.unwrap();
    let late = subject.payments.charge(&charge()).await;
    assert!(matches!(late, Err(PaymentError::Declined(_))), "{late:?}");
    assert_eq!(subject.books.kept(), []);
}
