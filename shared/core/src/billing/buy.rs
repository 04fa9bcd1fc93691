//! Buying credits, step by step: see `domain::purchase` for the steps and their ways back.
//!
//! Steps in our own books are written together with the word that they are done, so that they happen
//! once. Money is taken and given back under a key, so that asking again is harmless. Whoever finds a
//! purchase whose time has come goes on with it: the request that made it, `serve`, or the sweep.

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
        account::{AccountEvent, Cause, MOST_CREDITS},
        accounts::AccountError,
        purchase::{Decision, NotAllowed, NotTaken, Order, Purchase, PurchaseEvent, State, Step, Task},
        purchases,
    },
    digest::sha256_hex,
    events::Store,
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    ports::{
        Fault,
        notifier::Notice,
        payments::{Charge, PaymentError, Refund},
    },
    records::Versioned,
    secret::Secret,
    settings::{Purchasing, Settings},
    tenants,
    time::{after, until},
};

/// Purchases gone on with at once.
const BATCH_SIZE: usize = 16;
/// As many are looked at together.
const LOOKED_AT: usize = 100;
/// What other processes began is looked for so often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// What somebody wants to buy.
pub struct Wish {
    pub tenant: TenantId,
    pub by: String,
    pub credits: u64,
    /// What the payment service knows the payer's card or account by.
    pub method: Option<Secret>,
    /// The caller's own name for the request.
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurchaseError {
    #[error("credits can't be bought here: PAYMENT_URL and CREDIT_PRICE_USD are not set")]
    NotSetUp,
    #[error(
        "{credits} credits can't be bought at once: at least 1, at most {MOST_CREDITS}, and no price that can't be counted"
    )]
    BadAmount { credits: u64 },
    #[error("the idempotency key {key:?} was used before for another purchase")]
    KeyReused { key: String },
    #[error("there is no purchase {0}")]
    Unknown(PurchaseId),
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Writes the purchase down and answers with it, and whether it was there before. From then on it comes
/// to its end, whoever takes the steps.
pub async fn begin(billing: &Billing, wish: Wish) -> Result<(Purchase, bool), PurchaseError> {
    let settings = tenants::settings(&billing.tenants, &wish.tenant).await?;
    let Some(Purchasing { price_usd, strategy, .. }) = &settings.purchasing else {
        return Err(PurchaseError::NotSetUp);
    };
    let credits = wish.credits;
    if !(1..=MOST_CREDITS).contains(&credits) {
        return Err(PurchaseError::BadAmount { credits });
    }
    let id = match &wish.idempotency_key {
        Some(key) => PurchaseId::new(&sha256_hex(format!("{}/{key}", wish.tenant).as_bytes())[..32]),
        None => PurchaseId::new(billing.store.ids.fresh()),
    };
    let order = Order {
        tenant: wish.tenant,
        by: wish.by,
        credits,
        price_micro_usd: price_of(credits, *price_usd).ok_or(PurchaseError::BadAmount { credits })?,
        strategy: *strategy,
    };
    if let Some(begun) =
        purchases::begin(&billing.store, billing.vault.as_ref(), &id, order, wish.method.as_ref()).await?
    {
        return Ok((begun.value, false));
    }
    let known = load(&billing.store, &id).await?.value;
    if known.order.credits != credits {
        return Err(PurchaseError::KeyReused { key: wish.idempotency_key.unwrap_or_default() });
    }
    Ok((known, true))
}

/// In whole cents, as payment services count, and never less than the credits are worth.
fn price_of(credits: u64, price_usd: f64) -> Option<MicroUsd> {
    let cents = (credits as f64 * price_usd * 100.0 - 1e-6).ceil().max(0.0) as u64;
    cents.checked_mul(10_000).map(MicroUsd)
}

async fn load(store: &Store, id: &PurchaseId) -> Result<Versioned<Purchase>, PurchaseError> {
    purchases::find(store, id).await?.ok_or_else(|| PurchaseError::Unknown(id.clone()))
}

