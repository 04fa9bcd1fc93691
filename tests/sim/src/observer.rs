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
    settings::{BreakerPolicy, MaxInflight},
};
use everypage_testkit::{clock::VirtualClock, memory::MemoryRecords};
use serde_json::Value;

use crate::faults::time;

/// Processes cache breakers for a second, and writing one takes a moment.
const BREAKER_CACHE_TIME: Duration = Duration::from_millis(1100);

/// Processes read a model's limit at most once a second, and calls start a moment later.
const LIMIT_CACHE_TIME: Duration = Duration::from_millis(1100);
/// A limit that did not change for about this long is no longer valid.
const LIMIT_EXPIRES_AFTER: Duration = Duration::from_secs(590);
/// A call to a model of which nothing is known is late after this.
const UNKNOWN_CALL_TIME: Duration = Duration::from_secs(5);
/// And no model needs less than this.
const MIN_CALL_TIME: Duration = Duration::from_secs(1);
/// Of this many calls one may be doubled.
const CALLS_PER_HEDGE: usize = 20;
/// What follows from an answer is stored in this time: the answers of two calls are as good as simultaneous.
const SAME_TIME: Duration = Duration::from_millis(200);
/// The tokens of a call are this and its number.
const MIN_TOKENS: u64 = 1000;

/// How many calls to a model may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightLimit {
    /// A fault may make it unknown to some process.
    Unknown,
    Fixed(usize),
    /// As many as the stored pace allows.
    Stored,
}

const MAX_PUBLISH_DELAY: Duration = Duration::from_secs(1);

/// What a run's settings and faults let expect.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The maximum difference between two clocks.
    pub max_clock_difference: Duration,
    pub breaker: BreakerPolicy,
    /// How many jobs may be open, where that is limited and none continues without a seat after an approval.
    pub room: Option<usize>,
    pub max_in_flight: InFlightLimit,
    /// The minimum cooldown of a failed model, if no fault keeps its breaker from recording failures.
    pub cooldown: Option<Duration>,
    /// Whether no fault keeps a breaker from counting results.
    pub results_are_counted: bool,
    /// Whether no fault keeps a worker from storing an answer.
    pub writes_succeed: bool,
    /// Whether workers leave before the deadline: then their last calls are doubled, too.
    pub workers_leave: bool,
    /// Whether every process knows of the pause of a model soon after it was stored.
    pub pauses_are_seen: bool,
}

