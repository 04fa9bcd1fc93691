//! Observes everything that is stored, called and published in a run, and reports broken invariants.

use everypage_core::keys::record;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    event::Event,
    ids::JobId,
    job::{Halt, Job, State, invariants as job_invariants},
    ports::{
        Fault,
        bus::Bus,
        clock::Clock,
        records::{Batch, Change, Draft, Index, Item, Key, Listing, Records, Written},
    },
    providers::target::Target,
    read::{
        breaker::{self, Breaker},
        breakers::Guarded,
        invariants as read_invariants,
        pages::Page,
    },
    settings::BreakerPolicy,
};
use everypage_testkit::{clock::VirtualClock, memory::MemoryRecords};
use serde_json::Value;

use crate::faults::time;

/// Processes cache breakers for a second, and writing one takes a moment.
const BREAKER_CACHE_TIME: Duration = Duration::from_millis(1100);

const MAX_PUBLISH_DELAY: Duration = Duration::from_secs(1);

pub struct Observer {
    pub clock: Arc<VirtualClock>,
    records: Arc<MemoryRecords>,
    start: jiff::Timestamp,
    /// The maximum difference between two clocks.
    max_clock_difference: Duration,
    breaker: BreakerPolicy,
    max_in_flight: usize,
    /// The minimum cooldown of a failed model, if no fault keeps its breaker from recording failures.
    cooldown: Option<Duration>,
    /// Whether no fault keeps a worker from storing an answer.
    writes_succeed: bool,
    keep_log: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub struct Seen {
    pub log: Vec<String>,
    pub broken: Vec<String>,
    /// The document of each job.
    pub documents: BTreeMap<JobId, usize>,
    /// Pages, by document and number, whose AI text is stored.
    pub read: BTreeSet<(usize, u32)>,
    /// Pages for which a worker received an answer, stored or not.
    answered: BTreeSet<(usize, u32)>,
    /// When each version of a job's result was published.
    pub published: BTreeMap<JobId, Vec<Duration>>,
    /// Each run of a job, by its number of redrives.
    pub job_runs: BTreeMap<(JobId, u32), JobRun>,
    pub events: Vec<Event>,
    in_flight: BTreeMap<Target, usize>,
    /// When each model failed last.
    failed: BTreeMap<Target, Duration>,
    /// Each stored breaker, and when it opened last.
    breakers: BTreeMap<String, (Breaker, Duration)>,
    /// Number of calls while a breaker was half open, by its name and generation.
    probes: BTreeMap<(String, u64), usize>,
    pub calls: usize,
    /// How often each kind of fault occurred.
    pub fault_counts: BTreeMap<String, usize>,
}

/// One run of a job, from its start or redrive to its end.
#[derive(Clone, Debug)]
pub struct JobRun {
    pub from: Duration,
    pub deadline: jiff::Timestamp,
    /// When it was cancelled.
    pub cancelled: Option<Duration>,
    /// When its result or its failure was stored.
    pub ended: Option<(State, Duration)>,
    /// When it reached a terminal state.
    pub closed: Option<Duration>,
}

impl Observer {
    pub fn new(
        clock: Arc<VirtualClock>,
        records: Arc<MemoryRecords>,
        max_clock_difference: Duration,
        breaker: BreakerPolicy,
        max_in_flight: usize,
        cooldown: Option<Duration>,
        writes_succeed: bool,
        keep_log: bool,
    ) -> Self {
        let start = clock.now();
        Self {
            clock,
            records,
            start,
            max_clock_difference,
            breaker,
            max_in_flight,
            cooldown,
            writes_succeed,
            keep_log,
            seen: Mutex::default(),
        }
    }

    /// Virtual time since the start of the run.
    pub fn now(&self) -> Duration {
        self.since(self.clock.now())
    }

    pub fn since(&self, at: jiff::Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.start)).unwrap_or_default()
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a line to the log, if it is kept.
    pub fn log(&self, line: impl FnOnce() -> String) {
        if self.keep_log {
            let line = format!("{:>8}  {}", time(self.now()), line());
            self.seen().log.push(line);
        }
    }