/// Takes a purchase as far as it comes within `patience`; the rest is done by whoever finds it due.
pub async fn drive(
    billing: &Billing,
    id: &PurchaseId,
    patience: Duration,
) -> Result<Purchase, PurchaseError> {
    let end = after(billing.store.clock.now(), patience);
    loop {
        let kept = load(&billing.store, id).await?;
        let (now, due) = (billing.store.clock.now(), kept.value.due);
        if kept.value.state.is_at_rest() || due > end || now > end || !can_pay(&billing.settings) {
            return Ok(kept.value);
        }
        match until(now, due) {
            Duration::ZERO => go_on(billing, &kept).await?,
            pause => billing.store.clock.sleep(pause).await,
        }
    }
}

/// A person's word on a purchase.
pub async fn decide(
    store: &Store,
    id: &PurchaseId,
    by: &str,
    decision: Decision,
) -> Result<Purchase, PurchaseError> {
    loop {
        let kept = load(store, id).await?;
        let purchase = &kept.value;
        let event = purchase.decided(by, decision.clone())?;
        let given_back = match event {
            PurchaseEvent::Resolved { .. } => purchase.given_back(),
            _ => &[],
        };
        let account: Vec<_> = given_back.iter().filter_map(|step| entry_undone(purchase, *step)).collect();
        if let Some(decided) = advance(store, &kept, &[event], &account).await? {
            return Ok(decided.value);
        }
    }
}

/// Only a process that knows the payment service takes steps: to one without it every purchase would
/// look as if it could not be paid.
fn can_pay(settings: &Settings) -> bool {
    settings.purchasing.is_some()
}

/// One step, or the next step of the way back.
async fn go_on(billing: &Billing, kept: &Versioned<Purchase>) -> Result<(), Fault> {
    let task = kept.value.task();
    let Some(starting) = kept.value.starting(task, billing.store.clock.now()) else {
        if let Some(end) = kept.value.compensated() {
            tell_person(billing, &kept.value, std::slice::from_ref(&end)).await;
            advance(&billing.store, kept, &[end], &[]).await?;
        }
        return Ok(());
    };
    let Some(kept) = advance(&billing.store, kept, &[starting], &[]).await? else { return Ok(()) };
    match task {
        Task::Take(step) => take(billing, &kept, step).await,
        Task::Undo(step) => undo(billing, &kept, step).await,
        Task::Rest => Ok(()),
    }
}

async fn take(billing: &Billing, kept: &Versioned<Purchase>, step: Step) -> Result<(), Fault> {
    let purchase = &kept.value;
    let taken = match step {
        Step::TakePayment => match charge(billing, purchase).await {
            Ok(payment) => {
                purchases::advance(&billing.store, kept, &purchase.taken(step, Some(payment)), &[]).await
            }
            Err(why) => return not_taken(billing, kept, step, why).await,
        },
        _ => {
            let account: Vec<_> = entry(purchase, step).into_iter().collect();
            purchases::advance(&billing.store, kept, &purchase.taken(step, None), &account).await
        }
    };
    match taken {
        Ok(Some(taken)) if taken.value.state == State::Completed => {
            let Order { tenant, credits, .. } = &taken.value.order;
            info!(purchase = %taken.value.id, %tenant, credits, "credits bought");
            Ok(())
        }
        // Nothing, or somebody else was faster: the next look finds what is to be done.
        Ok(_) => Ok(()),
        Err(AccountError::Refused(refused)) => {
            not_taken(billing, kept, step, NotTaken::Refused(refused.to_string())).await
        }
        Err(AccountError::Fault(fault)) => Err(fault),
    }
}

