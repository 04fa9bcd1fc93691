//! Buying credits: starts purchases and runs their steps. The decisions are in [`super::saga`].
//!
//! A step in the account is written in one batch with the event that it is done, so that it takes effect
//! once. Payments are charged and refunded under an idempotency key, so that a repeated call is harmless.
//! Any process that finds a due purchase continues it: the one that handled the request, `serve`, or the
//! sweep.

use std::time::Duration;

use futures::{
    StreamExt,
    future::{pending, ready},
    stream,
};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::{
    billing::{
        Billing,
        account::{AccountEvent, Cause, MAX_CREDITS},
        accounts::AccountError,
        purchase::{Order, Purchase, PurchaseEvent, State, Step},
        purchases,
        saga::{Decision, NotAllowed, StepFailure, Task},
    },
    digest::sha256_hex,
    events::Store,
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    ports::{
        Fault,
        payments::{Charge, PaymentError, Refund},
    },
    records::Versioned,
    secret::Secret,
    settings::{Purchasing, Settings},
    tenants,
    time::{after, until},
};

/// Purchases that are continued concurrently.
const MAX_CONCURRENT: usize = 16;
/// Active purchases that are listed in one request.
const BATCH_SIZE: usize = 100;
/// How often purchases that other processes started are looked up.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

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
    let id = match &request.idempotency_key {
        Some(key) => PurchaseId::new(&sha256_hex(format!("{}/{key}", request.tenant).as_bytes())[..32]),
        None => PurchaseId::new(billing.store.ids.fresh()),
    };
    let order = Order {
        tenant: request.tenant,
        by: request.by,
        credits,
        price_micro_usd: price_of(credits, *price_usd).ok_or(PurchaseError::BadAmount { credits })?,
        strategy: *strategy,
    };
    let method = request.method.as_ref();
    if let Some(created) =
        purchases::create(&billing.store, billing.vault.as_ref(), &id, order, method).await?
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
    let end = after(billing.store.clock.now(), patience);
    loop {
        let purchase = load(&billing.store, id).await?;
        let (now, due) = (billing.store.clock.now(), purchase.value.due);
        if !purchase.value.state.is_active() || due > end || now > end || !can_pay(&billing.settings) {
            return Ok(purchase.value);
        }
        match until(now, due) {
            Duration::ZERO => run_next_task(billing, &purchase).await?,
            pause => billing.store.clock.sleep(pause).await,
        }
    }
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
        let event = purchase.decide(by, decision.clone())?;
        let released = match event {
            PurchaseEvent::Resolved { .. } => purchase.steps_to_release(),
            _ => &[],
        };
        let account: Vec<_> = released.iter().filter_map(|step| undo_event(purchase, *step)).collect();
        if let Some(decided) = advance(store, &before, &[event], &account).await? {
            return Ok(decided.value);
        }
    }
}

/// Only a process with a payment service runs steps: in one without, every payment would fail.
fn can_pay(settings: &Settings) -> bool {
    settings.purchasing.is_some()
}

/// Runs or undoes one step, or ends a compensation.
async fn run_next_task(billing: &Billing, purchase: &Versioned<Purchase>) -> Result<(), Fault> {
    let Some(task) = purchase.value.next_task() else {
        if let Some(end) = purchase.value.end_compensation() {
            advance(&billing.store, purchase, &[end], &[]).await?;
        }
        return Ok(());
    };
    let start = purchase.value.start(task, billing.store.clock.now());
    let Some(purchase) = advance(&billing.store, purchase, &[start], &[]).await? else { return Ok(()) };
    match task {
        Task::Run(step) => run_step(billing, &purchase, step).await,
        Task::Undo(step) => undo_step(billing, &purchase, step).await,
    }
}

async fn run_step(billing: &Billing, before: &Versioned<Purchase>, step: Step) -> Result<(), Fault> {
    let purchase = &before.value;
    let (payment, account) = match step {
        Step::TakePayment => match charge(billing, purchase).await {
            Ok(payment) => (Some(payment), vec![]),
            Err(failure) => return record_failure(billing, before, step, failure).await,
        },
        _ => (None, account_event(purchase, step).into_iter().collect()),
    };
    let events = purchase.step_done(step, payment);
    match purchases::advance(&billing.store, before, &events, &account).await {
        Ok(Some(done)) if done.value.state == State::Completed => {
            let Order { tenant, credits, .. } = &done.value.order;
            info!(purchase = %done.value.id, %tenant, credits, "credits bought");
            Ok(())
        }
        // Not completed yet, or another process was faster: the next pass finds what is due.
        Ok(_) => Ok(()),
        Err(AccountError::Refused(refused)) => {
            record_failure(billing, before, step, StepFailure::Refused(refused.to_string())).await
        }
        Err(AccountError::Fault(fault)) => Err(fault),
    }
}

