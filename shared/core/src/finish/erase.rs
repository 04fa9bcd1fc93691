//! Erases a tenant: starts erasures, and what their steps do. They run as [`crate::sagas`] do.
//!
//! A step deletes what it finds and may run again at any time. A request that was on its way when the tenant was
//! closed may still write, and indexes may lag behind: so the steps that read an index end only after the longest
//! time that both take, and the last step looks once more.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use tracing::info;

use crate::{
    billing::{
        account::{AccountEvent, Cause},
        accounts::{self, AccountError},
        purchases,
    },
    dead_letters,
    dead_letters::purge,
    erasures::{
        self,
        erasure::{Erasure, Step},
    },
    event::{self, Aggregate},
    events::{Store, trail},
    finish::delete::delete,
    ids::{ErasureId, TenantId},
    intake::uploads,
    job::{Interrupts, Job, StepCode, StepError, cancel::cancel, jobs},
    keys::record,
    money::MicroUsd,
    notify::webhooks,
    ports::{
        Fault,
        blobs::Blobs,
        clock::Clock,
        flow::Flow,
        records::{Change, Key},
    },
    records::Versioned,
    sagas::{
        decide::{Decision, StepFailure},
        progress::{Progress, SagaEvent, State},
        run::{AdvanceError, Ran, Saga},
    },
    settings::Settings,
    tenants::{
        administration::{self, AdministrationEvent},
        api_keys,
    },
    time::{after, until},
};

/// How far an index may lag behind, and how far the clocks of two processes may differ.
const INDEX_LAG: Duration = Duration::from_secs(10);
/// The longest time of one call to the store.
const MAX_CALL: Duration = Duration::from_secs(10);
/// A step that takes longer continues in its next run.
const BUDGET: Duration = Duration::from_secs(30);
/// Jobs that are deleted concurrently.
const CONCURRENT_DELETIONS: usize = 4;
/// Items that are listed in one request.
const BATCH_SIZE: usize = 100;
/// Deletions of records with text, in one transaction.
const RECORDS_PER_WRITE: usize = 25;

/// The ports and settings that erasures use.
#[derive(Clone)]
pub struct Eraser {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub flow: Arc<dyn Flow>,
    pub settings: Arc<Settings>,
    pub interrupts: Interrupts,
}

impl Eraser {
    /// How long it takes until every index lists all that is written for the tenant: by a request that found it open,
    /// in its last try to write.
    fn time_until_listed(&self, erasure: &Erasure) -> Duration {
        let pauses = &self.settings.retry_intervals;
        let calls = u32::try_from(pauses.len() + 1).unwrap_or(u32::MAX);
        let longest = pauses.iter().sum::<Duration>() + MAX_CALL.saturating_mul(calls) + INDEX_LAG;
        until(self.store.clock.now(), after(erasure.progress.started_at, longest))
    }
}

/// Closes the tenant and stores its erasure; from then on it always comes to an end, whichever process runs
/// its steps. Returns the erasure and whether it existed before. One that waits for an operator is resumed.
pub async fn start(store: &Store, tenant: &TenantId, by: &str) -> Result<(Erasure, bool), Fault> {
    loop {
        let administration = administration::load(store, tenant).await?;
        let Some(id) = &administration.value.erasure else {
            let id = ErasureId::new(store.ids.fresh());
            let close = administration::close(tenant, &administration, &id)?;
            let closing = (close, administration.value.head.sequence);
            match erasures::create(store, &id, tenant, by, closing).await? {
                Some(created) => return Ok((created.value, false)),
                // Another act of administration came in between.
                None => continue,
            }
        };
        let missing = || Fault::broken("erasure", format!("the record of erasure {id} is missing"));
        let found = erasures::find(store, id).await?.ok_or_else(missing)?;
        if found.value.progress.state != State::Manual {
            return Ok((found.value, true));
        }
        let resumed = found.value.progress.decide(by, Decision::Resume);
        let resumed = resumed.map_err(|error| Fault::broken("erasure", error))?;
        if let Some(resumed) = erasures::advance(store, &found, vec![resumed], vec![]).await? {
            return Ok((resumed.value, true));
        }
    }
}

#[async_trait]
impl Saga for Eraser {
    type Step = Step;
    type Id = ErasureId;
    type Record = Erasure;
    type Effect = Vec<Change>;

    fn clock(&self) -> &dyn Clock {
        self.store.clock.as_ref()
    }

