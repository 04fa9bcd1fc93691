#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use everypage_core::{
    ids::TenantId,
    money::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments, Refund},
    secret::Secret,
};

use crate::memory::{MemoryPayments, PaymentBehaviour};

/// The adapter under test, and the payment service behind it.
pub struct Subject {
    payments: Arc<dyn Payments>,
    service: Arc<MemoryPayments>,
}

impl Subject {
    pub fn new(payments: Arc<dyn Payments>, service: Arc<MemoryPayments>) -> Self {
        Self { payments, service }
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

pub async fn a_charge_is_taken_once_per_key(subject: &Subject) {
    let first = subject.payments.charge(&charge()).await.unwrap();
    let again = subject.payments.charge(&charge()).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(subject.service.charges(), [charge()]);
    let other = Charge { key: "p2:take_payment".into(), method: None, ..charge() };
    assert_ne!(subject.payments.charge(&other).await.unwrap(), first);
    assert_eq!(subject.service.charges(), [charge(), other]);
}

pub async fn a_declined_charge_differs_from_a_missing_reply(subject: &Subject) {
    subject.service.script_charges([
        PaymentBehaviour::Declines,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::LosesReply,
    ]);
    let declined = subject.payments.charge(&charge()).await;
    assert_eq!(declined, Err(PaymentError::Declined("the card was declined".into())));
    for _ in 0..2 {
        let unavailable = subject.payments.charge(&charge()).await;
        assert!(matches!(unavailable, Err(PaymentError::Unavailable(_))), "{unavailable:?}");
    }
    assert!(subject.payments.charge(&charge()).await.is_ok());
    assert_eq!(subject.service.charges().len(), 1);
}

pub async fn a_repeated_refund_is_made_once(subject: &Subject) {
    subject.payments.charge(&charge()).await.unwrap();
    subject.service.script_refunds([PaymentBehaviour::Unavailable, PaymentBehaviour::LosesReply]);
    for _ in 0..2 {
        let unavailable = subject.payments.refund(&refund()).await;
        assert!(matches!(unavailable, Err(PaymentError::Unavailable(_))), "{unavailable:?}");
    }
    subject.payments.refund(&refund()).await.unwrap();
    assert_eq!(subject.service.income(), MicroUsd(0));
}

pub async fn a_charge_refunded_in_advance_is_never_taken(subject: &Subject) {
    subject.payments.refund(&refund()).await.unwrap();
    let late = subject.payments.charge(&charge()).await;
    assert!(matches!(late, Err(PaymentError::Declined(_))), "{late:?}");
    assert_eq!(subject.service.charges(), []);
}
