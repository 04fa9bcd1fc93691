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
    records::{BATCH_SIZE, ListPage, Versioned, decode, encode, list_page, read_all},
    settings::Credits,
    tenants::{self, Tenants},
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
    let mut found = found.unwrap_or_else(|| Versioned { value: Account::new(tenant.clone()), version: 0 });
    add_figures(store, &mut found.value).await?;
    Ok(found)
}

/// Reads the figures of an account of version 0.1 from its trail. The account's next change stores them. A trail
/// that can't be replayed leaves it without: `account verify` says why.
async fn add_figures(store: &Store, account: &mut Account) -> Result<(), Fault> {
    if account.figures.is_none() {
        let mut events = trail::read(store, &Aggregate::Account(account.tenant.clone())).await?;
        events.truncate(account.head.sequence as usize);
        account.figures =
            Account::replay(&account.tenant, &events).ok().and_then(|replayed| replayed.figures);
    }
    Ok(())
}

/// The accounts of all tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllAccounts {
    pub accounts: Vec<Account>,
    /// The tenants whose record is damaged, each with the reason.
    pub damaged: Vec<(TenantId, String)>,
}

/// Lists every account that has events, by tenant.
pub async fn all(store: &Store) -> Result<AllAccounts, Fault> {
    let (mut all, mut after) = (AllAccounts::default(), None);
    loop {
        let listing = store
            .records
            .list_index(Index::State, index::ACCOUNTS, after.as_deref(), false, BATCH_SIZE)
            .await?;
        for item in &listing.items {
            match decode::<Account>(item) {
                Ok(Versioned { value: mut account, .. }) => {
                    add_figures(store, &mut account).await?;
                    all.accounts.push(account);
                }
                Err(fault) => {
                    let tenant = item.draft.state_index.as_ref().map_or("", |entry| entry.sort.as_str());
                    all.damaged.push((TenantId::new(tenant), fault.to_string()));
                }
            }
        }
        after = listing.next;
        if after.is_none() {
            return Ok(all);
        }
    }
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
        let next = account.apply(event)?;
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
        let next = next.recorded(head, at);
        lines.extend(LedgerEntry::of(&account, &next, event, at));
        account = next;
    }
    for line in lines {
        changes.push(put_line(&account.tenant, &line, When::Absent)?);
    }
    changes.push(put(&account, before.version)?);
    Ok((account, changes))
}

/// The write of a line of the ledger.
pub(super) fn put_line(tenant: &TenantId, line: &LedgerEntry, when: When) -> Result<Change, Fault> {
    let listed = IndexEntry::new(index::ledger(tenant), format!("{:010}", line.sequence));
    let key = record::ledger_entry(tenant, line.sequence);
    let draft = Draft { tenant_index: Some(listed), ..Draft::new(key, encode(line)?) };
    Ok(Change::Put { draft, when })
}

/// The write of an account's record, whose stored version is `version`; 0 if there is none.
pub(super) fn put(account: &Account, version: u64) -> Result<Change, Fault> {
    let when = if version == 0 { When::Absent } else { When::Version(version) };
    let draft = Draft {
        state_index: Some(IndexEntry::new(index::ACCOUNTS, account.tenant.as_str())),
        ..Draft::new(record::account(&account.tenant), encode(account)?)
    };
    Ok(Change::Put { draft, when })
}

/// Grants a tenant its welcome credits with the first use of its account: it is read, credits are granted or
/// bought, a plan is approved, or a key is created. Does nothing for tenants that need no credits.
pub async fn welcome(store: &Store, tenants: &Tenants, tenant: &TenantId) -> Result<(), Fault> {
    if tenants.settings.welcome_credits == 0 {
        return Ok(());
    }
    let settings = tenants::settings(tenants, tenant).await?;
    if settings.credits == Credits::Unlimited {
        return Ok(());
    }
    let credits = settings.welcome_credits;
    let mut is_new = false;
    loop {
        let before = load(store, tenant).await?;
        // An account that was used before there were welcome credits is no new one.
        is_new |= before.version == 0;
        if !is_new || before.value.is_welcomed {
            return Ok(());
        }
        let origin = Origin {
            metadata: Metadata::untraced(tenant.clone(), None, Actor::Operator, &store.environment),
            correlation: CorrelationId::new(store.ids.fresh()),
        };
        let event = AccountEvent::Added { credits, cause: Cause::Welcome {} };
        match transition(store, &origin, &before, &[event]) {
            Ok((_, changes)) => match store.write(changes).await? {
                Written::Applied => return Ok(()),
                // Another process used the account in between.
                Written::Refused { .. } => {}
            },
            Err(AccountError::Fault(fault)) => return Err(fault),
            Err(AccountError::Refused(refused)) => return Err(Fault::broken("account", refused)),
        }
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