    fn pauses(&self) -> &[Duration] {
        &self.settings.retry_intervals
    }

    fn can_run(&self) -> bool {
        true
    }

    fn id(erasure: &Erasure) -> &ErasureId {
        &erasure.id
    }

    fn tenant(erasure: &Erasure) -> &TenantId {
        &erasure.tenant
    }

    fn progress(erasure: &Erasure) -> &Progress<Step> {
        &erasure.progress
    }

    async fn find(&self, id: &ErasureId) -> Result<Option<Versioned<Erasure>>, Fault> {
        erasures::find(&self.store, id).await
    }

    async fn list_active(&self, limit: usize) -> Result<Vec<Versioned<Erasure>>, Fault> {
        erasures::list_active(&self.store, limit).await
    }

    async fn advance(
        &self,
        before: &Versioned<Erasure>,
        events: Vec<SagaEvent<Step>>,
        effect: Vec<Change>,
    ) -> Result<Option<Versioned<Erasure>>, AdvanceError> {
        let advanced = erasures::advance(&self.store, before, events, effect).await?;
        if let Some(Versioned { value: done, .. }) = &advanced
            && done.progress.state == State::Completed
        {
            info!(erasure = %done.id, tenant = %done.tenant, "tenant erased");
        }
        Ok(advanced)
    }

    async fn run(&self, erasure: &Erasure, step: Step) -> Result<Ran<Vec<Change>>, StepFailure> {
        let (store, tenant) = (&self.store, &erasure.tenant);
        match step {
            Step::Keys => api_keys::erase(store, tenant, &erasure.by).await?,
            Step::Webhooks => delete_webhooks(store, tenant, &erasure.by).await?,
            Step::Jobs => return delete_jobs(self, erasure).await,
            Step::Uploads => {
                let rest = self.time_until_listed(erasure);
                if delete_uploads(self, tenant).await? > 0 || rest > Duration::ZERO {
                    return Ok(Ran::Partly(vec![], rest.max(INDEX_LAG)));
                }
            }
            Step::Notices => {
                delete_partition(store, &record::notices_partition(tenant), |_| true).await?;
                purge_dead_letters(store, tenant, &erasure.by).await?;
            }
            Step::Account => close_account(store, erasure).await?,
            Step::Settings => {
                let is_kept = |key: &Key| {
                    *key == record::administration(tenant) || key.sort.starts_with(record::EVENTS)
                };
                delete_partition(store, &record::tenant_partition(tenant), |key| !is_kept(key)).await?;
            }
            Step::Record => return record_erasure(self, erasure).await,
        }
        Ok(Ran::Done(vec![]))
    }

    async fn undo(&self, _: &Erasure, step: Step) -> Result<Vec<Change>, String> {
        Err(format!("step {step:?} of an erasure can't be undone"))
    }
}

/// Deletes the items of a partition for which `unwanted` is true.
async fn delete_partition(
    store: &Store,
    partition: &str,
    unwanted: impl Fn(&Key) -> bool + Send + Sync,
) -> Result<(), Fault> {
    let mut position: Option<String> = None;
    loop {
        let listing = store.records.list(partition, "", position.as_deref(), RECORDS_PER_WRITE).await?;
        let found = listing.items.into_iter().filter(|item| unwanted(&item.draft.key));
        let changes: Vec<_> =
            found.map(|item| Change::Delete { key: item.draft.key, version: item.version }).collect();
        if !changes.is_empty() {
            // Refused when one of them was just written: then this batch is read again.
            store.write(changes).await?;
            continue;
        }
        match listing.next {
            Some(next) => position = Some(next),
            None => return Ok(()),
        }
    }
}

async fn delete_webhooks(store: &Store, tenant: &TenantId, by: &str) -> Result<(), StepFailure> {
    // Those that it had as well: a removal that was interrupted is completed by the id, which the trail has.
    let mut ids = BTreeSet::from([webhooks::DEFAULT.to_owned()]);
    ids.extend(webhooks::list(store, tenant).await?.into_iter().map(|webhook| webhook.id));
    for event in trail::read(store, &Aggregate::Tenant(tenant.clone())).await? {
        if let Ok(AdministrationEvent::WebhookChanged { webhook: Some(id), .. }) = event::decode(&event) {
            ids.insert(id);
        }
    }
    for id in &ids {
        let removed = webhooks::remove(store, tenant, id, by).await;
        removed.map_err(|error| StepFailure::Unknown(error.to_string()))?;
    }
    let mut position = None;
    loop {
        let (waiting, next) = webhooks::list_waiting(store, position, BATCH_SIZE).await?;
        for delivery in waiting.iter().filter(|delivery| delivery.value.tenant == *tenant) {
            webhooks::delete(store, &delivery.value.id).await?;
        }
        match next {
            Some(next) => position = Some(next),
            None => return Ok(()),
        }
    }
}

