//! Stores accounts and their ledgers: events, ledger lines and the account change in one write.

use crate::{
    billing::account::{Account, AccountEvent, Cause, LedgerEntry, Refused},
    event::{Actor, Aggregate, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, EventId, TenantId},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{ListPage, Versioned, decode, encode, list_page, read_all, read_index},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Loads the account of a tenant; an account without events is empty, with version 0.
pub async fn load(store: &Store, tenant: &TenantId) -> Result<Versioned<Account>, Fault> {
    let found = store.records.get(&record::account(tenant)).await?.as_ref().map(decode).transpose()?;
    Ok(found.unwrap_or_else(|| Versioned { value: Account::new(tenant.clone()), version: 0 }))
}

/// Lists every account that has events, by tenant.
pub async fn all(store: &Store) -> Result<Vec<Account>, Fault> {
    let all =
        read_index(store.records.as_ref(), Index::State, index::ACCOUNTS, None, usize::MAX, |_: &Account| {
            true
        })
        .await?;
    Ok(all.into_iter().map(|account| account.value).collect())
}

/// The metadata and correlation id of events that change an account.
pub struct Origin {
    pub metadata: Metadata,
    pub correlation: CorrelationId,
}

/// The account after `events`, and the writes that store it: the record, its events, and a ledger line
/// for each event that changed the balance.
pub fn transition(
    store: &Store,
    origin: &Origin,
    before: &Versioned<Account>,
    events: &[AccountEvent],
) -> Result<(Account, Vec<Change>), AccountError> {
    let mut account = before.value.clone();
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    for event in events {
        let mut next = account.apply(event)?;
        let at = account.head.next_time(store.clock.now());
        let (id, aggregate) = (EventId::new(store.ids.fresh()), Aggregate::Account(account.tenant.clone()));
        let (stored, head) = account.head.append(
            aggregate,
            id,
            event,
            at,
            origin.correlation.clone(),
            origin.metadata.clone(),
        );
        changes.push(trail::append(store, &stored)?);
        next.head = head;
        lines.extend(LedgerEntry::of(&account, &next, event, at));
        account = next;
    }
    for line in lines {
        let key = record::ledger_entry(&account.tenant, line.sequence);
        let listed = IndexEntry::new(index::ledger(&account.tenant), format!("{:010}", line.sequence));
        let draft = Draft { tenant_index: Some(listed), ..Draft::new(key, encode(&line)?) };
        changes.push(Change::Put { draft, when: When::Absent });
    }
    let when = if before.version == 0 { When::Absent } else { When::Version(before.version) };
    let draft = Draft {
        state_index: Some(IndexEntry::new(index::ACCOUNTS, account.tenant.as_str())),
        ..Draft::new(record::account(&account.tenant), encode(&account)?)
    };
    changes.push(Change::Put { draft, when });
    Ok((account, changes))
}

/// Grants welcome credits to a tenant whose account has no events yet; so it gets them once.
pub async fn welcome(store: &Store, tenant: &TenantId, credits: u64) -> Result<(), Fault> {
    if credits == 0 {
        return Ok(());
    }
    let before = load(store, tenant).await?;
    if before.version != 0 {
        return Ok(());
    }
    let by = "everypage";
    let origin = Origin {
        metadata: Metadata::untraced(tenant.clone(), Some(by.into()), Actor::Operator, &store.environment),
        correlation: CorrelationId::new(store.ids.fresh()),
    };
    let cause = Cause::Operator { by: by.into(), note: "welcome credits".into() };
    match transition(store, &origin, &before, &[AccountEvent::Added { credits, cause }]) {
        // Refused if the account was used in between: then it is no new one.
        Ok((_, changes)) => store.write(changes).await.map(drop),
        Err(AccountError::Fault(fault)) => Err(fault),
        Err(AccountError::Refused(refused)) => Err(Fault::broken("account", refused)),
    }
}

/// Applies one change by an operator.
pub async fn change(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: &AccountEvent,
) -> Result<Account, AccountError> {
    let environment = &store.environment;
    let origin = Origin {
        metadata: Metadata::untraced(tenant.clone(), Some(by.to_owned()), Actor::Operator, environment),
        correlation: CorrelationId::new(store.ids.fresh()),
    };
    loop {
        let before = load(store, tenant).await?;
        let (account, changes) = transition(store, &origin, &before, std::slice::from_ref(event))?;
        if store.write(changes).await? == Written::Applied {
            return Ok(account);
        }
    }
}

/// Reads the whole ledger of a tenant, oldest first, strongly consistent.
pub async fn ledger(store: &Store, tenant: &TenantId) -> Result<Vec<LedgerEntry>, Fault> {
    let all = read_all(store.records.as_ref(), &record::account_partition(tenant), record::LEDGER).await?;
    Ok(all.into_iter().map(|line| line.value).collect())
}

/// Reads one page of the ledger of a tenant, newest first.
pub async fn ledger_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<LedgerEntry>, Fault> {
    list_page(store.records.as_ref(), Index::Tenant, &index::ledger(tenant), after, true, limit, |_| true)
        .await
}
