//! The store of budgets: a job's, and a tenant's in a month.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use super::expense::{Expenses, Reservation, Verdict, Wanted, decide};
use crate::{
    events::Store,
    ids::{JobId, TenantId},
    keys::record,
    money::MicroUsd,
    notices::{self, NewNotice},
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
    },
    records::{Versioned, decode, encode},
    time::after,
};

/// A reservation lasts this much longer than its call may take.
const MARGIN: Duration = Duration::from_secs(60);
/// The record of a budget is kept for this long after its last use.
const KEPT: Duration = Duration::from_secs(62 * 24 * 60 * 60);
/// Conditional writes that others may win, before a pause.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// The budgets that a page's calls are paid from; empty if nothing is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets(Vec<Budget>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Budget {
    key: Key,
    limit: MicroUsd,
    tenant: TenantId,
    /// Its name in a notice.
    name: String,
}

/// A granted reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    id: String,
    keys: Vec<Key>,
    pub amount: MicroUsd,
}

/// Whether money was reserved for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveOutcome {
    Granted(Granted),
    Busy(Timestamp),
    UsedUp { limit: MicroUsd },
}

impl Budget {
    fn notice(&self) -> NewNotice {
        let detail = format!(
            "{:.2} USD are spent or reserved: further pages keep their own text.\nA higher budget counts from then on: BUDGET_USD for a job, TENANT_BUDGET_USD for a tenant's month.",
            self.limit.usd()
        );
        NewNotice::budget_used_up(&self.tenant, &self.name, detail)
    }
}

impl Budgets {
    pub fn new(
        job: (&JobId, Option<MicroUsd>),
        tenant: (&TenantId, Option<MicroUsd>),
        now: Timestamp,
    ) -> Self {
        let budget = |key, limit, name| Budget { key, limit, tenant: tenant.0.clone(), name };
        let of_job =
            job.1.map(|limit| budget(record::job_expenses(job.0), limit, format!("of job {}", job.0)));
        let month = now.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string();
        let of_tenant = tenant
            .1
            .map(|limit| budget(record::tenant_expenses(tenant.0, &month), limit, format!("of {month}")));
        Self(of_job.into_iter().chain(of_tenant).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reserves money for a call that takes at most `call`, in all budgets or in none.
pub async fn reserve(
    store: &Store,
    budgets: &Budgets,
    wanted: Wanted,
    call: Duration,
) -> Result<ReserveOutcome, Fault> {
    let id = store.ids.fresh();
    let keys = || budgets.0.iter().map(|budget| budget.key.clone()).collect::<Vec<Key>>();
    let mut tries = 0;
    loop {
        let now = store.clock.now();
        let mut found = read(store, &keys()).await?;
        found.iter_mut().for_each(|expenses| expenses.value.expire(now));
        let limits = budgets.0.iter().map(|budget| budget.limit);
        let views: Vec<(MicroUsd, &Expenses)> =
            limits.zip(found.iter().map(|expenses| &expenses.value)).collect();
        let amount = match decide(&views, wanted) {
            Verdict::Granted(amount) => amount,
            Verdict::Busy(until) => return Ok(ReserveOutcome::Busy(until)),
            Verdict::UsedUp { budget } => {
                let used_up = &budgets.0[budget];
                let is_known = std::mem::replace(&mut found[budget].value.is_notified, true);
                let notice = notices::change(store, &used_up.notice())?;
                if is_known || write(store, &keys(), found, now, vec![notice]).await? {
                    return Ok(ReserveOutcome::UsedUp { limit: used_up.limit });
                }
                pause(store, &mut tries).await;
                continue;
            }
        };
        let until = after(now, call.saturating_add(MARGIN));
        for expenses in &mut found {
            expenses.value.reserve(Reservation { id: id.clone(), amount, until });
        }
        if write(store, &keys(), found, now, vec![]).await? {
            return Ok(ReserveOutcome::Granted(Granted { id, keys: keys(), amount }));
        }
        pause(store, &mut tries).await;
    }
}

/// Ends a reservation with what the call cost.
pub async fn settle(store: &Store, granted: &Granted, cost: MicroUsd) -> Result<(), Fault> {
    let mut tries = 0;
    loop {
        let now = store.clock.now();
        let mut found = read(store, &granted.keys).await?;
        let before = found.clone();
        found.iter_mut().for_each(|expenses| expenses.value.settle(&granted.id, cost));
        if found == before || write(store, &granted.keys, found, now, vec![]).await? {
            return Ok(());
        }
        pause(store, &mut tries).await;
    }
}

async fn read(store: &Store, keys: &[Key]) -> Result<Vec<Versioned<Expenses>>, Fault> {
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let record = store.records.get(key).await?;
        found.push(record.as_ref().map(decode).transpose()?.unwrap_or_default());
    }
    Ok(found)
}

/// Writes the records, together with `changes`; false if another worker has written one of them meanwhile.
async fn write(
    store: &Store,
    keys: &[Key],
    expenses: Vec<Versioned<Expenses>>,
    now: Timestamp,
    mut changes: Vec<Change>,
) -> Result<bool, Fault> {
    for (key, Versioned { value, version }) in keys.iter().zip(expenses) {
        let mut draft = Draft::new(key.clone(), encode(&value)?);
        draft.expires = Some(after(now, KEPT));
        let when = if version == 0 { When::Absent } else { When::Version(version) };
        changes.push(Change::Put { draft, when });
    }
    Ok(store.write(changes).await? == Written::Applied)
}

async fn pause(store: &Store, tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(TRIES) {
        let jitter = store.ids.random_below(1000) as f64 / 1000.0;
        store.clock.sleep(PAUSE.mul_f64(0.5 + jitter)).await;
    }
}