/// What became of the jobs that the index lists.
#[derive(Default)]
struct Pass {
    deleted: usize,
    /// Jobs that have not ended: they are cancelled.
    open: usize,
    /// Not all of them were looked at.
    is_partial: bool,
}

async fn delete_jobs(eraser: &Eraser, erasure: &Erasure) -> Result<Ran<Vec<Change>>, StepFailure> {
    let rest = eraser.time_until_listed(erasure);
    let pass = pass_over_jobs(eraser, erasure).await?;
    if pass.is_partial {
        return Ok(Ran::Partly(vec![], Duration::ZERO));
    }
    if pass.open > 0 {
        return Err(StepFailure::NotReached(format!("jobs that have not ended: {}", pass.open)));
    }
    if pass.deleted > 0 || rest > Duration::ZERO {
        return Ok(Ran::Partly(vec![], rest.max(INDEX_LAG)));
    }
    Ok(Ran::Done(vec![]))
}

/// Cancels every open job of the tenant and deletes the others, for up to [`BUDGET`].
async fn pass_over_jobs(eraser: &Eraser, erasure: &Erasure) -> Result<Pass, Fault> {
    let store = &eraser.store;
    let end = after(store.clock.now(), BUDGET);
    let mut pass = Pass::default();
    let mut position = None;
    loop {
        let page = jobs::list_page(store, &erasure.tenant, position, BATCH_SIZE, |_: &Job| true).await?;
        let deletions = page.items.iter().map(|listed| async move {
            match store.clock.now() >= end {
                true => Ok(None),
                false => delete_job(eraser, erasure, listed).await.map(Some),
            }
        });
        let deletions: Vec<_> = deletions.collect();
        let mut deletions = stream::iter(deletions).buffer_unordered(CONCURRENT_DELETIONS);
        while let Some(deleted) = deletions.next().await {
            match deleted? {
                None => pass.is_partial = true,
                // The index lists it, and it is deleted already.
                Some(None) => {}
                Some(Some(true)) => pass.deleted += 1,
                Some(Some(false)) => pass.open += 1,
            }
        }
        if pass.is_partial {
            return Ok(pass);
        }
        match page.next {
            Some(next) => position = Some(next),
            None => return Ok(pass),
        }
    }
}

/// Whether the job could be deleted; `None` if there is no such job any more.
async fn delete_job(eraser: &Eraser, erasure: &Erasure, listed: &Job) -> Result<Option<bool>, Fault> {
    let (store, id, by) = (&eraser.store, &listed.id, erasure.by.as_str());
    let Some(job) = jobs::find(store, id).await? else { return Ok(None) };
    if !job.value.state.is_terminal() {
        let cancelled = cancel(store, eraser.flow.as_ref(), &eraser.interrupts, id, by).await;
        let ended = cancelled.map_err(|error| match StepError::from(error) {
            StepError::Fault(fault) => fault,
            error => Fault::broken("job", error),
        })?;
        if !ended.state.is_terminal() {
            return Ok(Some(false));
        }
    }
    match delete(store, eraser.blobs.as_ref(), id, by).await {
        Ok(()) => Ok(Some(true)),
        Err(StepError::Fault(fault)) => Err(fault),
        // Another process deleted it, or redrove it.
        Err(StepError::Broken { code: StepCode::UnknownJob, .. }) => Ok(None),
        Err(StepError::Broken { code: StepCode::JobIsOpen, .. }) => Ok(Some(false)),
        Err(error) => Err(Fault::broken("job", error)),
    }
}

