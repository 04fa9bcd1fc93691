//! Accounts and their ledgers: changed by events, each with its line, in one write.

use super::{Kept, decode, encode, read_all, read_index, trail};
use crate::{
    app::App,
    domain::{
        account::{Account, AccountEvent, Cause, LedgerEntry, Refused},
        event::{Aggregate, Metadata},
        ids::{CorrelationId, EventId, JobId, TenantId},
        job::{Job, JobEvent, State},
    },
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
};

/// Where every account is listed.
const ALL: &str = "accounts";
const LEDGER: &str = "ledger#";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Fault(#[from] Fault),
}

fn partition(tenant: &TenantId) -> String {
    format!("account#{tenant}")
}

fn key(tenant: &TenantId) -> Key {
    Key::new(partition(tenant), "account")
}

/// A tenant's account; one that nothing happened to yet is empty, with version 0.
pub async fn load(app: &App, tenant: &TenantId) -> Result<Kept<Account>, Fault> {
    let found = app.records.get(&key(tenant)).await?.as_ref().map(decode).transpose()?;
    Ok(found.unwrap_or_else(|| Kept { value: Account::new(tenant.clone()), version: 0 }))
}

/// Every account that something happened to, by tenant.
pub async fn all(app: &App) -> Result<Vec<Account>, Fault> {
    let all = read_index(app, Index::State, ALL, None, usize::MAX, |_: &Account| true).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// Who changes an account, and what else that belongs to.
pub struct Origin {
    pub metadata: Metadata,
    pub correlation: CorrelationId,
}

/// The account after `events`, and the writes that make it so: the record, its events, and a line of
/// the ledger for each that moved the balance.
pub fn moves(
    app: &App,
    origin: &Origin,
    before: &Kept<Account>,
    events: &[AccountEvent],
) -> Result<(Account, Vec<Change>), AccountError> {
    let mut account = before.value.clone();
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    for event in events {
        let mut next = account.apply(event)?;
        let at = account.head.next_time(app.clock.now());
        let (id, aggregate) = (EventId::new(app.ids.fresh()), Aggregate::Account(account.tenant.clone()));
        let (stored, head) = account.head.append(
            aggregate,
            id,
            event,
            at,
            origin.correlation.clone(),
            origin.metadata.clone(),
        );
        changes.push(trail::append(app, &stored)?);
        next.head = head;
        lines.extend(LedgerEntry::of(&account, &next, event, at));
        account = next;
    }
    for line in lines {
        let key = Key::new(partition(&account.tenant), format!("{LEDGER}{:010}", line.sequence));
        let listed = IndexEntry::new(ledger_of(&account.tenant), format!("{:010}", line.sequence));
        let draft = Draft { tenant_index: Some(listed), ..Draft::new(key, encode(&line)?) };
        changes.push(Change::Put { draft, when: When::Absent });
    }
    let when = if before.version == 0 { When::Absent } else { When::Version(before.version) };
    let draft = Draft {
        state_index: Some(IndexEntry::new(ALL, account.tenant.as_str())),
        ..Draft::new(key(&account.tenant), encode(&account)?)
    };
    changes.push(Change::Put { draft, when });
    Ok((account, changes))
}

/// Makes one change that an operator asks for.
pub async fn change(
    app: &App,
    tenant: &TenantId,
    by: &str,
    event: &AccountEvent,
) -> Result<Account, AccountError> {
    let environment = &app.settings.environment;
    let origin = Origin {
        metadata: Metadata::untraced(tenant.clone(), Some(by.to_owned()), "operator", environment),
        correlation: CorrelationId::new(app.ids.fresh()),
    };
    loop {
        let before = load(app, tenant).await?;
        let (account, changes) = moves(app, &origin, &before, std::slice::from_ref(event))?;
        if app.write(changes).await? == Written::Applied {
            return Ok(account);
        }
    }
}

/// Where a tenant's ledger is listed by number.
pub(super) fn ledger_of(tenant: &TenantId) -> String {
    format!("{LEDGER}{tenant}")
}

/// A tenant's whole ledger, oldest first, strongly consistent.
pub async fn ledger(app: &App, tenant: &TenantId) -> Result<Vec<LedgerEntry>, Fault> {
    let all = read_all(app, &partition(tenant), LEDGER).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// What a job's move means for its tenant's account: written with it or not at all, so that a job
/// holds, pays and gives back exactly once.
pub(super) async fn follow(
    app: &App,
    source: &str,
    before: &Job,
    after: &Job,
    events: &[JobEvent],
) -> Result<(Vec<AccountEvent>, Vec<Change>), AccountError> {
    let tenant = &before.received.tenant;
    let consequence = match Consequence::of(before, after, events) {
        None => return Ok(Default::default()),
        Some(Consequence::Pay { .. }) if !before.is_prepaid() => return Ok(Default::default()),
        Some(consequence) => consequence,
    };
    let account = load(app, tenant).await?;
    let moved = consequence.events(&account.value, &after.id);
    if moved.is_empty() {
        return Ok(Default::default());
    }
    let metadata = after.metadata(source, &app.settings.environment);
    let origin = Origin { metadata, correlation: before.correlation_id.clone() };
    let (_, changes) = moves(app, &origin, &account, &moved)?;
    Ok((moved, changes))
}

enum Consequence {
    /// It was approved.
    Hold { credits: u64 },
    /// It has ended, and gives back what it did not use.
    End { used: u64, rest: u64 },
    /// Pages were read after its end: they are paid with the version that has them.
    Pay { credits: u64 },
}

impl Consequence {
    fn of(before: &Job, after: &Job, events: &[JobEvent]) -> Option<Self> {
        let (held, holds) = (u64::from(before.reserved_credits), u64::from(after.reserved_credits));
        if holds > held {
            return Some(Self::Hold { credits: holds - held });
        }
        // Rejected, cancelled and failed jobs use none.
        let used = events.iter().find_map(|event| match event {
            JobEvent::Audited { credits, .. } => Some(u64::from(*credits)),
            _ => None,
        });
        let used = used.unwrap_or(0);
        if held > holds {
            let used = used.min(held);
            return Some(Self::End { used, rest: held - used });
        }
        // Approved by its deadline it held nothing; what was healed since is paid all the same.
        if used > 0 {
            return Some(Self::Pay { credits: used });
        }
        // One that is healed before its audit pays there.
        let is_healed = events.iter().any(|event| matches!(event, JobEvent::Healed { .. }));
        let credits = |job: &Job| job.result.as_ref().map_or(0, |result| u64::from(result.metadata.credits));
        let more = credits(after).saturating_sub(credits(before));
        (is_healed && before.state == State::Audited && more > 0).then_some(Self::Pay { credits: more })
    }

    fn events(&self, account: &Account, job: &JobId) -> Vec<AccountEvent> {
        let cause = || Cause::Job { job: job.clone() };
        let hold = |credits| AccountEvent::Reserved { credits, cause: cause() };
        let settle = |credits| AccountEvent::Settled { credits, job: job.clone() };
        let release = |credits| AccountEvent::Released { credits, cause: cause() };
        let events = match *self {
            Self::Hold { credits } => vec![hold(credits)],
            Self::End { used, rest } => vec![settle(used), release(rest)],
            // A page can't be unread: what the account does not have for it is not charged. Whoever
            // sends pages to be healed looks first, so that this is a matter of races.
            Self::Pay { credits } => {
                let credits = credits.min(account.available());
                vec![hold(credits), settle(credits)]
            }
        };
        events.into_iter().filter(|event| event.credits() > 0).collect()
    }
}
