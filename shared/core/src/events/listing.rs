//! Long lists in pieces, for callers who come back with where they were.

use serde::de::DeserializeOwned;

use crate::keys::{index, record};
use crate::records::{ListPage, list_page};
use crate::{
    app::App,
    billing::{account::LedgerEntry, purchase::Purchase},
    events::event::Event,
    ids::{JobId, TenantId},
    job::Job,
    ports::{
        Fault,
        records::{Index, Item},
    },
};
use crate::{
    billing::{accounts, purchases},
    dead_letters::{self, DeadLetter},
    intake::uploads::Upload,
    job::jobs,
    records::decode,
};

/// What happened to a tenant's things that `wanted` holds for, oldest first.
pub async fn tenant_events(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<ListPage<Event>, Fault> {
    list_page(app, Index::Tenant, &index::events(tenant), after, false, limit, wanted).await
}

/// A job's trail and then those of its pages, page by page.
pub async fn job_events(
    app: &App,
    job: &JobId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<Event>, Fault> {
    let partition = record::job_partition(job);
    let mut items = Vec::new();
    if after.as_deref().is_none_or(|after| after < record::PAGE_EVENTS) {
        let listing = app.records.list(&partition, record::EVENTS, after.as_deref(), limit).await?;
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
    let listing = app.records.list(&partition, record::PAGE_EVENTS, after.as_deref(), left).await?;
    for item in &listing.items {
        items.push(decode(item)?.value);
    }
    Ok(ListPage { items, next: listing.next })
}