/// Deletes uploads that have not become jobs, and the memory of requests; returns how many uploads the index listed
/// that were not deleted before.
async fn delete_uploads(eraser: &Eraser, tenant: &TenantId) -> Result<usize, Fault> {
    let store = &eraser.store;
    let (mut discarded, mut position) = (0, None);
    loop {
        let page = uploads::list_page(store, tenant, position, BATCH_SIZE, |_| true).await?;
        for upload in &page.items {
            discarded += usize::from(uploads::discard(store, &upload.id).await?);
        }
        position = page.next;
        if position.is_none() {
            break;
        }
    }
    eraser.blobs.delete_all(&format!("{}{tenant}/", uploads::INCOMING)).await?;
    delete_partition(store, &record::idempotency_partition(tenant), |_| true).await?;
    Ok(discarded)
}

async fn purge_dead_letters(store: &Store, tenant: &TenantId, by: &str) -> Result<(), StepFailure> {
    let mut position = None;
    loop {
        let page = dead_letters::list_page(store, tenant, position, BATCH_SIZE).await?;
        for listed in &page.items {
            let found = dead_letters::find(store, &listed.id).await?;
            if found.is_some_and(|found| found.value.is_waiting()) {
                purge(store, &listed.id, by)
                    .await
                    .map_err(|error| StepFailure::Unknown(error.to_string()))?;
            }
        }
        match page.next {
            Some(next) => position = Some(next),
            None => return Ok(()),
        }
    }
}

/// Takes the credits off the balance and deletes payment methods. The account, its ledger and its trail stay:
/// the same tenant continues them.
async fn close_account(store: &Store, erasure: &Erasure) -> Result<(), StepFailure> {
    let (tenant, by) = (&erasure.tenant, erasure.by.as_str());
    let mut position = None;
    loop {
        let page = purchases::list_page(store, tenant, position, BATCH_SIZE).await?;
        for listed in page.items {
            let Some(found) = purchases::find(store, &listed.id).await? else { continue };
            let state = found.value.progress.state;
            if state.is_active() || state == State::Manual {
                let reason = format!("purchase {} is {}", listed.id, state.name());
                return Err(StepFailure::NotReached(reason));
            }
            let method = record::payment_method(&listed.id);
            delete_partition(store, &method.partition, |key| *key == method).await?;
        }
        match page.next {
            Some(next) => position = Some(next),
            None => break,
        }
    }
    let account = accounts::load(store, tenant).await?.value;
    if account.balance == 0 {
        return Ok(());
    }
    let cause = Cause::Operator { by: by.to_owned(), note: "the tenant is erased".to_owned() };
    let event = AccountEvent::Deducted { credits: account.balance, cause };
    match accounts::change(store, tenant, by, &event).await {
        Ok(_) => Ok(()),
        Err(AccountError::Refused(refused)) => Err(StepFailure::NotReached(refused.to_string())),
        Err(AccountError::Fault(fault)) => Err(fault.into()),
    }
}

/// Looks once more for what came in while the tenant was being closed; if there is nothing, the erasure is
/// recorded in the tenant's trail, and the tenant is open again.
async fn record_erasure(eraser: &Eraser, erasure: &Erasure) -> Result<Ran<Vec<Change>>, StepFailure> {
    let (store, tenant, by) = (&eraser.store, &erasure.tenant, erasure.by.as_str());
    let pass = pass_over_jobs(eraser, erasure).await?;
    if pass.open > 0 {
        return Err(StepFailure::NotReached(format!("jobs that have not ended: {}", pass.open)));
    }
    if pass.deleted > 0 || pass.is_partial {
        return Ok(Ran::Partly(vec![], INDEX_LAG));
    }
    delete_webhooks(store, tenant, by).await?;
    if delete_uploads(eraser, tenant).await? > 0 {
        return Ok(Ran::Partly(vec![], INDEX_LAG));
    }
    delete_partition(store, &record::notices_partition(tenant), |_| true).await?;
    close_account(store, erasure).await?;
    // The trail has each deleted job, so that each is counted once.
    let (mut jobs, mut pages, mut cost_micro_usd) = (0, 0, MicroUsd::default());
    for event in trail::read(store, &Aggregate::Tenant(tenant.clone())).await? {
        if event.sequence <= erasure.acts_before {
            continue;
        }
        if let Ok(AdministrationEvent::JobDeleted { pages: of_job, cost_micro_usd: cost, .. }) =
            event::decode(&event)
        {
            (jobs, pages) = (jobs + 1, pages + u64::from(of_job));
            cost_micro_usd += cost;
        }
    }
    let erased =
        AdministrationEvent::TenantErased { erasure: erasure.id.clone(), jobs, pages, cost_micro_usd };
    Ok(Ran::Done(administration::open(store, tenant, by, erased).await?))
}
