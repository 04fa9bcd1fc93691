//! Long lists in pieces, for callers who come back with where they were.

use crate::{
    event::Event,
    events::Store,
    ids::{JobId, TenantId},
    keys::{index, record},
    ports::{Fault, records::Index},
    records::{ListPage, decode, list_page},
};

/// What happened to a tenant's things that `wanted` holds for, oldest first.
pub async fn tenant_events(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<ListPage<Event>, Fault> {
    list_page(store.records.as_ref(), Index::Tenant, &index::events(tenant), after, false, limit, wanted)
        .await
}

/// A job's trail and then those of its pages, page by page.
pub async fn job_events(
    store: &Store,
    job: &JobId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<Event>, Fault> {
    let partition = record::job_partition(job);
    let mut items = Vec::new();
    if after.as_deref().is_none_or(|after| after < record::PAGE_EVENTS) {
        let listing = store.records.list(&partition, record::EVENTS, after.as_deref(), limit).await?;
        for item in &listing.items {
            items.push(decode(item)?.value);
        }
        if let Some(next) = listing.next {
            return Ok(ListPage { items, next: Some(next) });
        }
    }
    let left = limit.saturating_sub(items.len());
    if left == 0 {
        // Whether a page has a trail is seen next time.
        return Ok(ListPage { items, next: Some(record::PAGE_EVENTS.to_owned()) });
    }
    let after = after.filter(|after| after.starts_with(record::PAGE_EVENTS) && after != record::PAGE_EVENTS);
    let listing = store.records.list(&partition, record::PAGE_EVENTS, after.as_deref(), left).await?;
    for item in &listing.items {
        items.push(decode(item)?.value);
    }
    Ok(ListPage { items, next: listing.next })
}
