//! Accounts that differ from their trails: found every minute, and repaired by an operator.
//!
//! The trail decides. The record and the ledger of an account are written together with its events, so they can
//! differ only if something else wrote to the store, or our own code is wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tracing::error;

use crate::{
    billing::{
        account::{Account, AccountEvent, LedgerEntry},
        accounts::{self, Origin},
    },
    event::{Actor, Aggregate, Event, Head, Metadata, decode as decode_event, verify},
    events::{Store, trail},
    ids::{CorrelationId, TenantId},
    keys::{index, record},
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{Versioned, WRITE_BATCH, decode, read_all, read_index},
};

/// Reads before a finding is reported: one that appears while a process writes may come from two reads that
/// do not belong together.
const MAX_READS: usize = 5;
/// Accounts that one check examines completely; the others follow in the next.
const MAX_EXAMINED: usize = 50;
/// Accounts that are counted at most.
const MAX_COUNTED: usize = 1000;

/// Checks every hash and link of an account's trail, that replaying it gives the stored account, and that the
/// balance is the sum of the ledger. Returns what is wrong.
pub async fn verify_account(store: &Store, tenant: &TenantId) -> Result<Vec<String>, Fault> {
    let (mut findings, mut seen) = examine(store, tenant).await?;
    for _ in 1..MAX_READS {
        if findings.is_empty() || accounts::load(store, tenant).await?.value.head == seen {
            break;
        }
        (findings, seen) = examine(store, tenant).await?;
    }
    Ok(findings)
}

async fn examine(store: &Store, tenant: &TenantId) -> Result<(Vec<String>, Head), Fault> {
    let stored = accounts::load(store, tenant).await?.value;
    let events = trail::read(store, &Aggregate::Account(tenant.clone())).await?;
    let mut findings = Vec::new();
    if let Err(tampered) = verify(&events, &stored.head) {
        findings.push(format!("account: {tampered}"));
    }
    match Account::replay(tenant, &events) {
        Ok(replayed) if replayed == stored => {}
        Ok(_) => findings.push("account: the stored account is not what its trail says".into()),
        Err(error) => findings.push(format!("account: {error}")),
    }
    let expected: BTreeMap<u64, LedgerEntry> =
        ledger_of(tenant, &events).into_iter().map(|line| (line.sequence, line)).collect();
    let (mut sum, mut missing) = (0, expected.keys().copied().collect::<BTreeSet<u64>>());
    for line in accounts::ledger(store, tenant).await? {
        sum += line.amount;
        missing.remove(&line.sequence);
        if line.balance as i64 != sum {
            findings.push(format!("ledger {}: {} is not the sum of {sum}", line.sequence, line.balance));
        } else if expected.get(&line.sequence) != Some(&line) {
            findings.push(format!("ledger {}: it is not what the trail says", line.sequence));
        }
    }
    findings.extend(missing.iter().map(|sequence| format!("ledger {sequence}: the entry is missing")));
    if stored.balance as i64 != sum {
        findings.push(format!("account: the balance of {} is not the ledger's {sum}", stored.balance));
    }
    Ok((findings, stored.head))
}

/// The ledger that a trail says; up to the first event that can't be applied.
fn ledger_of(tenant: &TenantId, events: &[Event]) -> Vec<LedgerEntry> {
    let (mut account, mut lines) = (Account::new(tenant.clone()), Vec::new());
    for event in events {
        let Ok(typed) = decode_event::<AccountEvent>(event) else { break };
        let Ok(next) = account.apply(&typed) else { break };
        let next = next.recorded(Head::of(event), event.timestamp);
        lines.extend(LedgerEntry::of(&account, &next, &typed, event.timestamp));
        account = next;
    }
    lines
}

/// Why an account was not repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    #[error("the account can't be rebuilt, because its trail is damaged: {0}; restore a backup")]
    Damaged(String),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Rebuilds the record and the ledger of an account from its trail, with the event `account.repaired`. Returns
/// what was wrong; nothing is written if nothing was. A trail whose hashes don't verify, or which is shorter than
/// the account says, is no ground for a repair.
pub async fn repair_account(store: &Store, tenant: &TenantId, by: &str) -> Result<Vec<String>, RepairError> {
    loop {
        let findings = verify_account(store, tenant).await?;
        if findings.is_empty() {
            return Ok(findings);
        }
        if rebuild(store, tenant, by, &findings).await? {
            return Ok(findings);
        }
    }
}

/// Writes the account as its trail says; false if another process changed it meanwhile.
async fn rebuild(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    findings: &[String],
) -> Result<bool, RepairError> {
    let damaged = |reason: String| RepairError::Damaged(reason);
    let item = store.records.get(&record::account(tenant)).await?;
    let events = trail::read(store, &Aggregate::Account(tenant.clone())).await?;
    let head = events.last().map(Head::of).unwrap_or_default();
    verify(&events, &head).map_err(|tampered| damaged(tampered.to_string()))?;
    // A record that can't be decoded says nothing about its trail.
    let stored: Option<Account> = item.as_ref().and_then(|item| decode(item).ok()).map(|stored| stored.value);
    if stored.is_some_and(|stored| stored.head.sequence > head.sequence) {
        return Err(damaged(format!("it ends with event {}, before the account does", head.sequence)));
    }
    let rebuilt = Account::replay(tenant, &events).map_err(damaged)?;
    let mut ledger = ledger_changes(store, tenant, &events).await?;
    let mut version = item.map_or(0, |item| item.version);
    // Each batch writes the account too: it is refused if the account changed since it was read.
    while ledger.len() > WRITE_BATCH {
        let mut changes: Vec<Change> = ledger.drain(..WRITE_BATCH).collect();
        changes.push(accounts::put(&rebuilt, version)?);
        if store.write(changes).await? != Written::Applied {
            return Ok(false);
        }
        version += 1;
    }
    let origin = Origin {
        metadata: Metadata::untraced(
            tenant.clone(),
            Some(by.to_owned()),
            Actor::Operator,
            &store.environment,
        ),
        correlation: CorrelationId::new(store.ids.fresh()),
    };
    let event = AccountEvent::Repaired { by: by.to_owned(), findings: findings.to_vec() };
    let before = Versioned { value: rebuilt, version };
    let (_, changes) =
        accounts::transition(store, &origin, &before, &[event]).map_err(|error| match error {
            accounts::AccountError::Fault(fault) => RepairError::Fault(fault),
            accounts::AccountError::Refused(refused) => damaged(refused.to_string()),
        })?;
    ledger.extend(changes);
    Ok(store.write(ledger).await? == Written::Applied)
}