async fn not_taken(
    billing: &Billing,
    kept: &Versioned<Purchase>,
    step: Step,
    why: NotTaken,
) -> Result<(), Fault> {
    let purchase = &kept.value;
    warn!(purchase = %purchase.id, tenant = %purchase.order.tenant, step = step.name(), ?why, "step not taken");
    let events = purchase.not_taken(step, why, billing.store.clock.now(), &billing.settings.retry_intervals);
    tell_person(billing, purchase, &events).await;
    advance(&billing.store, kept, &events, &[]).await?;
    Ok(())
}

async fn undo(billing: &Billing, kept: &Versioned<Purchase>, step: Step) -> Result<(), Fault> {
    let purchase = &kept.value;
    let account: Vec<_> = entry_undone(purchase, step).into_iter().collect();
    let undone = match step {
        Step::TakePayment => refund(billing, purchase).await,
        _ => Ok(()),
    };
    let why = match undone {
        Ok(()) => match purchases::advance(&billing.store, kept, &purchase.undone(step), &account).await {
            Ok(_) => return Ok(()),
            Err(AccountError::Refused(refused)) => refused.to_string(),
            Err(AccountError::Fault(fault)) => return Err(fault),
        },
        Err(error) => error.to_string(),
    };
    warn!(purchase = %purchase.id, tenant = %purchase.order.tenant, step = step.name(), why, "step not undone");
    let failed = purchase.not_undone(step, why, billing.store.clock.now(), &billing.settings.retry_intervals);
    advance(&billing.store, kept, &[failed], &[]).await?;
    Ok(())
}

/// What a step in our own books means for the account.
fn entry(purchase: &Purchase, step: Step) -> Option<AccountEvent> {
    let (credits, id) = (purchase.order.credits, purchase.id.clone());
    match step {
        Step::Reserve => Some(AccountEvent::Reserved { credits, cause: Cause::Purchase { purchase: id } }),
        Step::TakePayment => None,
        Step::Allocate => Some(AccountEvent::Allocated { credits, purchase: id }),
        Step::Enter => Some(AccountEvent::Added { credits, cause: Cause::Purchase { purchase: id } }),
    }
}

fn entry_undone(purchase: &Purchase, step: Step) -> Option<AccountEvent> {
    let (credits, id) = (purchase.order.credits, purchase.id.clone());
    match step {
        Step::Reserve => Some(AccountEvent::Released { credits, cause: Cause::Purchase { purchase: id } }),
        Step::TakePayment => None,
        Step::Allocate => Some(AccountEvent::TakenBack { credits, purchase: id }),
        Step::Enter => Some(AccountEvent::Deducted { credits, cause: Cause::Purchase { purchase: id } }),
    }
}