    /// Counts a planned fault that occurred.
    pub fn count_fault(&self, what: &str) {
        *self.seen().fault_counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Reports a broken invariant.
    pub fn check(&self, what: &str, result: Result<(), String>) {
        if let Err(broken) = result {
            self.log(|| format!("BROKEN: {what}: {broken}"));
            self.seen().broken.push(format!("{what}: {broken} (at {})", time(self.now())));
        }
    }

    /// A model call starts; it ends when the returned guard is dropped.
    pub fn called(self: &Arc<Self>, target: &Target, document: usize, page: u32) -> CallInProgress {
        self.log(|| format!("{target} is called for page {page} of document {document}"));
        let (in_flight, paid) = {
            let mut seen = self.seen();
            seen.calls += 1;
            let count = seen.in_flight.entry(target.clone()).or_default();
            *count += 1;
            let count = *count;
            // After a failed job its document may be submitted again.
            let jobs = seen.documents.values().filter(|of| **of == document).count();
            let stored = seen.read.contains(&(document, page));
            let lost = self.writes_succeed && seen.answered.contains(&(document, page));
            (count, jobs == 1 && (stored || lost))
        };
        self.check(&target.to_string(), read_invariants::fits(in_flight, self.max_in_flight));
        let what = format!("page {page} of document {document}");
        self.check(&what, if paid { Err("paid for again after it was read".into()) } else { Ok(()) });
        self.check(&target.to_string(), self.cooldown_is_kept(target));
        self.check(&target.to_string(), self.probe_is_single(target));
        CallInProgress { observer: self.clone(), target: target.clone() }
    }

    /// A worker received a good answer.
    pub fn answered(&self, document: usize, page: u32) {
        self.seen().answered.insert((document, page));
    }

    /// A model call that started at `started` failed in a way that opens the breaker. Calls that were in
    /// flight when it opened change nothing.
    pub fn failed(&self, target: &Target, started: Duration) {
        let now = self.now();
        let mut seen = self.seen();
        let last = seen.failed.get(target).copied();
        if last.is_none_or(|last| started > last + BREAKER_CACHE_TIME) {
            seen.failed.insert(target.clone(), now);
        }
    }

    /// No process calls a failed model before its cooldown is over, except for the probe of a page without
    /// another model, and after one that succeeded. A process that cached the breaker in the last second may
    /// not know yet.
    fn cooldown_is_kept(&self, target: &Target) -> Result<(), String> {
        let (Some(cooldown), seen) = (self.cooldown, self.seen()) else { return Ok(()) };
        let Some(failed) = seen.failed.get(target) else { return Ok(()) };
        let since = self.now().saturating_sub(*failed);
        let breaker = seen.breakers.get(&Guarded::Model(target.clone()).name());
        let is_probed =
            breaker.is_some_and(|(breaker, _)| !matches!(breaker.state, breaker::State::Open { .. }));
        if since > BREAKER_CACHE_TIME && since < cooldown && !is_probed {
            return Err(format!(
                "called {} after it had failed, its cooldown is {}",
                time(since),
                time(cooldown)
            ));
        }
        Ok(())
    }

    /// While a breaker is half open, one call is made. A process that cached it as closed in the last
    /// second before it opened may not know yet.
    fn probe_is_single(&self, target: &Target) -> Result<(), String> {
        if self.cooldown.is_none() {
            return Ok(());
        }
        let now = self.now();
        let mut seen = self.seen();
        for name in [Guarded::Model(target.clone()).name(), Guarded::Provider(target.provider).name()] {
            let Some((breaker, opened)) = seen.breakers.get(&name) else { continue };
            let half_open = matches!(breaker.state, breaker::State::HalfOpen { .. });
            if !half_open || now < *opened + BREAKER_CACHE_TIME {
                continue;
            }
            let window = (name, breaker.generation);
            let calls = seen.probes.entry(window.clone()).or_default();
            *calls += 1;
            if *calls > 1 {
                return Err(format!("{calls} calls while the breaker of {} was half open", window.0));
            }
        }
        Ok(())
    }

    /// Where no fault keeps a process from publishing what it stored, it does so without delay; a lagging
    /// index must not hide it.
    fn is_published_promptly(&self, event: &Event) -> Result<(), String> {
        let age = self.now().saturating_sub(self.since(event.timestamp));
        match self.writes_succeed && self.max_clock_difference.is_zero() && age > MAX_PUBLISH_DELAY {
            true => Err(format!("event {} was published {} late", event.sequence, time(age))),
            false => Ok(()),
        }
    }

    /// No model call is in flight.
    pub fn none_in_flight(&self) -> Result<(), String> {
        let seen = self.seen();
        match seen.in_flight.iter().find(|(_, count)| **count > 0) {
            Some((target, count)) => Err(format!("{count} calls to {target} are in flight while idle")),
            None => Ok(()),
        }
    }

    fn stored(&self, before: Option<&Item>, draft: &Draft) {
        let key = &draft.key;
        let at = || format!("{}/{}", key.partition, key.sort);
        if key.sort == "job" {
            self.stored_job(before, draft);
        } else if key.sort.starts_with("page#") {
            let Ok(page) = serde_json::from_str::<Page>(&draft.body) else { return };
            let was = before.and_then(|item| serde_json::from_str::<Page>(&item.draft.body).ok());
            let Some(outcome) = &page.outcome else { return };
            let before = was.as_ref().and_then(|page| page.outcome.as_ref());
            self.check(&at(), read_invariants::read_once(before, outcome));
            if before != Some(outcome) {
                self.log(|| format!("page {} of {} is settled: {:?}", page.page, page.job, outcome.source));
            }
            if outcome.is_ai() {
                let mut seen = self.seen();
                if let Some(document) = seen.documents.get(&page.job).copied() {
                    seen.read.insert((document, page.page.get()));
                }
            }
        } else if key.partition == "breaker" {
            let breaker = |body: &str| {
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                serde_json::from_value::<Breaker>(body["breaker"].clone()).unwrap_or_default()
            };
            let (was, is) =
                (before.map(|item| breaker(&item.draft.body)).unwrap_or_default(), breaker(&draft.body));
            self.log(|| format!("breaker of {} is {}", key.sort, is.state.name()));
            self.check(
                &at(),
                read_invariants::one_probe(&was, &is, self.clock.now(), self.max_clock_difference),
            );
            let current = was.current(self.clock.now(), &self.breaker);
            self.check(&at(), read_invariants::opened_once(&current, &is));
            self.check(&at(), read_invariants::probed_late_enough(&current, &is));
            let now = self.now();
            let mut seen = self.seen();
            let opens = matches!(is.state, breaker::State::Open { .. });
            let opened = match seen.breakers.get(&key.sort) {
                Some((_, opened)) if !opens => *opened,
                _ => now,
            };
            seen.breakers.insert(key.sort.clone(), (is, opened));
        }
    }

    fn stored_job(&self, before: Option<&Item>, draft: &Draft) {
        let Ok(job) = serde_json::from_str::<Job>(&draft.body) else { return };
        let was = before.and_then(|item| serde_json::from_str::<Job>(&item.draft.body).ok());
        let published = was.as_ref().and_then(|job| job.result.as_ref());
        let result = job_invariants::versions_count_up(published, job.result.as_ref());
        self.check(&format!("job {}", job.id), result);
        self.log(|| {
            let halt = job.halt.map(|halt| format!(", halted: {halt:?}")).unwrap_or_default();
            format!("job {} is {}{halt}", job.id, job.state)
        });
        let name = &job.received.document.name;
        let document = name.trim_start_matches('d').trim_end_matches(".pdf").parse().unwrap_or(usize::MAX);
        let now = self.now();
        let mut seen = self.seen();
        seen.documents.insert(job.id.clone(), document);
        let new = JobRun { from: now, deadline: job.deadline, cancelled: None, ended: None, closed: None };
        let run = seen.job_runs.entry((job.id.clone(), job.redrives)).or_insert(new);
        // A user may change it.
        run.deadline = job.deadline;
        if job.halt == Some(Halt::Cancelled) {
            run.cancelled.get_or_insert(now);
        }
        if job.state == State::Executed || job.state.is_terminal() {
            run.ended.get_or_insert((job.state, now));
        }
        if job.state.is_terminal() {
            run.closed.get_or_insert(now);
        }
        if let Some(result) = &job.result {
            let versions = seen.published.entry(job.id.clone()).or_default();
            while versions.len() < result.version as usize {
                versions.push(now);
            }
        }
    }
}

/// A model call in progress.
pub struct CallInProgress {
    observer: Arc<Observer>,
    target: Target,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        if let Some(count) = self.observer.seen().in_flight.get_mut(&self.target) {
            *count -= 1;
        }
    }
}

