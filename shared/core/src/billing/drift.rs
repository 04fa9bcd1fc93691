//! Accounts that differ from their trails: found by a check every minute, listed until they are repaired.
//!
//! The check goes through all accounts in turn, some each minute, and reads of each what is new since it was
//! checked last. Once a day it starts an account over, so that changes of what was checked before are found.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::error;

use crate::{
    billing::{
        account::Account,
        verify::{Step, verify_step},
    },
    events::Store,
    ids::TenantId,
    keys::{index, record},
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, Item, Key, When},
    },
    records::{decode, encode, read_index},
    time::after,
};

const INTERVAL: Duration = Duration::from_secs(60);
/// How often an account is checked from its first event on.
const RESTART_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Accounts and events that one check examines; the others follow in the next.
const MAX_EXAMINED: usize = 50;
const MAX_EVENTS: usize = 5000;
const MAX_EVENTS_PER_ACCOUNT: usize = 1000;
/// Accounts that are counted at most.
const MAX_COUNTED: usize = 1000;

/// How far an account was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Checked {
    account: Account,
    /// When the check of this account began with its first event.
    started_at: Timestamp,
}

/// Where the check of all accounts stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    last: Option<TenantId>,
}

/// An account that differs, as it is listed until it is right again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Drifted {
    tenant: TenantId,
    findings: Vec<String>,
}

/// How many accounts are known to differ.
pub async fn count_drifted(store: &Store) -> Result<usize, Fault> {
    let all = read_index(
        store.records.as_ref(),
        Index::State,
        index::DRIFTED_ACCOUNTS,
        None,
        MAX_COUNTED,
        |_: &Drifted| true,
    );
    Ok(all.await?.len())
}

/// Checks the next accounts, and lists those that differ, with a notice. Called every minute; returns how many of
/// them differ.
pub async fn check(store: &Store) -> Result<usize, Fault> {
    let cursor = store.records.get(&record::account_check()).await?;
    let position = cursor.as_ref().and_then(|item| decode::<Position>(item).ok());
    let last = position.and_then(|position| position.value.last);
    let (tenants, has_more) = next_tenants(store, last.as_ref()).await?;
    let (mut last, mut events, mut differing) = (has_more.then(|| tenants.last().cloned()).flatten(), 0, 0);
    for (tenant, known) in tenants.iter().zip(read_known(store, &tenants).await?) {
        if events >= MAX_EVENTS {
            break;
        }
        let (examined, is_right) = examine(store, tenant, known).await?;
        events += examined;
        differing += usize::from(!is_right);
        if events >= MAX_EVENTS {
            last = Some(tenant.clone());
        }
    }
    let body = encode(&Position { last })?;
    if cursor.as_ref().is_none_or(|item| item.draft.body != body) {
        let when = cursor.map_or(When::Absent, |item| When::Version(item.version));
        // Refused if another process checked them too.
        store.write(vec![Change::Put { draft: Draft::new(record::account_check(), body), when }]).await?;
    }
    Ok(differing)
}

/// The next tenants with an account after `last`, by name, and whether there are more.
async fn next_tenants(store: &Store, last: Option<&TenantId>) -> Result<(Vec<TenantId>, bool), Fault> {
    let (mut found, mut end) = (BTreeSet::new(), None::<String>);
    // Also those that were checked before: a record that is gone is in no list of accounts.
    for partition in [index::ACCOUNTS, index::CHECKED_ACCOUNTS] {
        let after = last.map(TenantId::as_str);
        let listing = store.records.list_index(Index::State, partition, after, false, MAX_EXAMINED).await?;
        found.extend(listing.items.into_iter().filter_map(|item| Some(item.draft.state_index?.sort)));
        end = [end, listing.next].into_iter().flatten().min();
    }
    let count = found.len();
    let all = found.into_iter().filter(|name| end.as_ref().is_none_or(|end| name <= end));
    let tenants: Vec<TenantId> = all.take(MAX_EXAMINED).map(TenantId::new).collect();
    let has_more = end.is_some() || tenants.len() < count;
    Ok((tenants, has_more))
}

/// What is stored about an account.
struct Known {
    account: Option<Item>,
    checked: Option<Item>,
    drifted: Option<Item>,
}

async fn read_known(store: &Store, tenants: &[TenantId]) -> Result<Vec<Known>, Fault> {
    let keys: Vec<Key> = tenants
        .iter()
        .flat_map(|tenant| {
            [record::account(tenant), record::checked_account(tenant), record::drifted_account(tenant)]
        })
        .collect();
    let mut items = store.records.get_many(&keys).await?.into_iter();
    let mut next = || Some(Known { account: items.next()?, checked: items.next()?, drifted: items.next()? });
    Ok(std::iter::from_fn(&mut next).collect())
}

