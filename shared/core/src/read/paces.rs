//! The store of the models' paces, which all workers share, and what this process has seen of each model.
//!
//! A pace is read at most once a second and written only when it changes: at a rate limit, at the first
//! answer after one, and once per window while the limit grows. When the store can't be reached, the
//! process continues with what it knows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::{
    hedge,
    latency::{Latency, Samples},
    pace::Pace,
    telemetry,
};
use crate::{
    events::Store,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, When, Written},
        vision::{Allowance, Quota},
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
/// Longest pause because headers announce that nothing is left: a reset may be announced for when the
/// whole limit is free again, long after some of it is.
const MAX_HEADER_PAUSE: Duration = Duration::from_secs(20);
/// How often the observed latency is stored for other processes.
const LATENCY_INTERVAL: Duration = Duration::from_secs(60);

/// The paces as one process sees them.
#[derive(Clone)]
pub struct Paces {
    pub store: Store,
    pub settings: Arc<Settings>,
    seen: Arc<Mutex<HashMap<Target, Seen>>>,
}

/// What this process knows of one model.
#[derive(Default)]
struct Seen {
    pace: Option<(Timestamp, Versioned<Pace>)>,
    samples: Samples,
    latency_stored_at: Option<Timestamp>,
    /// When each call in flight started.
    in_flight: BTreeMap<u64, Timestamp>,
    next_call: u64,
    /// All slots were used since the limit changed last.
    is_full: bool,
    quota: Option<SeenQuota>,
    /// Tokens of an average call.
    tokens_per_call: f64,
    calls: u64,
    hedges: u64,
}

/// Calls that the provider's headers allow until they are reset.
struct SeenQuota {
    left: u64,
    resets_at: Timestamp,
    /// The first call that the headers do not count yet.
    counted_before: u64,
}

/// A call in flight, as [`Paces::begin`] noted it.
#[derive(Clone, Copy, Debug)]
pub struct StartedCall {
    id: u64,
    generation: u64,
    at: Timestamp,
}

impl Paces {
    pub fn new(store: Store, settings: Arc<Settings>) -> Self {
        Self { store, settings, seen: Arc::default() }
    }

