//! Events as records: appended with the state they describe, read back in order.

use super::{encode, read_all, read_index};
use crate::{
    app::App,
    domain::{
        event::{Aggregate, Event},
        ids::TenantId,
    },
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When},
    },
};

const OUTBOX: &str = "outbox#";

/// Where an aggregate's events live: partition and sort prefix.
fn place(aggregate: &Aggregate) -> (String, String) {
    match aggregate {
        Aggregate::Job(job) => (format!("job#{job}"), "event#".into()),
        Aggregate::Page(job, page) => (format!("job#{job}"), format!("pagelog#{:010}#", page.get())),
        Aggregate::Breaker(target) => (format!("breaker#{target}"), "event#".into()),
        Aggregate::DeadLetter(id) => (format!("dead#{id}"), "event#".into()),
        Aggregate::Account(tenant) => (format!("account#{tenant}"), "event#".into()),
        Aggregate::Purchase(id) => (format!("purchase#{id}"), "event#".into()),
    }
}

pub fn key(aggregate: &Aggregate, sequence: u64) -> Key {
    let (partition, prefix) = place(aggregate);
    Key::new(partition, format!("{prefix}{sequence:010}"))
}

/// The write that stores an event. It is marked as unpublished by being listed in the outbox of
/// the process that wrote it; the mark is part of the same record, so neither is without the other.
pub fn append(app: &App, event: &Event) -> Result<Change, Fault> {
    let key = key(&event.aggregate, event.sequence);
    let time = format!("{:.3}#{}#{:010}", event.timestamp, event.aggregate, event.sequence);
    let draft = Draft {
        tenant_index: Some(IndexEntry::new(format!("events#{}", event.metadata.tenant), time.clone())),
        state_index: Some(IndexEntry::new(outbox(&app.node), time)),
        ..Draft::new(key, encode(event)?)
    };
    Ok(Change::Put { draft, when: When::Absent })
}

/// Where the events are listed that a process has stored and not published.
pub fn outbox(node: &str) -> String {
    format!("{OUTBOX}{node}")
}

pub fn is_unpublished(draft: &Draft) -> bool {
    draft.state_index.as_ref().is_some_and(|entry| entry.partition.starts_with(OUTBOX))
}

/// The whole trail of one aggregate, in order.
pub async fn read(app: &App, aggregate: &Aggregate) -> Result<Vec<Event>, Fault> {
    let (partition, prefix) = place(aggregate);
    read_prefix(app, &partition, &prefix).await
}

/// The trails of all pages of a job, page by page.
pub async fn read_pages(app: &App, job: &crate::domain::ids::JobId) -> Result<Vec<Event>, Fault> {
    read_prefix(app, &format!("job#{job}"), "pagelog#").await
}

async fn read_prefix(app: &App, partition: &str, prefix: &str) -> Result<Vec<Event>, Fault> {
    let all = read_all(app, partition, prefix).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// What happened to a tenant's things since a time, of one type or of all.
pub async fn since(
    app: &App,
    tenant: &TenantId,
    since: Option<jiff::Timestamp>,
    kind: Option<&str>,
    limit: usize,
) -> Result<Vec<Event>, Fault> {
    let (partition, after) = (format!("events#{tenant}"), since.map(|time| format!("{time:.3}")));
    let wanted = |event: &Event| kind.is_none_or(|kind| kind == event.kind);
    let all = read_index(app, Index::Tenant, &partition, after, limit, wanted).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}