/// Checks what is new of one account; returns how many events that were, and whether the account is right as far as
/// it was checked.
async fn examine(store: &Store, tenant: &TenantId, known: Known) -> Result<(usize, bool), Fault> {
    let now = store.clock.now();
    let checked =
        known.checked.as_ref().and_then(|item| decode::<Checked>(item).ok()).map(|found| found.value);
    let current = checked.filter(|checked| after(checked.started_at, RESTART_INTERVAL) > now);
    if let (Some(item), Some(checked)) = (&known.account, &current)
        && decode::<Account>(item).is_ok_and(|account| account.value == checked.account)
    {
        unlist(store, known.drifted).await?;
        return Ok((0, true));
    }
    let started =
        current.unwrap_or_else(|| Checked { account: Account::new(tenant.clone()), started_at: now });
    let first = started.account.head.sequence;
    let verify = || verify_step(store, started.account.clone(), MAX_EVENTS_PER_ACCOUNT);
    let mut step = verify().await?;
    if !step.findings.is_empty() {
        // What a write in progress shows is gone by the second time.
        step = verify().await?;
    }
    let Step { account, findings, has_ended } = step;
    let examined = usize::try_from(account.head.sequence.saturating_sub(first)).unwrap_or(usize::MAX);
    if !findings.is_empty() {
        if known.drifted.is_none() {
            list(store, tenant, findings).await?;
        }
        return Ok((examined, false));
    }
    let when = known.checked.map_or(When::Absent, |item| When::Version(item.version));
    let body = encode(&Checked { account, started_at: started.started_at })?;
    let entry = IndexEntry::new(index::CHECKED_ACCOUNTS, tenant.as_str());
    let draft = Draft { state_index: Some(entry), ..Draft::new(record::checked_account(tenant), body) };
    // Refused if another process checked it too.
    store.write(vec![Change::Put { draft, when }]).await?;
    if has_ended {
        unlist(store, known.drifted).await?;
    }
    Ok((examined, true))
}

/// The account as far as it was checked, if that is on record.
pub(super) async fn checked(store: &Store, tenant: &TenantId) -> Result<Option<Account>, Fault> {
    let item = store.records.get(&record::checked_account(tenant)).await?;
    Ok(item.and_then(|item| decode::<Checked>(&item).ok()).map(|checked| checked.value.account))
}

/// Removes a repaired account from the list; the next check starts it over.
pub(super) async fn reset(store: &Store, tenant: &TenantId) -> Result<(), Fault> {
    delete(store, record::drifted_account(tenant)).await?;
    delete(store, record::checked_account(tenant)).await
}

async fn delete(store: &Store, key: Key) -> Result<(), Fault> {
    let item = store.records.get(&key).await?;
    unlist(store, item).await
}

async fn unlist(store: &Store, item: Option<Item>) -> Result<(), Fault> {
    if let Some(item) = item {
        // Refused if another process wrote it in between.
        store.write(vec![Change::Delete { key: item.draft.key, version: item.version }]).await?;
    }
    Ok(())
}

async fn list(store: &Store, tenant: &TenantId, findings: Vec<String>) -> Result<(), Fault> {
    let key = record::drifted_account(tenant);
    error!(%tenant, ?findings, "the account differs from its trail");
    let notice = NewNotice {
        tenant: tenant.clone(),
        kind: NoticeKind::AccountDrift,
        topic: String::new(),
        about: None,
        subject: format!("The account of tenant {tenant} differs from its trail"),
        body: format!(
            "{}\nShow all: everypage account verify --tenant {tenant}\nRebuild it from the trail: \
             everypage account verify --tenant {tenant} --repair",
            findings[0]
        ),
    };
    let entry = IndexEntry::new(index::DRIFTED_ACCOUNTS, tenant.as_str());
    let draft = Draft {
        state_index: Some(entry),
        ..Draft::new(key, encode(&Drifted { tenant: tenant.clone(), findings })?)
    };
    // Refused if another process listed it in between.
    store
        .write(vec![Change::Put { draft, when: When::Absent }, notices::change(store, &notice)?])
        .await
        .map(drop)
}

/// Checks every minute, until it is dropped.
pub async fn run(store: &Store) {
    loop {
        store.clock.sleep(INTERVAL).await;
        if let Err(fault) = check(store).await {
            tracing::warn!(%fault, "accounts not checked yet");
        }
    }
}
