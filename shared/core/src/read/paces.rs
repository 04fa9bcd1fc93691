//! The store of the models' paces, which all workers share, and what this process has seen of each model.
//!
//! A pace is read at most once a second and written only when it changes: at a rate limit, at the first
//! answer after one, and once per window while the limit grows. When the store can't be reached, the
//! process continues with what it knows.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::{
    latency::Latency,
    observed::{Observed, Refused, StartedCall},
    pace::Pace,
    telemetry,
    throughput::LIMITED_FOR,
};
use crate::{
    events::Store,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
        vision::{Allowance, Exceeded, Usage},
    },
    providers::target::Target,
    records::{Versioned, decode, encode},
    settings::Settings,
    time::{after, until},
};

const CACHED_FOR: Duration = Duration::from_secs(1);
/// Conditional writes that another process may win before this one gives way.
const MAX_TRIES: u32 = 8;
/// A call to a model without an answer for this long, and for this many times as long as nearly all
/// calls take, means that the model may hang.
const STALLED_AFTER: Duration = Duration::from_secs(5);
const STALLED_FACTOR: u32 = 3;
/// A call to a model that has not answered yet means so after this long.
const STALLED_UNKNOWN_AFTER: Duration = Duration::from_secs(10);
/// A call in flight for this long was not refused.
const ACCEPTED_AFTER: Duration = Duration::from_millis(100);
/// How long the first rate limit of a model waits for the other calls of its wave.
const FIRST_WAVE: Duration = Duration::from_millis(100);
/// Room for a call that comes sooner than this is waited for with a slot, by the pages of this process; later
/// room is a pause of the model, for all processes.
const MIN_HEADER_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause because headers announce that nothing is left: where they do not say how large the limit is,
/// some of it may be free long before all of it is.
const MAX_HEADER_PAUSE: Duration = Duration::from_secs(20);
/// After this many refusals in a row without an answer, a model is one that can't be called.
const EXHAUSTED_AFTER: u32 = 3;
/// How often the observed latency is stored for other processes.
const LATENCY_INTERVAL: Duration = Duration::from_secs(60);

/// What an answer has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// More calls may be in flight.
    pub has_grown: bool,
    /// A pause ended early.
    pub has_resumed: bool,
}

