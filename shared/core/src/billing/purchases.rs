//! Stores purchases of credits: each change is an event, written together with the account's.

use crate::{
    billing::{
        account::AccountEvent,
        accounts::{self, AccountError, Origin},
        purchase::{Order, Purchase, PurchaseEvent},
    },
    event::{Actor, Aggregate, Event, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, EventId, PurchaseId, TenantId},
    keys::{index, record},
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, When, Written},
        vault::Vault,
    },
    records::{self, ListPage, Versioned, decode, encode},
    sagas::{
        self,
        progress::{SagaEvent, State},
    },
    secret::Secret,
    settings::Strategy,
};

pub async fn find(store: &Store, id: &PurchaseId) -> Result<Option<Versioned<Purchase>>, Fault> {
    store.records.get(&record::purchase(id)).await?.as_ref().map(decode).transpose()
}

fn draft(purchase: &Purchase) -> Result<Draft, Fault> {
    let listed = match purchase.progress.state {
        State::Running | State::Compensating => Some(index::DUE_PURCHASES),
        State::Manual => Some(index::MANUAL_PURCHASES),
        State::Completed | State::Compensated | State::Resolved => None,
    };
    let sort = |time| index::by_time(time, &purchase.id);
    Ok(Draft {
        tenant_index: Some(IndexEntry::new(
            index::purchases(&purchase.order.tenant),
            sort(purchase.progress.started_at),
        )),
        state_index: listed.map(|partition| IndexEntry::new(partition, sort(purchase.progress.due))),
        ..Draft::new(record::purchase(&purchase.id), encode(purchase)?)
    })
}

/// Stores a new purchase; `None` if the id is taken.
pub async fn create(
    store: &Store,
    vault: &dyn Vault,
    id: &PurchaseId,
    order: Order,
    strategy: Strategy,
    method: Option<&Secret>,
) -> Result<Option<Versioned<Purchase>>, Fault> {
    let mut more = Vec::new();
    if let Some(method) = method {
        let sealed = vault.seal(method).await?;
        let draft = Draft::new(record::payment_method(id), encode(&sealed)?);
        more.push(Change::Put { draft, when: When::Absent });
    }
    write(store, id, None, &[PurchaseEvent::Started { order, strategy }], more).await
}

/// Applies events to a purchase and to its account; `None` if another process changed the purchase. It
/// retries if only the account was changed, by another purchase or job of the tenant.
pub async fn advance(
    store: &Store,
    before: &Versioned<Purchase>,
    events: &[PurchaseEvent],
    account: &[AccountEvent],
) -> Result<Option<Versioned<Purchase>>, AccountError> {
    loop {
        let advanced = advance_once(store, before, events, account).await?;
        if advanced.is_some() || account.is_empty() {
            return Ok(advanced);
        }
        let current = find(store, &before.value.id).await?;
        if current.is_none_or(|current| current.version != before.version) {
            return Ok(None);
        }
    }
}

async fn advance_once(
    store: &Store,
    before: &Versioned<Purchase>,
    events: &[PurchaseEvent],
    account: &[AccountEvent],
) -> Result<Option<Versioned<Purchase>>, AccountError> {
    let (id, order) = (&before.value.id, &before.value.order);
    let mut more = Vec::new();
    if !account.is_empty() {
        let before = accounts::load(store, &order.tenant).await?;
        let origin =
            Origin { metadata: metadata(store, order), correlation: CorrelationId::new(id.as_str()) };
        more = accounts::transition(store, &origin, &before, account)?.1;
    }
    // Paid, or never to be paid: the payment method is not needed any more.
    let needs_no_method = events.iter().any(|event| {
        matches!(
            event,
            PurchaseEvent::PaymentCompleted { .. }
                | PurchaseEvent::Saga(SagaEvent::Compensating { .. } | SagaEvent::Resolved { .. })
        )
    });
    if needs_no_method && let Some(item) = store.records.get(&record::payment_method(id)).await? {
        more.push(Change::Delete { key: record::payment_method(id), version: item.version });
    }
    Ok(write(store, id, Some(before), events, more).await?)
}

