//! Stores erasures: each change is an event, written together with what the step changes.

use super::erasure::{Erasure, ErasureEvent, Step};
use crate::{
    event::{Actor, Aggregate, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, ErasureId, EventId, TenantId},
    keys::{index, record},
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{Versioned, decode, encode},
    sagas::{
        self,
        progress::{SagaEvent, State},
    },
};

pub async fn find(store: &Store, id: &ErasureId) -> Result<Option<Versioned<Erasure>>, Fault> {
    store.records.get(&record::erasure(id)).await?.as_ref().map(decode).transpose()
}

fn draft(erasure: &Erasure) -> Result<Draft, Fault> {
    let progress = &erasure.progress;
    let partition = match progress.state {
        State::Running | State::Compensating => index::DUE_ERASURES,
        State::Manual => index::MANUAL_ERASURES,
        State::Completed | State::Compensated | State::Resolved => index::ENDED_ERASURES,
    };
    let listed = IndexEntry::new(partition, index::by_time(progress.due, &erasure.id));
    Ok(Draft { state_index: Some(listed), ..Draft::new(record::erasure(&erasure.id), encode(erasure)?) })
}

/// Stores a new erasure together with `close`, which closes a tenant with so many events in its trail; `None`
/// if that was refused.
pub async fn create(
    store: &Store,
    id: &ErasureId,
    tenant: &TenantId,
    by: &str,
    (close, acts_before): (Change, u64),
) -> Result<Option<Versioned<Erasure>>, Fault> {
    let started = ErasureEvent::Started { tenant: tenant.clone(), by: by.to_owned(), acts_before };
    write(store, id, None, &[started], vec![close]).await
}

/// Records events of an erasure together with `more`; `None` if another process changed the erasure, or
/// what `more` is about.
pub async fn advance(
    store: &Store,
    before: &Versioned<Erasure>,
    events: Vec<SagaEvent<Step>>,
    more: Vec<Change>,
) -> Result<Option<Versioned<Erasure>>, Fault> {
    let events: Vec<_> = events.into_iter().map(ErasureEvent::Saga).collect();
    write(store, &before.value.id, Some(before), &events, more).await
}

async fn write(
    store: &Store,
    id: &ErasureId,
    before: Option<&Versioned<Erasure>>,
    events: &[ErasureEvent],
    mut changes: Vec<Change>,
) -> Result<Option<Versioned<Erasure>>, Fault> {
    let mut erasure = before.map(|before| before.value.clone());
    for event in events {
        let head = erasure.as_ref().map(|erasure| erasure.head.clone()).unwrap_or_default();
        let at = head.next_time(store.clock.now());
        let next = Erasure::apply(erasure.as_ref(), id, event, at);
        let mut next =
            next.ok_or_else(|| Fault::broken("erasure", "the trail must start with saga.started, once"))?;
        let (tenant, by) = (next.tenant.clone(), Some(next.by.clone()));
        let metadata = Metadata::untraced(tenant, by, Actor::Erasure, &store.environment);
        let event_id = EventId::new(store.ids.fresh());
        let correlation = CorrelationId::new(id.as_str());
        let (stored, head) =
            head.append(Aggregate::Erasure(id.clone()), event_id, event, at, correlation, metadata);
        changes.push(trail::append(store, &stored)?);
        next.head = head;
        erasure = Some(next);
    }
    let erasure = erasure.ok_or_else(|| Fault::broken("erasure", "no events to write"))?;
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    changes.insert(0, Change::Put { draft: draft(&erasure)?, when });
    let of_saga = || {
        events.iter().filter_map(|event| match event {
            ErasureEvent::Saga(event) => Some(event),
            ErasureEvent::Started { .. } => None,
        })
    };
    for event in of_saga() {
        if let SagaEvent::Manual { reason } = event {
            changes.push(notices::change(store, &notice(&erasure, reason))?);
        }
    }
    if store.write(changes).await? != Written::Applied {
        return Ok(None);
    }
    sagas::telemetry::changed(&erasure.progress, of_saga());
    Ok(Some(Versioned { value: erasure, version: when.next_version() }))
}

fn notice(erasure: &Erasure, reason: &str) -> NewNotice {
    let tenant = &erasure.tenant;
    NewNotice {
        tenant: tenant.clone(),
        kind: NoticeKind::Erasure,
        topic: String::new(),
        about: None,
        subject: "The erasure of a tenant waits for an operator".to_owned(),
        body: format!(
            "The erasure of tenant {tenant} stopped: {reason}.\n\
             The tenant stays closed. Remove the cause, then continue: everypage tenants erase {tenant}"
        ),
    }
}

/// Erasures that continue by themselves, in the order in which they are due.
pub async fn list_active(store: &Store, limit: usize) -> Result<Vec<Versioned<Erasure>>, Fault> {
    list(store, index::DUE_ERASURES, false, limit).await
}

/// Erasures that wait for an operator, oldest first.
pub async fn list_manual(store: &Store, limit: usize) -> Result<Vec<Versioned<Erasure>>, Fault> {
    list(store, index::MANUAL_ERASURES, false, limit).await
}

/// Erasures that have ended, newest first.
pub async fn list_ended(store: &Store, limit: usize) -> Result<Vec<Versioned<Erasure>>, Fault> {
    list(store, index::ENDED_ERASURES, true, limit).await
}

async fn list(
    store: &Store,
    partition: &str,
    descending: bool,
    limit: usize,
) -> Result<Vec<Versioned<Erasure>>, Fault> {
    let listing = store.records.list_index(Index::State, partition, None, descending, limit).await?;
    listing.items.iter().map(decode).collect()
}