/// The paces as one process sees them.
#[derive(Clone)]
pub struct Paces {
    pub store: Store,
    pub settings: Arc<Settings>,
    seen: Arc<Mutex<HashMap<Target, Observed>>>,
    /// One task at a time changes the pace of a model.
    changing: Arc<Mutex<HashMap<Target, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Paces {
    pub fn new(store: Store, settings: Arc<Settings>) -> Self {
        Self { store, settings, seen: Arc::default(), changing: Arc::default() }
    }

    fn with<T>(&self, target: &Target, work: impl FnOnce(&mut Observed) -> T) -> T {
        work(self.seen.lock().entry(target.clone()).or_default())
    }

    fn fresh(&self) -> Versioned<Pace> {
        Versioned { value: Pace::new(self.settings.max_inflight_per_model), version: 0 }
    }

    fn effective(&self, stored: Versioned<Pace>) -> Versioned<Pace> {
        let value = stored.value.current(self.settings.max_inflight_per_model, self.store.clock.now());
        Versioned { value, ..stored }
    }

    /// The pace as it was read within the last second, or is read now.
    pub async fn current(&self, target: &Target) -> Pace {
        let now = self.store.clock.now();
        let recent = self.with(target, |seen| {
            seen.pace
                .as_ref()
                .filter(|(at, _)| now < after(*at, CACHED_FOR))
                .map(|(_, pace)| pace.value.clone())
        });
        match recent {
            Some(pace) => pace,
            None => self.load(target).await.value,
        }
    }

    /// Reads the paces of all these models in one request, unless they are cached: each may be needed next.
    pub async fn refresh(&self, targets: &[Target]) {
        let now = self.store.clock.now();
        let is_recent =
            |seen: &mut Observed| seen.pace.as_ref().is_some_and(|(at, _)| now < after(*at, CACHED_FOR));
        let unknown: Vec<&Target> = targets.iter().filter(|target| !self.with(target, is_recent)).collect();
        if unknown.len() < 2 {
            return;
        }
        let keys: Vec<Key> = unknown.iter().map(|target| record::pace(target)).collect();
        // Where this fails, they are read one by one when they are needed.
        let Ok(items) = self.store.records_once.get_many(&keys).await else { return };
        for (target, item) in unknown.into_iter().zip(items) {
            match item.as_ref().map(decode::<Pace>).transpose() {
                Ok(stored) => {
                    self.keep(target, stored.map_or_else(|| self.fresh(), |pace| self.effective(pace)))
                }
                Err(fault) => warn!(%fault, %target, "pace not read"),
            }
        }
    }

    async fn load(&self, target: &Target) -> Versioned<Pace> {
        let read = async {
            let item = self.store.records_once.get(&record::pace(target)).await?;
            item.as_ref().map(decode::<Pace>).transpose()
        };
        let read: Result<_, Fault> = read.await;
        let known = self.with(target, |seen| seen.pace.as_ref().map(|(_, pace)| pace.clone()));
        let pace = match read {
            Ok(Some(read)) => self.effective(read),
            Ok(None) => self.fresh(),
            Err(fault) => {
                warn!(%fault, %target, "pace not read, the last known one holds");
                known.unwrap_or_else(|| self.fresh())
            }
        };
        self.keep(target, pace.clone());
        pace
    }

    fn keep(&self, target: &Target, pace: Versioned<Pace>) {
        let now = self.store.clock.now();
        telemetry::inflight_limit(target, pace.value.limit(self.settings.max_inflight_per_model));
        self.with(target, |seen| {
            let limit_before = seen.pace.as_ref().map(|(_, before)| before.value.limit);
            seen.is_full &= limit_before == Some(pace.value.limit);
            seen.pace = Some((now, pace));
        });
    }

    /// Calls to the model that may be in flight, in the whole installation.
    pub async fn limit(&self, target: &Target) -> u32 {
        self.current(target).await.limit(self.settings.max_inflight_per_model)
    }

    /// Until when the model is paused; `None` when it may be called.
    pub async fn paused(&self, target: &Target) -> Option<Timestamp> {
        let now = self.store.clock.now();
        self.current(target).await.paused(now)
    }

    /// How long to wait until the provider's headers leave room for one more call; `None` when they do now.
    /// This process has `own` of the `all` calls in flight, and that part of the room.
    pub fn quota_wait(&self, target: &Target, own: u32, all: u32) -> Option<Duration> {
        let now = self.store.clock.now();
        self.with(target, |seen| seen.quota_wait(f64::from(own) / f64::from(all.max(1)), now))
    }

    /// Whether tokens are what limits the calls to a model, by its headers or by its refusals.
    pub fn is_limited_by_tokens(&self, target: &Target) -> bool {
        let now = self.store.clock.now();
        self.with(target, |seen| {
            let is_refused = seen.tokens_refused_at.is_some_and(|at| now < after(at, LIMITED_FOR));
            let tokens = seen.tokens_per_call();
            is_refused || seen.announced().is_some_and(|it| it.is_limited_by_tokens(tokens, now))
        })
    }

    /// Whether the model can't be called for as long as matters: it has only refused for some time, or it is paused
    /// until the deadline. Other models are called as if it had failed.
    pub async fn is_exhausted(&self, target: &Target, deadline: Timestamp) -> bool {
        let pace = self.current(target).await;
        pace.refusals >= EXHAUSTED_AFTER
            || pace.paused(self.store.clock.now()).is_some_and(|until| until >= deadline)
    }

    /// Calls per second that a model under a rate limit takes, by its headers and by what it took lately;
    /// `None` when it has no limit that is known. This process has `own` of the `all` calls in flight.
    pub fn calls_per_second(&self, target: &Target, own: u32, all: u32) -> Option<f64> {
        let now = self.store.clock.now();
        let part = f64::from(own) / f64::from(all.max(1));
        self.with(target, |seen| {
            let announced = seen.announced().and_then(|it| it.calls_per_second(seen.tokens_per_call(), now));
            let observed = seen.throughput.while_limited(now).map(|rate| rate / part.max(0.001));
            announced.into_iter().chain(observed).min_by(f64::total_cmp)
        })
    }

    /// Registers a call that starts now.
    pub fn begin(&self, target: &Target) -> StartedCall {
        let at = self.store.clock.now();
        let (id, generation) = self.with(target, |seen| {
            let id = seen.next_call;
            seen.next_call += 1;
            seen.in_flight.insert(id, at);
            (id, seen.pace.as_ref().map_or(0, |(_, pace)| pace.value.generation))
        });
        StartedCall { id, generation, at, target: target.clone(), seen: self.seen.clone() }
    }

    /// Raises the limit before the first answer, when the latest of the calls in flight has been accepted.
    /// Returns how long to wait for that; `None` when there is nothing to wait for.
    pub async fn grow_accepted(&self, target: &Target) -> Option<Duration> {
        let now = self.store.clock.now();
        let max = self.settings.max_inflight_per_model;
        self.current(target).await.accepted(max, now)?;
        let latest = self.with(target, |seen| {
            let is_unanswered = seen.answered_generation.is_none();
            seen.in_flight.values().next_back().copied().filter(|_| is_unanswered)
        })?;
        let accepted_at = after(latest, ACCEPTED_AFTER);
        if now < accepted_at {
            return Some(until(now, accepted_at));
        }
        let changing = self.changing(target);
        let _changing = changing.lock().await;
        self.change(target, |pace| pace.accepted(max, now)).await;
        Some(Duration::ZERO)
    }

    /// Registers that a call timed out: it took at least that long. A failure of the model may be one of too
    /// many calls.
    pub async fn timed_out(&self, call: StartedCall, in_flight: u32, is_models_limit: bool) {
        let now = self.store.clock.now();
        let step = |pace: &Pace| pace.congested(call.generation, in_flight, now);
        if is_models_limit && step(&self.current(&call.target).await).is_some() {
            let changing = self.changing(&call.target);
            let _changing = changing.lock().await;
            self.change(&call.target, step).await;
        }
        let took = until(call.at, self.store.clock.now());
        self.with(&call.target, |seen| {
            // Without any answer the model is as unknown as before.
            if seen.samples.summary().is_some() {
                seen.samples.add(took);
            }
        });
    }

    /// Registers an answer: its latency, what the headers say is left, and that the limit may grow.
    pub async fn answered(&self, call: StartedCall, usage: &Usage, allowance: &Allowance) -> Registered {
        let (now, target) = (self.store.clock.now(), &call.target);
        let is_announced = allowance.quotas().next().is_some();
        let (latency, may_grow, quota_wait, is_latency_due) = self.with(target, |seen| {
            seen.samples.add(until(call.at, now));
            seen.answered_at = Some(now);
            seen.throughput.answered(now);
            seen.answered_generation = Some(call.generation);
            seen.used(usage);
            seen.announce(&call, allowance, now);
            let quota_wait = seen.quota_wait(1.0, now);
            let latency = seen.samples.summary();
            let is_slower = latency.is_some_and(|latency| seen.is_slower(latency));
            let is_due = seen.latency_stored_at.is_none_or(|at| now >= after(at, LATENCY_INTERVAL));
            if is_due && latency.is_some() {
                seen.latency_stored_at = Some(now);
            }
            (latency, seen.is_full && !is_slower, quota_wait, is_due && latency.is_some())
        });
        let (max, generation) = (self.settings.max_inflight_per_model, call.generation);
        let used_up = quota_wait.filter(|wait| *wait >= MIN_HEADER_PAUSE);
        let used_up = used_up.map(|time| after(now, time.min(MAX_HEADER_PAUSE)));
        let has_room = is_announced && quota_wait.is_none();
        let step = |pace: &Pace| {
            let answered = pace.answered(generation);
            let next = answered.as_ref().unwrap_or(pace);
            let grown =
                latency.filter(|_| may_grow).and_then(|latency| next.grown(latency.median(), max, now));
            let next = grown.as_ref().or(answered.as_ref());
            let paused = match used_up {
                Some(until) => next.unwrap_or(pace).used_up(until),
                None if has_room => next.unwrap_or(pace).refilled(now),
                None => None,
            };
            let next = paused.as_ref().or(next);
            match (next, is_latency_due) {
                (None, false) => None,
                (next, _) => Some(Pace { latency: latency.or(pace.latency), ..next.unwrap_or(pace).clone() }),
            }
        };
        // Most answers change nothing, and take no lock.
        let known = self.current(target).await;
        if step(&known).is_none() {
            return Registered::default();
        }
        let changing = self.changing(target);
        let _changing = changing.lock().await;
        let before = self.current(target).await;
        self.change(target, step).await;
        let pace = self.current(target).await;
        Registered {
            has_grown: pace.limit > before.limit,
            has_resumed: before.paused(now).is_some() && pace.paused(now).is_none(),
        }
    }

    /// Registers a rate limit, with `in_flight` calls of all workers. The pause holds in this process at once.
    pub async fn rate_limited(
        &self,
        call: StartedCall,
        in_flight: u32,
        retry_after: Option<Duration>,
        allowance: &Allowance,
    ) {
        let (now, target) = (self.store.clock.now(), call.target.clone());
        let generation = call.generation;
        let room_in = self.with(&target, |seen| {
            seen.throughput.refused(now);
            seen.refused_since.insert(call.id);
            seen.announce(&call, allowance, now);
            if allowance.exceeded == Some(Exceeded::Tokens) {
                seen.tokens_refused_at = Some(now);
            }
            seen.quota_wait(1.0, now)
        });
        // Where it does not say how long to wait, its headers may say when there is room for one call.
        let retry_after = retry_after.or(room_in.map(|wait| wait.min(MAX_HEADER_PAUSE)));
        drop(call);
        // Before the first answer the wave is let out: how many of its calls are refused is worth knowing.
        if self.with(&target, |seen| seen.answered_generation.is_none() && seen.refused_generation.is_none())
        {
            self.store.clock.sleep(FIRST_WAVE).await;
        }
        let now = now.max(self.store.clock.now());
        self.with(&target, |seen| {
            seen.refused_generation = Some(generation);
            let in_flight = (seen.answered_generation == Some(generation)).then_some(in_flight);
            seen.refused.push(Refused { generation, in_flight, retry_after });
        });
        let changing = self.changing(&target);
        let _changing = changing.lock().await;
        let refused = self.with(&target, |seen| std::mem::take(&mut seen.refused));
        if refused.is_empty() {
            return;
        }
        self.change(&target, |pace| {
            let mut next = None;
            for Refused { generation, in_flight, retry_after } in &refused {
                let so_far = next.as_ref().unwrap_or(pace);
                next = so_far.rate_limited(*generation, *in_flight, *retry_after, now).or(next);
            }
            next
        })
        .await;
        let pace = self.current(&target).await;
        info!(%target, limit = pace.limit, pause = ?pace.paused(now).map(|end| until(now, end)), "rate limited");
    }

    fn changing(&self, target: &Target) -> Arc<tokio::sync::Mutex<()>> {
        self.changing.lock().entry(target.clone()).or_default().clone()
    }

    /// Rate limits since the model's last answer, as waves: calls that were refused together count once.
    pub async fn refusals(&self, target: &Target) -> u32 {
        self.current(target).await.refusals
    }

    /// Applies `step` to the stored pace until the change is written or there is none. A pace that can't be
    /// stored holds in this process.
    async fn change(&self, target: &Target, step: impl Fn(&Pace) -> Option<Pace>) {
        let cached = self.with(target, |seen| seen.pace.as_ref().map(|(_, pace)| pace.clone()));
        let mut known = match cached {
            Some(pace) => pace,
            None => self.load(target).await,
        };
        for _ in 0..MAX_TRIES {
            let Some(next) = step(&known.value) else { return };
            // A lower limit and a pause hold in this process before they are written, a higher limit does not:
            // other processes keep to what is stored.
            let lower = Pace { limit: next.limit.min(known.value.limit), ..next.clone() };
            self.keep(target, Versioned { value: lower, version: known.version });
            let when = if known.version == 0 { When::Absent } else { When::Version(known.version) };
            let written = async {
                let draft = Draft::new(record::pace(target), encode(&next)?);
                self.store.write_once(vec![Change::Put { draft, when }]).await
            };
            match written.await {
                Ok(Written::Applied) => {
                    return self.keep(target, Versioned { value: next, version: when.next_version() });
                }
                Ok(Written::Refused { existing: Some(item), .. }) => match decode(&item) {
                    Ok(existing) => known = self.effective(existing),
                    Err(fault) => return warn!(%fault, %target, "pace not changed"),
                },
                Ok(Written::Refused { existing: None, .. }) => known = self.fresh(),
                Err(fault) => {
                    warn!(%fault, %target, "pace not stored, it holds in this process");
                    return self.keep(target, Versioned { value: next, version: known.version });
                }
            }
            self.keep(target, known.clone());
        }
    }

    /// Registers that all slots are in use: the limit may grow when calls are answered.
    pub fn note_full(&self, target: &Target) {
        self.with(target, |seen| seen.is_full = true);
    }

    /// The latency that this process has observed, else the one that another process has stored.
    pub fn latency(&self, target: &Target) -> Option<Latency> {
        self.with(target, |seen| {
            seen.samples.summary().or_else(|| seen.pace.as_ref().and_then(|(_, pace)| pace.value.latency))
        })
    }

    /// Whether the model has answered a call since then.
    pub fn has_answered_since(&self, target: &Target, time: Timestamp) -> bool {
        self.with(target, |seen| seen.answered_at.is_some_and(|at| time < at))
    }

    /// Whether the model may hang: the oldest call in flight takes unusually long, and no other was answered for as
    /// long.
    pub fn is_stalled(&self, target: &Target) -> bool {
        let now = self.store.clock.now();
        let usual = match self.latency(target) {
            Some(latency) => (latency.high() * STALLED_FACTOR).max(STALLED_AFTER),
            None => STALLED_UNKNOWN_AFTER,
        };
        let (oldest, answered) =
            self.with(target, |seen| (seen.in_flight.values().next().copied(), seen.answered_at));
        oldest.is_some_and(|started| until(answered.map_or(started, |at| at.max(started)), now) > usual)
    }
}
