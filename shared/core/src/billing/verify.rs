//! Whether an account is what its trail says.
//!
//! The trail decides. The record and the ledger of an account are written together with its events, so they can
//! differ only if something else wrote to the store, or our own code is wrong.
//!
//! A check reads the record first. Its head says how many events and ledger lines belong to it; what other
//! processes write meanwhile comes after them and is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    billing::account::{Account, AccountEvent, LedgerEntry},
    event::{Aggregate, Event, Tampered, decode as decode_event},
    events::Store,
    ids::TenantId,
    keys::record,
    ports::{Fault, records::Item},
    records::{decode, read_items},
};

/// Events that are read at once.
const EVENTS_PER_STEP: usize = 1000;

/// Checks every hash and link of an account's trail, that replaying it gives the stored account, and that the
/// balance is the sum of the ledger. Returns what is wrong.
pub async fn verify_account(store: &Store, tenant: &TenantId) -> Result<Vec<String>, Fault> {
    let (mut account, mut findings) = (Account::new(tenant.clone()), Vec::new());
    loop {
        let step = verify_step(store, account, EVENTS_PER_STEP).await?;
        findings.extend(step.findings);
        if step.has_ended {
            return Ok(findings);
        }
        account = step.account;
    }
}

/// What one step of a check found.
pub(super) struct Step {
    /// The account as far as its trail was read.
    pub account: Account,
    pub findings: Vec<String>,
    /// There is nothing more to check: the end of the trail was reached, or it is damaged.
    pub has_ended: bool,
}

/// Checks the next `limit` events of an account that was checked up to `from`, and the ledger lines of these
/// events; with the last event, the stored account too.
pub(super) async fn verify_step(store: &Store, from: Account, limit: usize) -> Result<Step, Fault> {
    let mut findings = Vec::new();
    let stored = stored(store, &from).await?;
    let end = stored.as_ref().map_or(u64::MAX, |account| account.head.sequence);
    if let Err(reason) = &stored {
        findings.push(format!("account: {reason}"));
    }
    let first = from.head.sequence;
    if end < first {
        findings.push(format!("account: it ends with event {end}, before event {first} that was checked"));
        return Ok(Step { account: from, findings, has_ended: true });
    }
    let mut events = trail_items(store, &from, limit).await?;
    let has_more = events.len() == limit && end > first + limit as u64;
    events.retain(|item| number(item).is_none_or(|sequence| sequence <= end));
    let folded = fold(&from, &events);
    let reached = folded.account.head.sequence;
    let (ledger, later_lines) = verify_ledger(store, &from, &folded).await?;
    findings.extend(ledger);
    if let Some(damage) = folded.damage {
        findings.push(format!("account: {damage}"));
        return Ok(Step { account: folded.account, findings, has_ended: true });
    }
    if let Ok(stored) = stored
        && !has_more
    {
        let mut replayed = folded.account.clone();
        if stored.figures.is_none() {
            // A record of version 0.1.
            replayed.figures = None;
        }
        if reached != end {
            findings.push(format!("account: {}", Tampered::Cut { expected: end, found: reached }));
        } else if replayed.balance != stored.balance {
            let (found, right) = (stored.balance, replayed.balance);
            findings.push(format!("account: the balance of {found} is not the ledger's {right}"));
        }
        if replayed != stored {
            findings.push("account: the stored account is not what its trail says".into());
        }
        findings.extend(verify_nothing_follows(store, &stored, later_lines).await?);
    }
    Ok(Step { account: folded.account, findings, has_ended: !has_more })
}

/// Finds events and ledger lines after those of the stored account. They are right if the account has changed since
/// it was read.
async fn verify_nothing_follows(
    store: &Store,
    stored: &Account,
    lines: Vec<u64>,
) -> Result<Vec<String>, Fault> {
    let events = trail_items(store, stored, 1).await?;
    let item = match events.is_empty() && lines.is_empty() {
        true => return Ok(vec![]),
        false => store.records.get(&record::account(&stored.tenant)).await?,
    };
    let now = item.and_then(|item| decode::<Account>(&item).ok()).map(|account| account.value.head);
    if now.unwrap_or_default() != stored.head {
        return Ok(vec![]);
    }
    let cut = Tampered::Cut {
        expected: stored.head.sequence,
        found: events.first().and_then(number).unwrap_or(u64::MAX),
    };
    let lines = lines.iter().map(|sequence| format!("ledger {sequence}: it is not what the trail says"));
    Ok(events.first().map(|_| format!("account: {cut}")).into_iter().chain(lines).collect())
}

/// The stored account; an error says what is wrong with its record.
async fn stored(store: &Store, from: &Account) -> Result<Result<Account, String>, Fault> {
    let key = record::account(&from.tenant);
    let decoded = |item: &Item| decode::<Account>(item).map(|stored| stored.value);
    let unreadable = |fault: Fault| format!("the record can't be read: {fault}");
    if let Some(item) = store.records.get(&key).await? {
        return Ok(decoded(&item).map_err(unreadable));
    }
    let has_events = !trail_items(store, &Account::new(from.tenant.clone()), 1).await?.is_empty();
    // Its first event may have been written since the record was read, and the record with it.
    Ok(match store.records.get(&key).await? {
        Some(item) => decoded(&item).map_err(unreadable),
        None if has_events => Err("the record is missing".into()),
        None => Ok(Account::new(from.tenant.clone())),
    })
}