async fn write(
    store: &Store,
    id: &PurchaseId,
    before: Option<&Versioned<Purchase>>,
    events: &[PurchaseEvent],
    mut changes: Vec<Change>,
) -> Result<Option<Versioned<Purchase>>, Fault> {
    let mut purchase = before.map(|before| before.value.clone());
    for event in events {
        let head = purchase.as_ref().map(|purchase| purchase.head.clone()).unwrap_or_default();
        let at = head.next_time(store.clock.now());
        let next = Purchase::apply(purchase.as_ref(), id, event, at);
        let mut next =
            next.ok_or_else(|| Fault::broken("purchase", "the trail must start with saga.started, once"))?;
        let (stored, head) = append(store, &next, &head, event, at);
        changes.push(trail::append(store, &stored)?);
        next.head = head;
        purchase = Some(next);
    }
    let purchase = purchase.ok_or_else(|| Fault::broken("purchase", "no events to write"))?;
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    changes.insert(0, Change::Put { draft: draft(&purchase)?, when });
    for event in events {
        if let PurchaseEvent::Saga(SagaEvent::Manual { reason }) = event {
            changes.push(notices::change(store, &notice(&purchase, reason))?);
        }
    }
    if store.write(changes).await? != Written::Applied {
        return Ok(None);
    }
    sagas::telemetry::changed(&purchase.progress, events.iter().filter_map(PurchaseEvent::saga));
    Ok(Some(Versioned { value: purchase, version: when.next_version() }))
}

fn notice(purchase: &Purchase, reason: &str) -> NewNotice {
    let (id, order) = (&purchase.id, &purchase.order);
    NewNotice {
        tenant: order.tenant.clone(),
        kind: NoticeKind::Purchase,
        topic: String::new(),
        about: None,
        subject: "A purchase of credits waits for an operator".to_owned(),
        body: format!(
            "Purchase {id} of {} credits for {:.2} USD stopped: {reason}.\n\
             See: everypage purchases show {id}. Then resume it, roll it back, or resolve it with a note.",
            order.credits,
            order.price_micro_usd.usd()
        ),
    }
}

fn append(
    store: &Store,
    purchase: &Purchase,
    head: &Head,
    event: &PurchaseEvent,
    at: jiff::Timestamp,
) -> (Event, Head) {
    let metadata = metadata(store, &purchase.order);
    let (id, aggregate) = (EventId::new(store.ids.fresh()), Aggregate::Purchase(purchase.id.clone()));
    head.append(aggregate, id, event, at, CorrelationId::new(purchase.id.as_str()), metadata)
}

/// A purchase belongs to no job, and so to no trace.
fn metadata(store: &Store, order: &Order) -> Metadata {
    Metadata::untraced(order.tenant.clone(), Some(order.by.clone()), Actor::Purchase, &store.environment)
}

/// Decrypts the payment method of a purchase; `None` if it has none, or was paid or undone.
pub async fn payment_method(
    store: &Store,
    vault: &dyn Vault,
    id: &PurchaseId,
) -> Result<Option<Secret>, Fault> {
    let Some(item) = store.records.get(&record::payment_method(id)).await? else { return Ok(None) };
    let sealed: String = decode(&item)?.value;
    Ok(Some(vault.open(&sealed).await?))
}

/// Lists purchases that continue by themselves, in the order in which they are due.
pub async fn list_active(store: &Store, limit: usize) -> Result<Vec<Versioned<Purchase>>, Fault> {
    list(store, index::DUE_PURCHASES, limit).await
}

/// Lists the purchases of all tenants that wait for an operator, oldest first.
pub async fn list_manual(store: &Store, limit: usize) -> Result<Vec<Versioned<Purchase>>, Fault> {
    list(store, index::MANUAL_PURCHASES, limit).await
}

async fn list(store: &Store, partition: &str, limit: usize) -> Result<Vec<Versioned<Purchase>>, Fault> {
    let listing = store.records.list_index(Index::State, partition, None, false, limit).await?;
    listing.items.iter().map(decode).collect()
}

/// Lists one page of a tenant's purchases, newest first.
pub async fn list_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<Purchase>, Fault> {
    records::list_page(
        store.records.as_ref(),
        Index::Tenant,
        &index::purchases(tenant),
        after,
        true,
        limit,
        |_| true,
    )
    .await
}
