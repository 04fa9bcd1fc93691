//! Lists the jobs that ended under version 0.1, which did not list them: retention would never come to them.
//!
//! The sweep takes a page of them at a time, tenant after tenant, and stops for good after the last one. On one
//! machine the database does it at once when it is opened.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    ids::TenantId,
    job::{Job, jobs},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, Item, When},
    },
    records::{BATCH_SIZE, decode, encode},
    settings::Settings,
    tenants::api_keys::ApiKey,
};

/// Jobs that one call looks at.
const JOBS_PER_CALL: usize = 100;

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// The tenant whose jobs are being listed.
    tenant: Option<TenantId>,
    /// Where the next page of them starts.
    after: Option<String>,
    is_done: bool,
}

/// Lists the next of them; returns how many. Repeating it changes nothing.
pub async fn list_ended_jobs(store: &Store, settings: &Settings) -> Result<usize, Fault> {
    let known = store.records.get(&record::ended_jobs_backfill()).await?;
    let position: Position =
        known.as_ref().map(decode).transpose()?.map(|known| known.value).unwrap_or_default();
    if position.is_done {
        return Ok(0);
    }
    let tenants = tenants(store, settings).await?;
    let Position { tenant, after, .. } = position;
    let tenant = tenant.or_else(|| tenants.first().cloned());
    let (mut listed, mut next) = (0, Position { is_done: true, ..Position::default() });
    if let Some(tenant) = tenant {
        let partition = index::jobs(&tenant);
        let page = store
            .records
            .list_index(Index::Tenant, &partition, after.as_deref(), false, JOBS_PER_CALL)
            .await?;
        for item in page.items.iter().filter(|item| is_unlisted(item)) {
            jobs::list_as_ended(store, &decode::<Job>(item)?.value.id).await?;
            listed += 1;
        }
        let following =
            tenants.range((std::ops::Bound::Excluded(tenant.clone()), std::ops::Bound::Unbounded)).next();
        next = match (page.next, following) {
            (Some(after), _) => Position { tenant: Some(tenant), after: Some(after), is_done: false },
            (None, Some(following)) => {
                Position { tenant: Some(following.clone()), after: None, is_done: false }
            }
            (None, None) => next,
        };
    }
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let draft = Draft::new(record::ended_jobs_backfill(), encode(&next)?);
    // Refused if another sweep was faster.
    store.write(vec![Change::Put { draft, when }]).await?;
    Ok(listed)
}

fn is_unlisted(item: &Item) -> bool {
    let job = decode::<Job>(item).ok().map(|job| job.value);
    item.draft.state_index.is_none()
        && job.is_some_and(|job| job.state.is_terminal() && job.content_removed_at.is_none())
}

/// The tenants that version 0.1 knew of: of the settings, of keys and of accounts.
async fn tenants(store: &Store, settings: &Settings) -> Result<BTreeSet<TenantId>, Fault> {
    let mut tenants: BTreeSet<TenantId> = settings.tenants.iter().map(TenantId::new).collect();
    tenants.insert(TenantId::new(settings.tenant.clone()));
    for partition in [index::API_KEYS, index::ACCOUNTS] {
        let mut after: Option<String> = None;
        loop {
            let listing = store
                .records
                .list_index(Index::State, partition, after.as_deref(), false, BATCH_SIZE)
                .await?;
            tenants.extend(listing.items.iter().filter_map(|item| tenant_of(partition, item)));
            after = listing.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(tenants)
}

fn tenant_of(partition: &str, item: &Item) -> Option<TenantId> {
    match partition {
        index::API_KEYS => decode::<ApiKey>(item).ok().map(|key| key.value.caller.tenant),
        _ => item.draft.state_index.as_ref().map(|entry| TenantId::new(&entry.sort)),
    }
}