/// The stored events that follow those of `from`, up to `limit`.
pub(super) async fn trail_items(store: &Store, from: &Account, limit: usize) -> Result<Vec<Item>, Fault> {
    let aggregate = Aggregate::Account(from.tenant.clone());
    let (partition, prefix) = record::trail(&aggregate);
    let after = record::event(&aggregate, from.head.sequence).sort;
    read_items(store.records.as_ref(), &partition, &prefix, Some(after), limit).await
}

/// The number that an event or a ledger line is stored under.
pub(super) fn number(item: &Item) -> Option<u64> {
    item.draft.key.sort.rsplit('#').next().and_then(|number| number.parse().ok())
}

/// An account after some events, and the ledger that they say.
pub(super) struct Folded {
    pub account: Account,
    pub lines: BTreeMap<u64, LedgerEntry>,
    /// Why the event after these can't be applied.
    pub damage: Option<String>,
}

/// Applies events up to the first one that is damaged.
pub(super) fn fold(from: &Account, events: &[Item]) -> Folded {
    let mut folded = Folded { account: from.clone(), lines: BTreeMap::new(), damage: None };
    for item in events {
        match next(&folded.account, item) {
            Ok((account, line)) => {
                folded.account = account;
                folded.lines.extend(line.map(|line| (line.sequence, line)));
            }
            Err(reason) => {
                let expected = folded.account.head.sequence + 1;
                folded.damage = Some(match number(item) {
                    Some(found) if found != expected => {
                        Tampered::Missing { sequence: expected, found }.to_string()
                    }
                    _ => reason,
                });
                break;
            }
        }
    }
    folded
}

fn next(before: &Account, item: &Item) -> Result<(Account, Option<LedgerEntry>), String> {
    let sequence = before.head.sequence + 1;
    let event: Event =
        decode(item).map_err(|fault| format!("event {sequence} can't be read: {fault}"))?.value;
    if event.aggregate != Aggregate::Account(before.tenant.clone()) {
        return Err(format!("event {} belongs to {}", event.id, event.aggregate));
    }
    let head = before.head.follow(&event).map_err(|tampered| tampered.to_string())?;
    let typed: AccountEvent = decode_event(&event).map_err(|error| format!("event {}: {error}", event.id))?;
    let after = before.apply(&typed).map_err(|refused| format!("event {}: {refused}", event.id))?;
    let after = after.recorded(head, event.timestamp);
    let line = LedgerEntry::of(before, &after, &typed, event.timestamp);
    Ok((after, line))
}

/// Compares the ledger lines of the events between `from` and `to`. Returns what is wrong, and later lines.
async fn verify_ledger(store: &Store, from: &Account, to: &Folded) -> Result<(Vec<String>, Vec<u64>), Fault> {
    let (mut findings, mut later, mut sum) = (Vec::new(), Vec::new(), from.balance as i64);
    let mut missing: BTreeSet<u64> = to.lines.keys().copied().collect();
    let partition = record::account_partition(&from.tenant);
    let mut after = Some(record::ledger_entry(&from.tenant, from.head.sequence).sort);
    loop {
        let items =
            read_items(store.records.as_ref(), &partition, record::LEDGER, after, EVENTS_PER_STEP).await?;
        for item in &items {
            let Some(sequence) = number(item) else {
                findings.push(format!("ledger: {} is not a line", item.draft.key.sort));
                continue;
            };
            if sequence > to.account.head.sequence {
                later.push(sequence);
                continue;
            }
            missing.remove(&sequence);
            let expected = to.lines.get(&sequence);
            match decode::<LedgerEntry>(item) {
                Err(fault) => {
                    // The lines after it are compared with the sum that they should continue.
                    sum += expected.map_or(0, |line| line.amount);
                    findings.push(format!("ledger {sequence}: it can't be read: {fault}"));
                }
                Ok(line) => {
                    let line = line.value;
                    sum = sum.saturating_add(line.amount);
                    if line.balance as i64 != sum {
                        findings.push(format!("ledger {sequence}: {} is not the sum of {sum}", line.balance));
                    } else if expected != Some(&line) {
                        findings.push(format!("ledger {sequence}: it is not what the trail says"));
                    }
                }
            }
        }
        let last = items.last();
        let is_past = last.and_then(number).is_none_or(|sequence| sequence > to.account.head.sequence);
        if items.len() < EVENTS_PER_STEP || is_past {
            break;
        }
        after = last.map(|item| item.draft.key.sort.clone());
    }
    findings.extend(missing.iter().map(|sequence| format!("ledger {sequence}: the entry is missing")));
    Ok((findings, later))
}