/// The writes that make the stored ledger what the trail says.
async fn ledger_changes(store: &Store, tenant: &TenantId, events: &[Event]) -> Result<Vec<Change>, Fault> {
    let mut expected: BTreeMap<u64, LedgerEntry> =
        ledger_of(tenant, events).into_iter().map(|line| (line.sequence, line)).collect();
    let stored: Vec<Versioned<serde_json::Value>> =
        read_all(store.records.as_ref(), &record::account_partition(tenant), record::LEDGER).await?;
    let mut changes = Vec::new();
    for Versioned { value, version } in stored {
        let line = serde_json::from_value::<LedgerEntry>(value).ok();
        // A line is found under its sequence number.
        let Some(sequence) = line.as_ref().map(|line| line.sequence) else { continue };
        match expected.remove(&sequence) {
            Some(right) if Some(&right) == line.as_ref() => {}
            Some(right) => changes.push(accounts::put_line(tenant, &right, When::Version(version))?),
            None => changes.push(Change::Delete { key: record::ledger_entry(tenant, sequence), version }),
        }
    }
    for missing in expected.values() {
        changes.push(accounts::put_line(tenant, missing, When::Absent)?);
    }
    Ok(changes)
}

/// An account that differs, as it is listed until it is right again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Drifted {
    tenant: TenantId,
    findings: Vec<String>,
}

/// How many accounts are known to differ.
pub async fn count_drifted(store: &Store) -> Result<usize, Fault> {
    Ok(drifted(store, MAX_COUNTED).await?.len())
}

async fn drifted(store: &Store, limit: usize) -> Result<Vec<Versioned<Drifted>>, Fault> {
    read_index(store.records.as_ref(), Index::State, index::DRIFTED_ACCOUNTS, None, limit, |_| true).await
}

/// Checks all accounts for what their records show, and completely: those that look wrong, those that were wrong
/// before, and one more in turn. Lists those that differ, with a notice. Called every minute; returns how many differ.
pub async fn check(store: &Store) -> Result<usize, Fault> {
    let all = accounts::list(store).await?;
    let mut suspects: BTreeSet<TenantId> = BTreeSet::new();
    suspects.extend(drifted(store, MAX_EXAMINED).await?.into_iter().map(|drifted| drifted.value.tenant));
    suspects.extend(all.iter().filter(|account| !adds_up(account)).map(|account| account.tenant.clone()));
    let minute = store.clock.now().as_second() / 60;
    let turn = usize::try_from(minute).unwrap_or(0).checked_rem(all.len());
    suspects.extend(turn.map(|turn| all[turn].tenant.clone()));
    let mut count = 0;
    for tenant in suspects.into_iter().take(MAX_EXAMINED) {
        let findings = verify_account(store, &tenant).await?;
        count += usize::from(!findings.is_empty());
        list_or_unlist(store, tenant, findings).await?;
    }
    Ok(count)
}

fn adds_up(account: &Account) -> bool {
    let figures = account.figures.as_ref();
    account.reserved <= account.balance
        && figures.is_none_or(|figures| figures.earned.checked_sub(figures.spent) == Some(account.balance))
}

async fn list_or_unlist(store: &Store, tenant: TenantId, findings: Vec<String>) -> Result<(), Fault> {
    let key = record::drifted_account(&tenant);
    let listed = store.records.get(&key).await?;
    let changes = match (listed, findings.is_empty()) {
        (None, true) | (Some(_), false) => return Ok(()),
        (Some(item), true) => vec![Change::Delete { key, version: item.version }],
        (None, false) => {
            error!(%tenant, ?findings, "the account differs from its trail");
            let notice = NewNotice {
                tenant: tenant.clone(),
                kind: NoticeKind::AccountDrift,
                topic: String::new(),
                subject: format!("The account of tenant {tenant} differs from its trail"),
                body: format!(
                    "{}\nShow all: everypage account verify --tenant {tenant}\nRebuild it from the trail: \
                     everypage account verify --tenant {tenant} --repair",
                    findings[0]
                ),
            };
            let entry = IndexEntry::new(index::DRIFTED_ACCOUNTS, tenant.as_str());
            let body = crate::records::encode(&Drifted { tenant: tenant.clone(), findings })?;
            let draft = Draft { state_index: Some(entry), ..Draft::new(key, body) };
            vec![Change::Put { draft, when: When::Absent }, notices::change(store, &notice)?]
        }
    };
    // Refused if another process listed it in between.
    store.write(changes).await.map(drop)
}

/// Checks every minute, until it is dropped.
pub async fn run(store: &Store) {
    loop {
        store.clock.sleep(std::time::Duration::from_secs(60)).await;
        if let Err(fault) = check(store).await {
            tracing::warn!(%fault, "accounts not checked yet");
        }
    }
}