    fn with<T>(&self, target: &Target, work: impl FnOnce(&mut Seen) -> T) -> T {
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

    /// Whether the quota in the provider's headers leaves room for one more call besides those in flight.
    pub fn has_quota(&self, target: &Target) -> bool {
        let now = self.store.clock.now();
        self.with(target, |seen| match &seen.quota {
            Some(quota) if now < quota.resets_at => {
                let uncounted = seen.in_flight.range(quota.counted_before..).count() as u64;
                uncounted < quota.left
            }
            _ => true,
        })
    }

    /// Notes that a call starts now.
    pub fn begin(&self, target: &Target) -> StartedCall {
        let at = self.store.clock.now();
        self.with(target, |seen| {
            let id = seen.next_call;
            seen.next_call += 1;
            seen.calls += 1;
            seen.in_flight.insert(id, at);
            let generation = seen.pace.as_ref().map_or(0, |(_, pace)| pace.value.generation);
            StartedCall { id, generation, at }
        })
    }

    /// Notes that a call is over without an answer of the model: cut off, or lost.
    pub fn end(&self, target: &Target, started_call: StartedCall) {
        self.with(target, |seen| seen.in_flight.remove(&started_call.id));
    }

    /// Notes a call that timed out: it took at least that long.
    pub fn timed_out(&self, target: &Target, started_call: StartedCall) {
        let took = until(started_call.at, self.store.clock.now());
        self.with(target, |seen| {
            seen.in_flight.remove(&started_call.id);
            // Without any answer the model is as unknown as before.
            if seen.samples.summary().is_some() {
                seen.samples.add(took);
            }
        });
    }

    /// Notes an answer: its latency, what the headers say is left, and that the limit may grow.
    pub async fn answered(
        &self,
        target: &Target,
        started_call: StartedCall,
        tokens: u64,
        allowance: &Allowance,
    ) {
        let now = self.store.clock.now();
        let (latency, is_full, used_up, is_latency_due) = self.with(target, |seen| {
            seen.in_flight.remove(&started_call.id);
            seen.samples.add(until(started_call.at, now));
            let average = if seen.tokens_per_call == 0.0 { tokens as f64 } else { seen.tokens_per_call };
            seen.tokens_per_call = average * 0.9 + tokens as f64 * 0.1;
            let quota = calls_left(allowance, seen.tokens_per_call);
            if let Some(Quota { left, resets_in }) = quota {
                let (resets_at, counted_before) = (after(now, resets_in), started_call.id + 1);
                seen.quota = Some(SeenQuota { left, resets_at, counted_before });
            }
            let used_up = quota.filter(|quota| quota.left == 0).map(|quota| quota.resets_in);
            let latency = seen.samples.summary();
            let is_due = seen.latency_stored_at.is_none_or(|at| now >= after(at, LATENCY_INTERVAL));
            if is_due && latency.is_some() {
                seen.latency_stored_at = Some(now);
            }
            (latency, seen.is_full, used_up, is_due && latency.is_some())
        });
        let max = self.settings.max_inflight_per_model;
        let used_up = used_up.map(|time| after(now, time.min(MAX_HEADER_PAUSE)));
        self.change(target, |pace| {
            let answered = pace.answered(started_call.generation);
            let next = answered.as_ref().unwrap_or(pace);
            let grown =
                latency.filter(|_| is_full).and_then(|latency| next.grown(latency.median(), max, now));
            let next = grown.as_ref().or(answered.as_ref());
            let paused = used_up.and_then(|until| next.unwrap_or(pace).used_up(until));
            let next = paused.as_ref().or(next);
            match (next, is_latency_due) {
                (None, false) => None,
                (next, _) => Some(Pace { latency: latency.or(pace.latency), ..next.unwrap_or(pace).clone() }),
            }
        })
        .await;
    }

    /// Notes a rate limit, with `in_flight` calls of all workers.
    pub async fn rate_limited(
        &self,
        target: &Target,
        started_call: StartedCall,
        in_flight: u32,
        retry_after: Option<Duration>,
    ) {
        self.end(target, started_call);
        let now = self.store.clock.now();
        self.change(target, |pace| pace.rate_limited(started_call.generation, in_flight, retry_after, now))
            .await;
        let pace = self.current(target).await;
        info!(%target, limit = pace.limit, pause = ?pace.paused(now).map(|end| until(now, end)), "rate limited");
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

    /// Notes that all slots are in use: the limit may grow when calls are answered.
    pub fn note_full(&self, target: &Target) {
        self.with(target, |seen| seen.is_full = true);
    }

    /// The latency that this process has observed, else the one that another process has stored.
    pub fn latency(&self, target: &Target) -> Option<Latency> {
        self.with(target, |seen| {
            seen.samples.summary().or_else(|| seen.pace.as_ref().and_then(|(_, pace)| pace.value.latency))
        })
    }

    /// Whether the oldest call in flight has taken so long that the model may hang.
    pub fn is_stalled(&self, target: &Target) -> bool {
        let now = self.store.clock.now();
        let usual = self.latency(target).map_or(Duration::ZERO, |latency| latency.high() * STALLED_FACTOR);
        let oldest = self.with(target, |seen| seen.in_flight.values().next().copied());
        oldest.is_some_and(|started| until(started, now) > usual.max(STALLED_AFTER))
    }

    /// Takes one of the few calls that may be doubled, of all calls to all models of this process.
    pub fn take_hedge(&self, target: &Target, is_last_chance: bool) -> bool {
        let mut seen = self.seen.lock();
        let (calls, hedges) =
            seen.values().fold((0, 0), |(calls, hedges), one| (calls + one.calls, hedges + one.hedges));
        let is_granted = is_last_chance || hedge::is_within_budget(calls, hedges);
        if is_granted && !is_last_chance {
            seen.entry(target.clone()).or_default().hedges += 1;
        }
        is_granted
    }
}

/// The calls that the tightest of the limits leaves, and when that limit is reset.
fn calls_left(allowance: &Allowance, tokens_per_call: f64) -> Option<Quota> {
    let by_tokens = allowance
        .tokens
        .map(|quota| Quota { left: (quota.left as f64 / tokens_per_call.max(1.0)) as u64, ..quota });
    allowance.requests.into_iter().chain(by_tokens).min_by_key(|quota| quota.left)
}