pub struct Observer {
    pub clock: Arc<VirtualClock>,
    records: Arc<MemoryRecords>,
    start: jiff::Timestamp,
    expected: Expected,
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
    /// Every call to a model, in order.
    pub calls: Vec<ObservedCall>,
    /// Indexes of the calls in flight.
    in_flight: BTreeSet<usize>,
    /// Calls that were doubled although there was time for another round.
    hedges: usize,
    /// The models that gave a page's text, and when, by process, document and page.
    answers: BTreeMap<(String, usize, u32), Vec<(Target, Duration)>>,
    /// When each call, by its tokens, was stored as part of a page's record or next to it.
    pub recorded: BTreeMap<u64, Duration>,
    /// The stored limits of each model, with their times.
    limits: BTreeMap<String, Vec<(Duration, usize)>>,
    /// The stored pauses of each model, by the field that has them: when they were stored, and when they end.
    pauses: BTreeMap<(String, &'static str), Vec<(Duration, Duration)>>,
    /// When each model failed last.
    failed: BTreeMap<Target, Duration>,
    /// Each stored breaker, and when it opened last.
    breakers: BTreeMap<String, (Breaker, Duration)>,
    /// When the generation of each stored breaker began.
    generations: BTreeMap<String, Duration>,
    /// Number of calls while a breaker was half open, by its name and generation.
    probes: BTreeMap<(String, u64), usize>,
    /// How often each kind of fault occurred.
    pub fault_counts: BTreeMap<String, usize>,
}

/// A call to a model.
#[derive(Clone, Debug)]
pub struct ObservedCall {
    /// The process that made it.
    pub node: String,
    pub target: Target,
    pub document: usize,
    pub page: u32,
    pub started: Duration,
    pub ended: Option<Duration>,
    /// The process received an answer, with tokens and a cost.
    pub answered: bool,
}

impl ObservedCall {
    fn is_same_page(&self, other: &Self) -> bool {
        (&self.node, self.document, self.page) == (&other.node, other.document, other.page)
    }
}

/// The tokens of the call with this number, and its cost in micro-dollars.
pub fn tokens(number: usize) -> u64 {
    MIN_TOKENS + number as u64
}

/// One run of a job, from its start or redrive to its end.
#[derive(Clone, Debug)]
pub struct JobRun {
    pub from: Duration,
    /// When its pages were sent to models.
    pub approved: Option<Duration>,
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
        expected: Expected,
        keep_log: bool,
    ) -> Self {
        let start = clock.now();
        Self { clock, records, start, expected, keep_log, seen: Mutex::default() }
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
    pub fn called(
        self: &Arc<Self>,
        node: &str,
        target: &Target,
        document: usize,
        page: u32,
    ) -> CallInProgress {
        self.log(|| format!("{target} is called for page {page} of document {document} by {node}"));
        let started = self.now();
        let call = ObservedCall {
            node: node.to_owned(),
            target: target.clone(),
            document,
            page,
            started,
            ended: None,
            answered: false,
        };
        let (number, paid) = {
            let mut seen = self.seen();
            let number = seen.calls.len();
            seen.calls.push(call);
            seen.in_flight.insert(number);
            // After a failed job its document may be submitted again.
            let jobs = seen.documents.values().filter(|of| **of == document).count();
            let stored = seen.read.contains(&(document, page));
            let lost = self.expected.writes_succeed && seen.answered.contains(&(document, page));
            (number, jobs == 1 && (stored || lost))
        };
        self.check(&target.to_string(), self.limit_is_kept(target));
        let what = format!("page {page} of document {document}");
        self.check(&what, if paid { Err("paid for again after it was read".into()) } else { Ok(()) });
        self.check(&target.to_string(), self.cooldown_is_kept(target));
        self.check(&target.to_string(), self.probe_is_single(target));
        self.check(&target.to_string(), self.pause_is_kept(target));
        self.check(&what, self.hedges_are_bounded(number));
        CallInProgress { observer: self.clone(), number }
    }

    /// Calls to a model that are in flight.
    pub fn in_flight(&self, target: &Target) -> usize {
        let seen = self.seen();
        seen.in_flight.iter().filter(|number| seen.calls[**number].target == *target).count()
    }

    /// No more calls are in flight than the limit allows: a fixed one exactly; one that is found out as it was
    /// stored when the calls in flight started, as far as their processes could know.
    fn limit_is_kept(&self, target: &Target) -> Result<(), String> {
        let in_flight = self.in_flight(target);
        let limit = match self.expected.max_in_flight {
            InFlightLimit::Unknown => return Ok(()),
            InFlightLimit::Fixed(limit) => limit,
            InFlightLimit::Stored => {
                let (now, seen) = (self.now(), self.seen());
                let own = seen.in_flight.iter().map(|number| &seen.calls[*number]);
                let oldest = own.filter(|call| call.target == *target).map(|call| call.started).min();
                let from = oldest.unwrap_or(now).saturating_sub(LIMIT_CACHE_TIME);
                let initial = MaxInflight::Auto.initial() as usize;
                let stored = seen.limits.get(&target.to_string()).map(Vec::as_slice).unwrap_or_default();
                let first = stored.iter().rposition(|(at, _)| *at <= from);
                let is_expired = stored.last().is_none_or(|(at, _)| now >= *at + LIMIT_EXPIRES_AFTER);
                let unset = (first.is_none() || is_expired).then_some(initial);
                let valid = stored[first.unwrap_or_default()..].iter().map(|(_, limit)| *limit);
                valid.chain(unset).max().unwrap_or(initial)
            }
        };
        read_invariants::fits(in_flight, limit)
    }

    /// No call starts while the model is paused, as soon as every process can know of it.
    fn pause_is_kept(&self, target: &Target) -> Result<(), String> {
        if !self.expected.pauses_are_seen {
            return Ok(());
        }
        let (now, seen) = (self.now(), self.seen());
        let name = target.to_string();
        let mut pauses =
            seen.pauses.iter().filter(|((model, _), _)| *model == name).flat_map(|(_, pauses)| pauses);
        let broken = pauses.find(|(stored, until)| *stored + LIMIT_CACHE_TIME < now && now < *until);
        match broken {
            Some((stored, until)) => Err(format!(
                "called during a pause that was stored at {} and ends at {}",
                time(*stored),
                time(*until)
            )),
            None => Ok(()),
        }
    }

    /// One call in twenty of all processes together is doubled, and those of pages that have no time for another
    /// round. Where leases may expire, two calls for a page may be those of two workers.
    fn hedges_are_bounded(&self, number: usize) -> Result<(), String> {
        if !self.expected.writes_succeed || self.expected.workers_leave {
            return Ok(());
        }
        let mut seen = self.seen();
        let call = seen.calls[number].clone();
        let others = seen.in_flight.iter().map(|other| &seen.calls[*other]);
        let first = others.filter(|other| other.is_same_page(&call)).map(|call| call.started).min();
        let Some(first) = first.filter(|first| *first < call.started) else { return Ok(()) };
        let longest = seen.calls.iter().map(|call| call.ended.unwrap_or(call.started) - call.started).max();
        let longest = longest.unwrap_or_default();
        let last_chance = longest.max(UNKNOWN_CALL_TIME) * 2;
        let runs = seen.job_runs.iter().filter(|((job, _), run)| {
            run.closed.is_none() && seen.documents.get(job) == Some(&call.document)
        });
        // Of two jobs for a document, one was cancelled or failed, and its deadline may be the page's.
        let is_only_job = seen.documents.values().filter(|of| **of == call.document).count() == 1;
        let deadline = runs.map(|(_, run)| self.since(run.deadline)).min().filter(|_| is_only_job);
        // A call of which nothing is known has half of the time left by itself; one of which more is known, until
        // the next model would have too little.
        let is_late = |deadline: Duration| {
            let halfway = (first + deadline) / 2;
            let too_late = deadline.saturating_sub(longest.max(MIN_CALL_TIME) * 5 / 4);
            call.started + self.expected.max_clock_difference >= halfway.min(too_late)
        };
        if deadline.is_none_or(|deadline| {
            first + last_chance + self.expected.max_clock_difference >= deadline || is_late(deadline)
        }) {
            return Ok(());
        }
        seen.hedges += 1;
        let (calls, hedges) = (seen.calls.len(), seen.hedges);
        if hedges > calls.div_ceil(CALLS_PER_HEDGE) {
            return Err(format!("{hedges} of {calls} calls were doubled, the last one by {}", call.node));
        }
        Ok(())
    }

    /// Of two calls for a page the first good answer is stored.
    fn winner_settles(&self, node: &str, document: usize, page: &Page) -> Result<(), String> {
        let seen = self.seen();
        let is_only_job = seen.documents.values().filter(|of| **of == document).count() == 1;
        let answers = seen.answers.get(&(node.to_owned(), document, page.page.get()));
        let (Some(answers), Some(target)) =
            (answers, page.outcome.as_ref().and_then(|outcome| outcome.target.as_ref()))
        else {
            return Ok(());
        };
        let (first, at) = &answers[0];
        let own = answers.iter().find(|(answered, _)| answered == target);
        match own {
            Some((_, own)) if self.expected.writes_succeed && is_only_job && *own > *at + SAME_TIME => {
                Err(format!("settled by {target}, although {first} had answered first"))
            }
            _ => Ok(()),
        }
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

    /// A breaker opens after failures in a row: since the first of them the model has answered no call of this
    /// generation. A process that cached the breaker in the last second does not look at it after a success.
    fn opens_after_failures_in_a_row(&self, name: &str, was: &Breaker, is: &Breaker) -> Result<(), String> {
        let opens = was.state == breaker::State::Closed && matches!(is.state, breaker::State::Open { .. });
        let has_expired = is.generation != was.generation + 1;
        if !self.expected.results_are_counted || !opens || has_expired || is.misconfigured {
            return Ok(());
        }
        let (now, seen) = (self.now(), self.seen());
        let Some(first) = is.failing_since.map(|at| self.since(at)) else { return Ok(()) };
        let generation = seen.generations.get(name).map_or(Duration::ZERO, |at| *at + BREAKER_CACHE_TIME);
        let counted = first + BREAKER_CACHE_TIME + self.expected.max_clock_difference;
        let success = seen.calls.iter().find(|call| {
            let is_own = call.answered && Guarded::Model(call.target.clone()).name() == name;
            is_own
                && call.started >= generation
                && call.ended.is_some_and(|ended| counted < ended && ended + SAME_TIME < now)
        });
        match success.and_then(|call| call.ended) {
            Some(ended) => Err(format!(
                "opened by {} failures since {}, although the model had answered at {}",
                is.failures,
                time(first),
                time(ended)
            )),
            None => Ok(()),
        }
    }

    /// No process calls a failed model before its cooldown is over, except for the probe of a page without
    /// another model, and after one that succeeded. A process that cached the breaker in the last second may
    /// not know yet.
    fn cooldown_is_kept(&self, target: &Target) -> Result<(), String> {
        let (Some(cooldown), seen) = (self.expected.cooldown, self.seen()) else { return Ok(()) };
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
        if self.expected.cooldown.is_none() {
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
        match self.expected.writes_succeed
            && self.expected.max_clock_difference.is_zero()
            && age > MAX_PUBLISH_DELAY
        {
            true => Err(format!("event {} was published {} late", event.sequence, time(age))),
            false => Ok(()),
        }
    }

    /// No model call is in flight.
    pub fn none_in_flight(&self) -> Result<(), String> {
        let seen = self.seen();
        match seen.in_flight.first() {
            Some(number) => {
                let target = &seen.calls[*number].target;
                Err(format!("{} calls are in flight while idle, one to {target}", seen.in_flight.len()))
            }
            None => Ok(()),
        }
    }

    fn stored(&self, node: &str, before: Option<&Item>, draft: &Draft) {
        let key = &draft.key;
        let at = || format!("{}/{}", key.partition, key.sort);
        if key.sort.starts_with(record::PAGES) || key.sort.starts_with(record::UNCLAIMED_CALLS) {
            self.stored_calls(draft);
        }
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
            let document = self.seen().documents.get(&page.job).copied();
            if let Some(document) = document.filter(|_| outcome.is_ai() && before != Some(outcome)) {
                self.check(&at(), self.winner_settles(node, document, &page));
                self.seen().read.insert((document, page.page.get()));
            }
        } else if key.partition == record::PACES {
            let body: Value = serde_json::from_str(&draft.body).unwrap_or_default();
            let limit = body["limit"].as_u64().unwrap_or_default() as usize;
            let now = self.now();
            // Less than a second is the machine's, and differs between runs.
            let paused = body["paused_until"].as_str().and_then(|time| time.get(..19)).unwrap_or("never");
            self.log(|| format!("limit of {} is {limit}, paused until {paused}", key.sort));
            let mut seen = self.seen();
            for (field, ends_early) in [("paused_until", false), ("used_up_until", true)] {
                let until = body[field].as_str().and_then(|time| time.parse().ok());
                let until = until.map(|until| self.since(until)).filter(|until| now < *until);
                let pauses = seen.pauses.entry((key.sort.clone(), field)).or_default();
                // Headers that announce room end the pause that headers began.
                if let Some((_, last)) = pauses.last_mut().filter(|_| ends_early) {
                    *last = (*last).min(until.unwrap_or(now));
                }
                if let Some(until) = until
                    && pauses.last().is_none_or(|(_, last)| *last != until)
                {
                    pauses.push((now, until));
                }
            }
            let limits = seen.limits.entry(key.sort.clone()).or_default();
            if limits.last().is_none_or(|(_, last)| *last != limit) {
                limits.push((now, limit));
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
                read_invariants::one_probe(&was, &is, self.clock.now(), self.expected.max_clock_difference),
            );
            let current = was.current(self.clock.now(), &self.expected.breaker);
            self.check(&at(), read_invariants::opened_once(&current, &is));
            self.check(&at(), read_invariants::probed_late_enough(&current, &is));
            self.check(&at(), self.opens_after_failures_in_a_row(&key.sort, &was, &is));
            let now = self.now();
            let mut seen = self.seen();
            if was.generation != is.generation {
                seen.generations.insert(key.sort.clone(), now);
            }
            let opens = matches!(is.state, breaker::State::Open { .. });
            let opened = match seen.breakers.get(&key.sort) {
                Some((_, opened)) if !opens => *opened,
                _ => now,
            };
            seen.breakers.insert(key.sort.clone(), (is, opened));
        }
    }

    /// No more jobs are open than there is room for.
    fn room_is_kept(&self) -> Result<(), String> {
        let Some(room) = self.expected.room else { return Ok(()) };
        let items = self.records.dump();
        let jobs = items.iter().filter(|item| item.draft.key.sort == "job");
        let jobs = jobs.filter_map(|item| serde_json::from_str::<Job>(&item.draft.body).ok());
        let open = jobs.filter(Job::needs_seat).count();
        if open <= room { Ok(()) } else { Err(format!("{open} jobs are open, and there is room for {room}")) }
    }

    fn stored_calls(&self, draft: &Draft) {
        let body: Value = serde_json::from_str(&draft.body).unwrap_or_default();
        let lists = [&body["earlier_calls"], &body["outcome"]["calls"], &body["calls"]];
        let calls = lists.into_iter().filter_map(Value::as_array).flatten();
        let (now, mut seen) = (self.now(), self.seen());
        let calls = calls.filter(|call| call["is_estimated"] != true);
        for tokens in calls.filter_map(|call| call["input_tokens"].as_u64()) {
            seen.recorded.entry(tokens).or_insert(now);
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
        let new = JobRun {
            from: now,
            approved: None,
            deadline: job.deadline,
            cancelled: None,
            ended: None,
            closed: None,
        };
        let run = seen.job_runs.entry((job.id.clone(), job.redrives)).or_insert(new);
        // A user may change it.
        run.deadline = job.deadline;
        if matches!(job.state, State::Approved | State::Modified) {
            run.approved.get_or_insert(now);
        }
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
    number: usize,
}

impl CallInProgress {
    /// The process receives an answer; returns its tokens.
    pub fn answered(&self) -> u64 {
        self.observer.seen().calls[self.number].answered = true;
        tokens(self.number)
    }

    /// The answer is the page.
    pub fn read_the_page(&self) {
        let now = self.observer.now();
        let mut seen = self.observer.seen();
        let ObservedCall { node, target, document, page, .. } = seen.calls[self.number].clone();
        seen.answered.insert((document, page));
        seen.answers.entry((node, document, page)).or_default().push((target, now));
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        let now = self.observer.now();
        let mut seen = self.observer.seen();
        seen.in_flight.remove(&self.number);
        seen.calls[self.number].ended = Some(now);
    }
}

/// The store and the bus of a process, observed.
pub struct ObservedStore {
    pub observer: Arc<Observer>,
    /// The name of the process.
    pub node: String,
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
                    self.observer.stored(&self.node, before.as_ref(), draft);
                }
            }
            if batch.changes.iter().any(|change| change.key().sort == "job") {
                self.observer.check("admission", self.observer.room_is_kept());
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
