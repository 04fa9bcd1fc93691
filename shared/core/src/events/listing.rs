//! Lists events page by page.

use crate::{
    event::{Aggregate, Event},
    events::Store,
    ids::{JobId, TenantId},
    keys::{index, record},
    ports::{Fault, records::Index},
    records::{ListPage, decode, list_page},
};

/// Lists the events of a tenant for which `wanted` returns true, oldest first.
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

/// Lists the trail of an aggregate, as far as it belongs to `tenant`.
pub async fn aggregate_events(
    store: &Store,
    tenant: &TenantId,
    aggregate: &Aggregate,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<ListPage<Event>, Fault> {
    let (partition, prefix) = record::trail(aggregate);
    let listing = store.records.list(&partition, &prefix, after.as_deref(), limit).await?;
    let mut items = Vec::new();
    for item in &listing.items {
        let event: Event = decode(item)?.value;
        if event.metadata.tenant == *tenant && wanted(&event) {
            items.push(event);
        }
    }
    Ok(ListPage { items, next: listing.next })
}

/// Lists the trail of a job, then the trails of its pages in page order.
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
    let remaining = limit.saturating_sub(items.len());
    if remaining == 0 {
        // The next request finds out whether pages have events.
        return Ok(ListPage { items, next: Some(record::PAGE_EVENTS.to_owned()) });
    }
    let after = after.filter(|after| after.starts_with(record::PAGE_EVENTS) && after != record::PAGE_EVENTS);
    let listing = store.records.list(&partition, record::PAGE_EVENTS, after.as_deref(), remaining).await?;
    for item in &listing.items {
        items.push(decode(item)?.value);
    }
    Ok(ListPage { items, next: listing.next })
}