async fn charge(billing: &Billing, purchase: &Purchase) -> Result<String, NotTaken> {
    // A method that can't be opened is tried as often as a service that can't be reached, and no more.
    let method = purchases::method(&billing.store, billing.vault.as_ref(), &purchase.id).await;
    let method =
        method.map_err(|fault| NotTaken::Unknown(format!("how it is paid can't be read: {fault}")))?;
    let charge = Charge {
        key: Step::TakePayment.key(&purchase.id),
        tenant: purchase.order.tenant.clone(),
        credits: purchase.order.credits,
        amount: purchase.order.price_micro_usd,
        method,
    };
    billing.payments.charge(&charge).await.map_err(|error| match error {
        PaymentError::Declined(reason) => NotTaken::Refused(reason),
        PaymentError::Unavailable(reason) => NotTaken::Unknown(reason),
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

/// A move that no account can refuse.
async fn advance(
    store: &Store,
    kept: &Versioned<Purchase>,
    events: &[PurchaseEvent],
    account: &[AccountEvent],
) -> Result<Option<Versioned<Purchase>>, Fault> {
    purchases::advance(store, kept, events, account).await.map_err(|error| match error {
        AccountError::Fault(fault) => fault,
        AccountError::Refused(refused) => Fault::broken("account", refused),
    })
}

/// Before it is written down: a crash in between tells twice, and never not at all.
async fn tell_person(billing: &Billing, purchase: &Purchase, events: &[PurchaseEvent]) {
    let Some(reason) = events.iter().find_map(|event| match event {
        PurchaseEvent::Manual { reason } => Some(reason),
        _ => None,
    }) else {
        return;
    };
    let (id, order) = (&purchase.id, &purchase.order);
    let responsible = tenants::settings(&billing.tenants, &order.tenant)
        .await
        .ok()
        .and_then(|settings| settings.responsible.clone());
    let notice = Notice {
        tenant: order.tenant.clone(),
        responsible,
        subject: "A purchase of credits waits for a person".to_owned(),
        body: format!(
            "Purchase {id} of {} credits for {:.2} USD stopped: {reason}.\n\
             Look: everypage purchases show {id}. Then resume it, roll it back, or resolve it with a note.",
            order.credits,
            order.price_micro_usd.usd()
        ),
    };
    if let Err(fault) = billing.notifier.notify(&notice).await {
        // It is listed, and counted, until somebody has decided.
        warn!(purchase = %id, %fault, "the responsible person was not told");
    }
}

/// Goes on with every purchase that is due, and begins no step after `end`; answers how many steps that
/// were, and when the next purchase is due.
async fn go_on_with_due(billing: &Billing, end: Timestamp) -> Result<(usize, Option<Timestamp>), Fault> {
    let now = billing.store.clock.now();
    let under_way = purchases::under_way(&billing.store, LOOKED_AT).await?;
    let (due, later): (Vec<_>, Vec<_>) = under_way.into_iter().partition(|kept| kept.value.due <= now);
    let gone_on = stream::iter(due).map(|kept| async move {
        let id = kept.value.id;
        match go_on_while_due(billing, &id, end).await {
            Ok(steps) => steps,
            Err(fault) => {
                warn!(purchase = %id, %fault, "purchase not gone on with yet");
                billing.store.clock.sleep(POLL_INTERVAL).await;
                0
            }
        }
    });
    let steps = gone_on.buffer_unordered(BATCH_SIZE).fold(0, |sum, steps| ready(sum + steps)).await;
    Ok((steps, later.first().map(|kept| kept.value.due)))
}

/// An index lags behind: what it lists may be on its way, or over, by now, and what was just done is not
/// in it yet.
async fn go_on_while_due(billing: &Billing, id: &PurchaseId, end: Timestamp) -> Result<usize, Fault> {
    let mut steps = 0;
    loop {
        let now = billing.store.clock.now();
        let kept = purchases::find(&billing.store, id).await?;
        let due = kept.filter(|kept| !kept.value.state.is_at_rest() && kept.value.due <= now);
        let Some(kept) = due.filter(|_| now < end) else { return Ok(steps) };
        go_on(billing, &kept).await?;
        steps += 1;
    }
}

/// Goes on with purchases as they become due, for ever.
pub async fn run(billing: &Billing) {
    if !can_pay(&billing.settings) {
        return pending().await;
    }
    loop {
        let pause = match go_on_with_due(billing, Timestamp::MAX).await {
            Ok((0, next)) => {
                next.map_or(POLL_INTERVAL, |next| until(billing.store.clock.now(), next).min(POLL_INTERVAL))
            }
            Ok(_) => continue,
            Err(fault) => {
                warn!(%fault, "purchases not looked for yet");
                POLL_INTERVAL
            }
        };
        billing.store.clock.sleep(pause.max(Duration::from_millis(1))).await;
    }
}

/// The same for a process that does not live on: until nothing is due within `time`.
pub async fn run_for(billing: &Billing, time: Duration) -> Result<usize, Fault> {
    let end = after(billing.store.clock.now(), time);
    let mut steps = 0;
    while can_pay(&billing.settings) {
        let (count, next) = go_on_with_due(billing, end).await?;
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
