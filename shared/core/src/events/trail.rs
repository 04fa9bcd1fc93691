//! Events as records: appended with the state they describe, read back in order.

use crate::{
    event::{Aggregate, Event, matches_kind},
    events::Store,
    ids::TenantId,
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When},
    },
    records::{encode, read_all, read_index},
};

/// Returns the write that stores an event. The event's own record lists it in the outbox of this
/// process, which marks it as unpublished: an event is never stored without that mark.
pub fn append(store: &Store, event: &Event) -> Result<Change, Fault> {
    let key = record::event(&event.aggregate, event.sequence);
    let place = place(event);
    let draft = Draft {
        tenant_index: Some(IndexEntry::new(index::events(&event.metadata.tenant), place.clone())),
        state_index: Some(IndexEntry::new(index::outbox(&store.node), place)),
        ..Draft::new(key, encode(event)?)
    };
    Ok(Change::Put { draft, when: When::Absent })
}

/// The place of an event among those of its tenant, by time.
pub fn place(event: &Event) -> String {
    index::by_time(event.timestamp, format_args!("{}#{:010}", event.aggregate, event.sequence))
}

pub fn is_unpublished(draft: &Draft) -> bool {
    draft.state_index.as_ref().is_some_and(|entry| entry.partition.starts_with(index::OUTBOX))
}

/// Reads the whole trail of an aggregate, in order.
pub async fn read(store: &Store, aggregate: &Aggregate) -> Result<Vec<Event>, Fault> {
    let (partition, prefix) = record::trail(aggregate);
    read_prefix(store, &partition, &prefix).await
}

/// Reads the trails of all pages of a job, in page order.
pub async fn read_pages(store: &Store, job: &crate::ids::JobId) -> Result<Vec<Event>, Fault> {
    read_prefix(store, &record::job_partition(job), record::PAGE_EVENTS).await
}

async fn read_prefix(store: &Store, partition: &str, prefix: &str) -> Result<Vec<Event>, Fault> {
    let all = read_all(store.records.as_ref(), partition, prefix).await?;
    Ok(all.into_iter().map(|event| event.value).collect())
}

/// Reads up to `limit` events of a tenant since a time, of one type or of all.
pub async fn since(
    store: &Store,
    tenant: &TenantId,
    since: Option<jiff::Timestamp>,
    kind: Option<&str>,
    limit: usize,
) -> Result<Vec<Event>, Fault> {
    let (partition, after) = (index::events(tenant), since.map(|time| format!("{time:.3}")));
    let wanted = |event: &Event| kind.is_none_or(|kinds| matches_kind(kinds, &event.kind));
    let all = read_index(store.records.as_ref(), Index::Tenant, &partition, after, limit, wanted).await?;
    Ok(all.into_iter().map(|event| event.value).collect())
}
