//! Buying credits: starts purchases, and what their steps do. They run as [`crate::sagas`] do.
//!
//! A step in the account is written in one batch with the event that it is done, so that it takes effect
//! once. Payments are charged and refunded under an idempotency key, so that a repeated call is harmless.
//! Any process that finds a due purchase continues it: the one that handled the request, `serve`, or the
//! sweep.

use std::time::Duration;

use async_trait::async_trait;
use tracing::info;

use crate::{
    billing::{
        Billing,
        account::{AccountEvent, Cause, MAX_CREDITS},
        accounts::AccountError,
        purchase::{Order, Purchase, Step},
        purchases,
    },
    digest::sha256_hex,
    events::Store,
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    ports::{
        Fault,
        clock::Clock,
        payments::{Charge, PaymentError, Refund},
    },
    records::Versioned,
    sagas::{
        decide::{Decision, NotAllowed, StepFailure},
        progress::{Progress, SagaEvent, State},
        run::{self, AdvanceError, Ran, Saga},
    },
    secret::Secret,
    settings::Purchasing,
    tenants::{
        self,
        administration::{self, ActError, TenantClosed},
    },
};

/// A caller's request to buy credits.
pub struct PurchaseRequest {
    pub tenant: TenantId,
    pub by: String,
    pub credits: u64,
    /// The payment service's token for the payer's card or account.
    pub method: Option<Secret>,
    /// The caller's own key of the request.
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurchaseError {
    #[error("credits can't be bought: set PAYMENT_URL and CREDIT_PRICE_USD")]
    NotSetUp,
    #[error(
        "can't buy {credits} credits in one purchase (accepted: 1 to {MAX_CREDITS}, if the price is not too large)"
    )]
    BadAmount { credits: u64 },
    #[error("the idempotency key {key:?} was used before for another purchase")]
    KeyReused { key: String },
    #[error("unknown purchase {0}")]
    Unknown(PurchaseId),
    #[error(transparent)]
    Closed(TenantClosed),
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Stores the purchase; returns it, and whether it existed before. From then on it always comes to an
/// end, whichever process runs its steps.
pub async fn start(billing: &Billing, request: PurchaseRequest) -> Result<(Purchase, bool), PurchaseError> {
    let settings = tenants::settings(&billing.tenants, &request.tenant).await?;
    let Some(Purchasing { price_usd, strategy, .. }) = &settings.purchasing else {
        return Err(PurchaseError::NotSetUp);
    };
    let credits = request.credits;
    if !(1..=MAX_CREDITS).contains(&credits) {
        return Err(PurchaseError::BadAmount { credits });
    }
    administration::check_open(&billing.store, &request.tenant).await.map_err(|error| match error {
        ActError::Closed(closed) => PurchaseError::Closed(closed),
        ActError::Fault(fault) => fault.into(),
    })?;
    let id = match &request.idempotency_key {
        Some(key) => PurchaseId::new(&sha256_hex(format!("{}/{key}", request.tenant).as_bytes())[..32]),
        None => PurchaseId::new(billing.store.ids.fresh()),
    };
    let order = Order {
        tenant: request.tenant,
        by: request.by,
        credits,
        price_micro_usd: price_of(credits, *price_usd).ok_or(PurchaseError::BadAmount { credits })?,
    };
    let method = request.method.as_ref();
    if let Some(created) =
        purchases::create(&billing.store, billing.vault.as_ref(), &id, order, *strategy, method).await?
    {
        return Ok((created.value, false));
    }
    let existing = load(&billing.store, &id).await?.value;
    if existing.order.credits != credits {
        return Err(PurchaseError::KeyReused { key: request.idempotency_key.unwrap_or_default() });
    }
    Ok((existing, true))
}

/// The price in whole cents, as payment services count, rounded up; `None` if it is too large.
fn price_of(credits: u64, price_usd: f64) -> Option<MicroUsd> {
    let cents = (credits as f64 * price_usd * 100.0 - 1e-6).ceil().max(0.0) as u64;
    cents.checked_mul(10_000).map(MicroUsd)
}

async fn load(store: &Store, id: &PurchaseId) -> Result<Versioned<Purchase>, PurchaseError> {
    purchases::find(store, id).await?.ok_or_else(|| PurchaseError::Unknown(id.clone()))
}

/// Runs the steps of a purchase for up to `patience`; other processes run those that are due later.
pub async fn drive(
    billing: &Billing,
    id: &PurchaseId,
    patience: Duration,
) -> Result<Purchase, PurchaseError> {
    run::drive(billing, id, patience).await?.ok_or_else(|| PurchaseError::Unknown(id.clone()))
}

/// Applies an operator's decision on a purchase.
pub async fn decide(
    store: &Store,
    id: &PurchaseId,
    by: &str,
    decision: Decision,
) -> Result<Purchase, PurchaseError> {
    loop {
        let before = load(store, id).await?;
        let purchase = &before.value;
        let event = purchase.progress.decide(by, decision.clone())?;
        let released = match event {
            SagaEvent::Resolved { .. } => purchase.steps_to_release(),
            _ => &[],
        };
        let account: Vec<_> = released.iter().filter_map(|step| undo_event(purchase, *step)).collect();
        let decided = purchases::advance(store, &before, &[event.into()], &account).await;
        if let Some(decided) = decided.map_err(|error| match error {
            AccountError::Fault(fault) => fault,
            AccountError::Refused(refused) => Fault::broken("account", refused),
        })? {
            return Ok(decided.value);
        }
    }
}

