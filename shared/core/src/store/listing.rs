//! Long lists in pieces, for callers who come back with where they were.

use serde::de::DeserializeOwned;

use super::{accounts, dead, dead::DeadLetter, decode, jobs, purchases, uploads::Upload};
use crate::{
    app::App,
    domain::{
        account::LedgerEntry,
        event::Event,
        ids::{JobId, TenantId},
        job::Job,
        purchase::Purchase,
    },
    ports::{
        Fault,
        records::{Index, Item},
    },
};

/// Items looked at for one piece, however few of them are wanted: a rare thing is found over
/// several pieces, not by one long wait.
const MOST_LOOKED_AT: usize = 1000;

/// Items read at once where the first of them were not enough.
const AT_ONCE: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T> {
    pub items: Vec<T>,
    /// Where the next piece begins; `None` at the end.
    pub next: Option<String>,
}

/// A tenant's jobs that `wanted` holds for, newest first.
pub async fn jobs(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Job) -> bool,
) -> Result<Piece<Job>, Fault> {
    of_index(app, Index::Tenant, &format!("jobs#{tenant}"), after, true, limit, wanted).await
}

/// A tenant's uploads whose document has not come, newest first.
pub async fn uploads(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Upload) -> bool,
) -> Result<Piece<Upload>, Fault> {
    of_index(app, Index::Tenant, &format!("uploads#{tenant}"), after, true, limit, wanted).await
}

/// The lines of a tenant's ledger, newest first.
pub async fn ledger(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<Piece<LedgerEntry>, Fault> {
    of_index(app, Index::Tenant, &accounts::ledger_of(tenant), after, true, limit, |_| true).await
}

/// A tenant's purchases of credits, newest first.
pub async fn purchases(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<Piece<Purchase>, Fault> {
    of_index(app, Index::Tenant, &purchases::of_tenant(tenant), after, true, limit, |_| true).await
}

/// The dead letters that wait for somebody of this tenant, oldest first.
pub async fn dead_letters(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<Piece<DeadLetter>, Fault> {
    of_index(app, Index::Tenant, &dead::of_tenant(tenant), after, false, limit, |_| true).await
}

/// What happened to a tenant's things that `wanted` holds for, oldest first.
pub async fn tenant_events(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Piece<Event>, Fault> {
    of_index(app, Index::Tenant, &format!("events#{tenant}"), after, false, limit, wanted).await
}

/// A job's trail and then those of its pages, page by page.
pub async fn events(
    app: &App,
    job: &JobId,
    after: Option<String>,
    limit: usize,
) -> Result<Piece<Event>, Fault> {
    const OF_JOB: &str = "event#";
    const OF_PAGES: &str = "pagelog#";
    let partition = jobs::key(job).partition;
    let mut items = Vec::new();
    if after.as_deref().is_none_or(|after| after < OF_PAGES) {
        let listing = app.records.list(&partition, OF_JOB, after.as_deref(), limit).await?;
        for item in &listing.items {
            items.push(decode(item)?.value);
        }
        if let Some(next) = listing.next {
            return Ok(Piece { items, next: Some(next) });
        }
    }
    let left = limit.saturating_sub(items.len());
    if left == 0 {
        // Whether a page has a trail is seen next time.
        return Ok(Piece { items, next: Some(OF_PAGES.to_owned()) });
    }
    let after = after.filter(|after| after.starts_with(OF_PAGES) && after != OF_PAGES);
    let listing = app.records.list(&partition, OF_PAGES, after.as_deref(), left).await?;
    for item in &listing.items {
        items.push(decode(item)?.value);
    }
    Ok(Piece { items, next: listing.next })
}

async fn of_index<T: DeserializeOwned>(
    app: &App,
    index: Index,
    partition: &str,
    mut after: Option<String>,
    descending: bool,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
) -> Result<Piece<T>, Fault> {
    let place = |item: &Item| {
        let entry = match index {
            Index::Tenant => &item.draft.tenant_index,
            Index::State => &item.draft.state_index,
        };
        entry.as_ref().map(|entry| entry.sort.clone())
    };
    let mut items = Vec::new();
    let mut looked_at = 0;
    // One more than wanted, to know whether there is more.
    let mut count = limit + 1;
    loop {
        let listing = app.records.list_index(index, partition, after.as_deref(), descending, count).await?;
        count = count.max(AT_ONCE);
        for item in &listing.items {
            let value = decode::<T>(item)?.value;
            if wanted(&value) {
                if items.len() == limit {
                    return Ok(Piece { items, next: after });
                }
                items.push(value);
            }
            after = place(item);
            looked_at += 1;
        }
        match listing.next {
            Some(next) if looked_at >= MOST_LOOKED_AT => return Ok(Piece { items, next: Some(next) }),
            Some(next) => after = Some(next),
            None => return Ok(Piece { items, next: None }),
        }
    }
}