async fn record_failure(
    billing: &Billing,
    before: &Versioned<Purchase>,
    step: Step,
    failure: StepFailure,
) -> Result<(), Fault> {
    let purchase = &before.value;
    warn!(purchase = %purchase.id, tenant = %purchase.order.tenant, step = step.name(), ?failure, "purchase step failed");
    let now = billing.store.clock.now();
    let events = purchase.step_failed(step, failure, now, &billing.settings.retry_intervals);
    advance(&billing.store, before, &events, &[]).await?;
    Ok(())
}

async fn undo_step(billing: &Billing, before: &Versioned<Purchase>, step: Step) -> Result<(), Fault> {
    let purchase = &before.value;
    let account: Vec<_> = undo_event(purchase, step).into_iter().collect();
    let undone = match step {
        Step::TakePayment => refund(billing, purchase).await,
        _ => Ok(()),
    };
    let reason = match undone {
        Ok(()) => {
            match purchases::advance(&billing.store, before, &purchase.undo_done(step), &account).await {
                Ok(_) => return Ok(()),
                Err(AccountError::Refused(refused)) => refused.to_string(),
                Err(AccountError::Fault(fault)) => return Err(fault),
            }
        }
        Err(error) => error.to_string(),
    };
    warn!(purchase = %purchase.id, tenant = %purchase.order.tenant, step = step.name(), reason, "purchase step not undone");
    let now = billing.store.clock.now();
    let failed = purchase.undo_failed(step, reason, now, &billing.settings.retry_intervals);
    advance(&billing.store, before, &[failed], &[]).await?;
    Ok(())
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

/// Records events that the account can't refuse.
async fn advance(
    store: &Store,
    before: &Versioned<Purchase>,
    events: &[PurchaseEvent],
    account: &[AccountEvent],
) -> Result<Option<Versioned<Purchase>>, Fault> {
    purchases::advance(store, before, events, account).await.map_err(|error| match error {
        AccountError::Fault(fault) => fault,
        AccountError::Refused(refused) => Fault::broken("account", refused),
    })
}

/// Continues every due purchase, and starts no step after `end`; returns the number of steps, and when
/// the next purchase is due.
async fn run_due(billing: &Billing, end: Timestamp) -> Result<(usize, Option<Timestamp>), Fault> {
    let now = billing.store.clock.now();
    let active = purchases::list_active(&billing.store, BATCH_SIZE).await?;
    let (due, later): (Vec<_>, Vec<_>) = active.into_iter().partition(|purchase| purchase.value.due <= now);
    let runs = stream::iter(due).map(|purchase| async move {
        let id = purchase.value.id;
        match run_while_due(billing, &id, end).await {
            Ok(steps) => steps,
            Err(fault) => {
                warn!(purchase = %id, %fault, "purchase can't be continued; retrying");
                billing.store.clock.sleep(POLL_INTERVAL).await;
                0
            }
        }
    });
    let steps = runs.buffer_unordered(MAX_CONCURRENT).fold(0, |sum, steps| ready(sum + steps)).await;
    Ok((steps, later.first().map(|purchase| purchase.value.due)))
}

/// Runs tasks of a purchase while they are due; returns how many. It reads the purchase before each one,
/// because the index that listed it lags behind.
async fn run_while_due(billing: &Billing, id: &PurchaseId, end: Timestamp) -> Result<usize, Fault> {
    let mut steps = 0;
    loop {
        let now = billing.store.clock.now();
        let found = purchases::find(&billing.store, id).await?;
        let due = found.filter(|found| found.value.state.is_active() && found.value.due <= now);
        let Some(purchase) = due.filter(|_| now < end) else { return Ok(steps) };
        run_next_task(billing, &purchase).await?;
        steps += 1;
    }
}

/// Continues purchases as they become due; never returns.
pub async fn run(billing: &Billing) {
    if !can_pay(&billing.settings) {
        return pending().await;
    }
    loop {
        let pause = match run_due(billing, Timestamp::MAX).await {
            Ok((0, next)) => {
                next.map_or(POLL_INTERVAL, |next| until(billing.store.clock.now(), next).min(POLL_INTERVAL))
            }
            Ok(_) => continue,
            Err(fault) => {
                warn!(%fault, "due purchases can't be listed; retrying");
                POLL_INTERVAL
            }
        };
        billing.store.clock.sleep(pause.max(Duration::from_millis(1))).await;
    }
}

/// Continues due purchases until none is due within `time`, for a process that ends; returns the number
/// of steps.
pub async fn run_for(billing: &Billing, time: Duration) -> Result<usize, Fault> {
    let end = after(billing.store.clock.now(), time);
    let mut steps = 0;
    while can_pay(&billing.settings) {
        let (count, next) = run_due(billing, end).await?;
        steps += count;
        let now = billing.store.clock.now();
        match next {
            _ if now >= end => break,
            _ if count > 0 => {}
            Some(next) if next < end => billing.store.clock.sleep(until(now, next)).await,
            _ => break,
        }
    }
    Ok(steps)
}