/// What a step changes.
#[derive(Default)]
pub struct Effect {
    /// The payment service's id of a payment that was taken.
    payment: Option<String>,
    account: Option<AccountEvent>,
}

impl Effect {
    fn on_account(account: Option<AccountEvent>) -> Self {
        Self { payment: None, account }
    }
}

#[async_trait]
impl Saga for Billing {
    type Step = Step;
    type Id = PurchaseId;
    type Record = Purchase;
    type Effect = Effect;

    fn clock(&self) -> &dyn Clock {
        self.store.clock.as_ref()
    }

    fn pauses(&self) -> &[Duration] {
        &self.settings.retry_intervals
    }

    /// Only a process with a payment service runs steps: in one without, every payment would fail.
    fn can_run(&self) -> bool {
        self.settings.purchasing.is_some()
    }

    fn id(purchase: &Purchase) -> &PurchaseId {
        &purchase.id
    }

    fn tenant(purchase: &Purchase) -> &TenantId {
        &purchase.order.tenant
    }

    fn progress(purchase: &Purchase) -> &Progress<Step> {
        &purchase.progress
    }

    async fn find(&self, id: &PurchaseId) -> Result<Option<Versioned<Purchase>>, Fault> {
        purchases::find(&self.store, id).await
    }

    async fn list_active(&self, limit: usize) -> Result<Vec<Versioned<Purchase>>, Fault> {
        purchases::list_active(&self.store, limit).await
    }

    async fn advance(
        &self,
        before: &Versioned<Purchase>,
        events: Vec<SagaEvent<Step>>,
        effect: Effect,
    ) -> Result<Option<Versioned<Purchase>>, AdvanceError> {
        let events = before.value.with_payment(events, effect.payment);
        let advanced = purchases::advance(&self.store, before, &events, effect.account.as_slice()).await;
        let advanced = advanced.map_err(|error| match error {
            AccountError::Refused(refused) => AdvanceError::Refused(refused.to_string()),
            AccountError::Fault(fault) => AdvanceError::Fault(fault),
        })?;
        if let Some(Versioned { value: done, .. }) = &advanced
            && done.progress.state == State::Completed
        {
            let Order { tenant, credits, .. } = &done.order;
            info!(purchase = %done.id, %tenant, credits, "credits bought");
        }
        Ok(advanced)
    }

    async fn run(&self, purchase: &Purchase, step: Step) -> Result<Ran<Effect>, StepFailure> {
        Ok(Ran::Done(match step {
            Step::TakePayment => Effect { payment: Some(charge(self, purchase).await?), account: None },
            _ => Effect::on_account(account_event(purchase, step)),
        }))
    }

    async fn undo(&self, purchase: &Purchase, step: Step) -> Result<Effect, String> {
        if step == Step::TakePayment {
            refund(self, purchase).await.map_err(|error| error.to_string())?;
        }
        Ok(Effect::on_account(undo_event(purchase, step)))
    }
}

/// The account event of a step; `None` for the payment.
fn account_event(purchase: &Purchase, step: Step) -> Option<AccountEvent> {
    let (credits, id) = (purchase.order.credits, purchase.id.clone());
    match step {
        Step::Reserve => Some(AccountEvent::Reserved { credits, cause: Cause::Purchase { purchase: id } }),
        Step::TakePayment => None,
        Step::Allocate => Some(AccountEvent::Allocated { credits, purchase: id }),
        Step::Enter => Some(AccountEvent::Added { credits, cause: Cause::Purchase { purchase: id } }),
    }
}

/// The account event that undoes a step; `None` for the payment.
fn undo_event(purchase: &Purchase, step: Step) -> Option<AccountEvent> {
    let (credits, id) = (purchase.order.credits, purchase.id.clone());
    match step {
        Step::Reserve => Some(AccountEvent::Released { credits, cause: Cause::Purchase { purchase: id } }),
        Step::TakePayment => None,
        Step::Allocate => Some(AccountEvent::TakenBack { credits, purchase: id }),
        Step::Enter => Some(AccountEvent::Deducted { credits, cause: Cause::Purchase { purchase: id } }),
    }
}

async fn charge(billing: &Billing, purchase: &Purchase) -> Result<String, StepFailure> {
    // A method that can't be decrypted is retried like a service that can't be reached.
    let method = purchases::payment_method(&billing.store, billing.vault.as_ref(), &purchase.id)
        .await
        .map_err(|fault| StepFailure::Unknown(format!("the payment method can't be read: {fault}")))?;
    let charge = Charge {
        key: Step::TakePayment.key(&purchase.id),
        tenant: purchase.order.tenant.clone(),
        credits: purchase.order.credits,
        amount: purchase.order.price_micro_usd,
        method,
    };
    billing.payments.charge(&charge).await.map_err(|error| match error {
        PaymentError::Declined(reason) => StepFailure::Refused(reason),
        PaymentError::NotReached(reason) => StepFailure::NotReached(reason),
        PaymentError::Unavailable(reason) => StepFailure::Unknown(reason),
    })
}

async fn refund(billing: &Billing, purchase: &Purchase) -> Result<(), PaymentError> {
    let refund = Refund {
        key: Step::TakePayment.undo_key(&purchase.id),
        charge: Step::TakePayment.key(&purchase.id),
        tenant: purchase.order.tenant.clone(),
        amount: purchase.order.price_micro_usd,
    };
    billing.payments.refund(&refund).await
}
