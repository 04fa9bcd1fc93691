//! Rebuilds an account from its trail.

use serde::Deserialize;

use crate::{
    billing::{
        account::{Account, AccountEvent, LedgerEntry},
        accounts::{self, Origin},
        drift,
        verify::{Folded, fold, number, trail_items, verify_account},
    },
    event::{Actor, Head, Metadata},
    events::Store,
    ids::{CorrelationId, TenantId},
    keys::record,
    ports::{
        Fault,
        records::{Change, Item, When, Written},
    },
    records::{Versioned, WRITE_BATCH, decode, read_items},
};

/// How often a repair is started again because another process changed the account.
const MAX_TRIES: usize = 20;

/// Why an account was not repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    #[error("the account can't be rebuilt, because its trail is damaged: {0}; restore a backup")]
    Damaged(String),
    #[error(
        "the account was changed by other processes {MAX_TRIES} times while it was repaired; retry later"
    )]
    Busy,
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Rebuilds the record and the ledger of an account from its trail, with the event `account.repaired`. Returns
/// what was wrong; nothing is written if nothing was. A trail whose hashes don't verify, or which is shorter than
/// the account says, is no ground for a repair.
pub async fn repair_account(store: &Store, tenant: &TenantId, by: &str) -> Result<Vec<String>, RepairError> {
    for _ in 0..MAX_TRIES {
        let findings = verify_account(store, tenant).await?;
        if findings.is_empty() || rebuild(store, tenant, by, &findings).await? {
            drift::reset(store, tenant).await?;
            return Ok(findings);
        }
    }
    Err(RepairError::Busy)
}

/// Writes the account as its trail says; false if another process changed it meanwhile.
async fn rebuild(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    findings: &[String],
) -> Result<bool, RepairError> {
    let item = store.records.get(&record::account(tenant)).await?;
    let empty = Account::new(tenant.clone());
    let events = trail_items(store, &empty, usize::MAX).await?;
    let folded = fold(&empty, &events);
    if let Some(reason) = &folded.damage {
        return Err(RepairError::Damaged(reason.clone()));
    }
    let (found, known) = (folded.account.head.sequence, known_end(store, tenant, item.as_ref()).await?);
    if known > found {
        let reason = format!("it ends with event {found}, and the account had {known}");
        return Err(RepairError::Damaged(reason));
    }
    let mut ledger = ledger_changes(store, tenant, &folded).await?;
    let mut version = item.map_or(0, |item| item.version);
    // Each batch writes the account too: it is refused if the account changed since it was read.
    while ledger.len() > WRITE_BATCH {
        let mut changes: Vec<Change> = ledger.drain(..WRITE_BATCH).collect();
        changes.push(accounts::put(&folded.account, version)?);
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
    let before = Versioned { value: folded.account, version };
    let (_, changes) =
        accounts::transition(store, &origin, &before, &[event]).map_err(|error| match error {
            accounts::AccountError::Fault(fault) => RepairError::Fault(fault),
            accounts::AccountError::Refused(refused) => RepairError::Damaged(refused.to_string()),
        })?;
    ledger.extend(changes);
    Ok(store.write(ledger).await? == Written::Applied)
}

/// The last event that the account is known to have had, by its record or by an earlier check; a record that
/// can't be read may still say it.
async fn known_end(store: &Store, tenant: &TenantId, item: Option<&Item>) -> Result<u64, Fault> {
    #[derive(Deserialize)]
    struct Ended {
        head: Head,
    }
    let stored = item.and_then(|item| decode::<Ended>(item).ok());
    let checked = drift::checked(store, tenant).await?;
    let ends = [stored.map(|ended| ended.value.head), checked.map(|account| account.head)];
    Ok(ends.into_iter().flatten().map(|head| head.sequence).max().unwrap_or(0))
}

/// The writes that make the stored ledger what the trail says.
async fn ledger_changes(store: &Store, tenant: &TenantId, folded: &Folded) -> Result<Vec<Change>, Fault> {
    let mut expected = folded.lines.clone();
    let partition = record::account_partition(tenant);
    let mut changes = Vec::new();
    for item in read_items(store.records.as_ref(), &partition, record::LEDGER, None, usize::MAX).await? {
        let right = number(&item).and_then(|sequence| expected.remove(&sequence));
        let line: Option<LedgerEntry> = decode(&item).ok().map(|line| line.value);
        let Item { draft, version, .. } = item;
        match right {
            Some(right) if line.as_ref() == Some(&right) => {}
            Some(right) => changes.push(accounts::put_line(tenant, &right, When::Version(version))?),
            None => changes.push(Change::Delete { key: draft.key, version }),
        }
    }
    for missing in expected.values() {
        changes.push(accounts::put_line(tenant, missing, When::Absent)?);
    }
    Ok(changes)
}
