//! Sees everything that is stored, called and published in a run, and says what should not be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        breaker::{self, Breaker},
        event::Event,
        ids::JobId,
        job::{Halt, Job, State},
        target::Target,
    },
    invariants,
    ports::{
        Fault,
        bus::Bus,
        clock::Clock,
        records::{Batch, Change, Draft, Index, Item, Key, Listing, Records, Written},
    },
    store::{breakers::Guarded, pages::Page, trail},
};
use everypage_testkit::{clock::VirtualClock, memory::MemoryRecords};
use serde_json::Value;

use crate::trouble::time;

/// Breakers are read anew after a second, and written in a moment.
const KNOWN_BY_ALL: Duration = Duration::from_millis(1500);

const PUBLISHED_WITHIN: Duration = Duration::from_secs(1);

pub struct Witness {
    pub clock: Arc<VirtualClock>,
    records: Arc<MemoryRecords>,
    start: jiff::Timestamp,
    /// The most that two clocks disagree.
    spread: Duration,
    cap: usize,
    /// How long a model rests at least that has failed, where nothing keeps its breaker from knowing.
    rest: Option<Duration>,
    /// Whether nothing keeps a worker that has an answer from storing it.
    keeps_answers: bool,
    /// Whether a story is kept for people to read.
    listening: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub struct Seen {
    pub story: Vec<String>,
    pub broken: Vec<String>,
    /// Which document a job is about.
    pub documents: BTreeMap<JobId, usize>,
    /// Pages, by document and number, whose AI text is stored.
    pub read: BTreeSet<(usize, u32)>,
    /// Pages that a worker has an answer for, stored or not.
    answered: BTreeSet<(usize, u32)>,
    /// When each version of a job's result was published.
    pub published: BTreeMap<JobId, Vec<Duration>>,
    /// Each life of a job: a redriven one has one more.
    pub lives: BTreeMap<(JobId, u32), Life>,
    pub events: Vec<Event>,
    in_flight: BTreeMap<Target, usize>,
    /// When a model failed last.
    failed: BTreeMap<Target, Duration>,
    /// What is stored of each breaker, and when it opened last.
    breakers: BTreeMap<String, (Breaker, Duration)>,
    /// Calls made while a breaker was half open, by its name and generation.
    probes: BTreeMap<(String, u64), usize>,
    pub calls: usize,
    /// How often each sort of trouble really struck.
    pub struck: BTreeMap<String, usize>,
}

/// What a job went through, from its beginning or its redrive to its end.
#[derive(Clone, Debug)]
pub struct Life {
    pub from: Duration,
    pub deadline: jiff::Timestamp,
    /// When somebody asked for its end.
    pub cancelled: Option<Duration>,
    /// When its result was there, or it was clear that there would be none.
    pub ended: Option<(State, Duration)>,
    /// When nothing more was to be done.
    pub closed: Option<Duration>,
}

impl Witness {
    pub fn new(
        clock: Arc<VirtualClock>,
        records: Arc<MemoryRecords>,
        spread: Duration,
        cap: usize,
        rest: Option<Duration>,
        keeps_answers: bool,
        listening: bool,
    ) -> Self {
        let start = clock.now();
        Self { clock, records, start, spread, cap, rest, keeps_answers, listening, seen: Mutex::default() }
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.since(self.clock.now())
    }