/// The store and the bus of a process, observed.
pub struct ObservedStore {
    pub observer: Arc<Observer>,
    /// Whether indexes lag for the users of this store.
    pub lags: bool,
}

#[async_trait]
impl Records for ObservedStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.observer.records.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.observer.records.get_many(keys).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.observer.records.list(partition, prefix, after, limit).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        if !self.lags {
            return Ok(self
                .observer
                .records
                .list_index_without_lag(index, partition, after, descending, limit));
        }
        self.observer.records.list_index(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut before = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            before.push(self.observer.records.get(change.key()).await?);
        }
        let written = self.observer.records.write(batch).await?;
        if written == Written::Applied {
            for (before, change) in before.iter().zip(&batch.changes) {
                if let Change::Put { draft, .. } = change {
                    self.observer.stored(before.as_ref(), draft);
                }
            }
        }
        Ok(written)
    }
}

#[async_trait]
impl Bus for ObservedStore {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        for event in events {
            let stored = self.observer.records.get(&record::event(&event.aggregate, event.sequence)).await?;
            let is_stored = stored.is_some_and(|item| item.draft.body.contains(&event.hash));
            let unstored = || format!("event {} was published and is not stored", event.sequence);
            self.observer
                .check(&event.aggregate.to_string(), if is_stored { Ok(()) } else { Err(unstored()) });
            self.observer.check(&event.aggregate.to_string(), self.observer.is_published_promptly(event));
        }
        self.observer.seen().events.extend_from_slice(events);
        Ok(())
    }
}