    pub fn since(&self, at: jiff::Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.start)).unwrap_or_default()
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A line of the story, if anybody wants it.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if self.listening {
            let line = format!("{:>8}  {}", time(self.now()), line());
            self.seen().story.push(line);
        }
    }

    /// Some trouble did more than stand in the plan.
    pub fn struck(&self, what: &str) {
        *self.seen().struck.entry(what.to_owned()).or_default() += 1;
    }

    pub fn must(&self, what: &str, held: Result<(), String>) {
        if let Err(broken) = held {
            self.note(|| format!("BROKEN: {what}: {broken}"));
            self.seen().broken.push(format!("{what}: {broken} (at {})", time(self.now())));
        }
    }

    /// A call to a model begins; it ends when what this answers is dropped.
    pub fn called(self: &Arc<Self>, target: &Target, document: usize, page: u32) -> Calling {
        self.note(|| format!("{target} is asked for page {page} of document {document}"));
        let (in_flight, paid) = {
            let mut seen = self.seen();
            seen.calls += 1;
            let count = seen.in_flight.entry(target.clone()).or_default();
            *count += 1;
            let count = *count;
            // A job that failed leaves its document to be submitted anew.
            let jobs = seen.documents.values().filter(|of| **of == document).count();
            let stored = seen.read.contains(&(document, page));
            let lost = self.keeps_answers && seen.answered.contains(&(document, page));
            (count, jobs == 1 && (stored || lost))
        };
        self.must(&target.to_string(), invariants::fits(in_flight, self.cap));
        let what = format!("page {page} of document {document}");
        self.must(&what, if paid { Err("paid for although it was read".into()) } else { Ok(()) });
        self.must(&target.to_string(), self.left_alone(target));
        self.must(&target.to_string(), self.probed_once(target));
        Calling { witness: self.clone(), target: target.clone() }
    }

    /// A worker gets a good answer.
    pub fn answered(&self, document: usize, page: u32) {
        self.seen().answered.insert((document, page));
    }

    /// A model failed, in a call begun at `started`, in a way that opens its breaker. Calls that were
    /// on their way when it opened change nothing.
    pub fn failed(&self, target: &Target, started: Duration) {
        let now = self.now();
        let mut seen = self.seen();
        let last = seen.failed.get(target).copied();
        if last.is_none_or(|last| started > last + KNOWN_BY_ALL) {
            seen.failed.insert(target.clone(), now);
        }
    }

    /// A model that has failed is left alone, by everybody, until its rest is over. Whoever read its
    /// breaker in the last second may not know yet.
    fn left_alone(&self, target: &Target) -> Result<(), String> {
        let (Some(rest), Some(failed)) = (self.rest, self.seen().failed.get(target).copied()) else {
            return Ok(());
        };
        let since = self.now().saturating_sub(failed);
        if since > KNOWN_BY_ALL && since < rest {
            return Err(format!("called {} after it had failed, its rest is {}", time(since), time(rest)));
        }
        Ok(())
    }

    /// While a breaker is half open one call goes out. Whoever read it as closed in the last second
    /// before it opened may not know yet.
    fn probed_once(&self, target: &Target) -> Result<(), String> {
        if self.rest.is_none() {
            return Ok(());
        }
        let now = self.now();
        let mut seen = self.seen();
        for name in [Guarded::Model(target.clone()).name(), Guarded::Provider(target.provider).name()] {
            let Some((breaker, opened)) = seen.breakers.get(&name) else { continue };
            let half_open = matches!(breaker.state, breaker::State::HalfOpen { .. });
            if !half_open || now < *opened + KNOWN_BY_ALL {
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

    /// Where nothing keeps a process from publishing what it stored, it does so at once; no index that
    /// is behind may hide it.
    fn is_prompt(&self, event: &Event) -> Result<(), String> {
        let age = self.now().saturating_sub(self.since(event.timestamp));
        match self.keeps_answers && self.spread.is_zero() && age > PUBLISHED_WITHIN {
            true => Err(format!("event {} was published {} late", event.sequence, time(age))),
            false => Ok(()),
        }
    }

    /// Calls that have not come back.
    pub fn none_in_flight(&self) -> Result<(), String> {
        let seen = self.seen();
        match seen.in_flight.iter().find(|(_, count)| **count > 0) {
            Some((target, count)) => Err(format!("{count} calls to {target} are in flight at rest")),
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
            self.must(&at(), invariants::read_once(before, outcome));
            if before != Some(outcome) {
                self.note(|| format!("page {} of {} is settled: {:?}", page.page, page.job, outcome.source));
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
            self.note(|| format!("breaker of {} is {}", key.sort, is.state.name()));
            self.must(&at(), invariants::one_probe(&was, &is, self.clock.now(), self.spread));
            self.must(&at(), invariants::counted_once(&was, &is));
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
        let held = invariants::versions_count_up(published, job.result.as_ref());
        self.must(&format!("job {}", job.id), held);
        self.note(|| {
            let halt = job.halt.map(|halt| format!(", halted: {halt:?}")).unwrap_or_default();
            format!("job {} is {}{halt}", job.id, job.state)
        });
        let name = &job.received.document.name;
        let document = name.trim_start_matches('d').trim_end_matches(".pdf").parse().unwrap_or(usize::MAX);
        let now = self.now();
        let mut seen = self.seen();
        seen.documents.insert(job.id.clone(), document);
        let fresh = Life { from: now, deadline: job.deadline, cancelled: None, ended: None, closed: None };
        let life = seen.lives.entry((job.id.clone(), job.redrives)).or_insert(fresh);
        // A person may move it.
        life.deadline = job.deadline;
        if job.halt == Some(Halt::Cancelled) {
            life.cancelled.get_or_insert(now);
        }
        if job.state == State::Executed || job.state.is_terminal() {
            life.ended.get_or_insert((job.state, now));
        }
        if job.state.is_terminal() {
            life.closed.get_or_insert(now);
        }
        if let Some(result) = &job.result {
            let versions = seen.published.entry(job.id.clone()).or_default();
            while versions.len() < result.version as usize {
                versions.push(now);
            }
        }
    }
}

/// A call on its way.
pub struct Calling {
    witness: Arc<Witness>,
    target: Target,
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(count) = self.witness.seen().in_flight.get_mut(&self.target) {
            *count -= 1;
        }
    }
}

/// The store, watched.
pub struct Watched {
    pub witness: Arc<Witness>,
    /// Whether indexes lag behind for who looks through this.
    pub lags: bool,
}

#[async_trait]
impl Records for Watched {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.witness.records.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.witness.records.get_many(keys).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.witness.records.list(partition, prefix, after, limit).await
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
                .witness
                .records
                .list_index_without_lag(index, partition, after, descending, limit));
        }
        self.witness.records.list_index(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut before = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            before.push(self.witness.records.get(change.key()).await?);
        }
        let written = self.witness.records.write(batch).await?;
        if written == Written::Applied {
            for (before, change) in before.iter().zip(&batch.changes) {
                if let Change::Put { draft, .. } = change {
                    self.witness.stored(before.as_ref(), draft);
                }
            }
        }
        Ok(written)
    }
}

#[async_trait]
impl Bus for Watched {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        for event in events {
            let stored = self.witness.records.get(&trail::key(&event.aggregate, event.sequence)).await?;
            let held = stored.is_some_and(|item| item.draft.body.contains(&event.hash));
            let unstored = || format!("event {} was published and is not stored", event.sequence);
            self.witness.must(&event.aggregate.to_string(), if held { Ok(()) } else { Err(unstored()) });
            self.witness.must(&event.aggregate.to_string(), self.witness.is_prompt(event));
        }
        self.witness.seen().events.extend_from_slice(events);
        Ok(())
    }
}
