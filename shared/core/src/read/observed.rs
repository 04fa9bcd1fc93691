//! Observations of one process on one model: calls in flight, latencies, answers, refusals and announced
//! limits. Nothing of it is stored, except through the model's pace.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    latency::{Latency, MIN_SAMPLES, Samples},
    pace::Pace,
    quota::{Announced, TokensPerCall},
    throughput::Throughput,
};
use crate::{
    ports::vision::{Allowance, Usage},
    providers::target::Target,
    records::Versioned,
};

/// The limit does not grow while calls take this many times as long as at best, and this much more.
const SLOWER_FACTOR: u32 = 2;
const SLOWER_MARGIN: Duration = Duration::from_millis(250);

/// The observations of this process on one model.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) pace: Option<(Timestamp, Versioned<Pace>)>,
    pub(super) samples: Samples,
    /// The shortest usual latency so far.
    best_median: Option<Duration>,
    pub(super) latency_stored_at: Option<Timestamp>,
    /// When each call in flight started.
    pub(super) in_flight: BTreeMap<u64, Timestamp>,
    pub(super) next_call: u64,
    /// All slots were used since the limit changed last.
    pub(super) is_full: bool,
    /// What the headers of the latest call with any have announced.
    announced: Option<SeenAllowance>,
    /// Calls after that one that were refused, and so took nothing.
    pub(super) refused_since: BTreeSet<u64>,
    pub(super) throughput: Throughput,
    pub(super) answered_at: Option<Timestamp>,
    /// The latest refusal because of a limit of tokens.
    pub(super) tokens_refused_at: Option<Timestamp>,
    /// The latest generation with an answer, and with a rate limit.
    pub(super) answered_generation: Option<u64>,
    pub(super) refused_generation: Option<u64>,
    /// Rate limits that are not part of the pace yet: those that come together are stored together.
    pub(super) refused: Vec<Refused>,
    /// Input and output tokens of an average call; 0 before one was answered.
    input_per_call: f64,
    output_per_call: f64,
}

/// The limits that the provider announced in the headers of a call.
struct SeenAllowance {
    call: u64,
    at: Timestamp,
    allowance: Allowance,
}

/// A call that was refused by a rate limit.
pub(super) struct Refused {
    pub(super) generation: u64,
    /// Calls in flight, if some of this generation had been answered.
    pub(super) in_flight: Option<u32>,
    pub(super) retry_after: Option<Duration>,
}

/// A call in flight; it is over when this is dropped.
pub struct StartedCall {
    pub(super) id: u64,
    pub(super) generation: u64,
    pub(super) at: Timestamp,
    pub(super) target: Target,
    pub(super) seen: Arc<Mutex<HashMap<Target, Observed>>>,
}

impl Drop for StartedCall {
    fn drop(&mut self) {
        if let Some(seen) = self.seen.lock().get_mut(&self.target) {
            seen.in_flight.remove(&self.id);
        }
    }
}

impl Observed {
    /// Keeps what a call's headers announce, unless those of a later call are known.
    pub(super) fn announce(&mut self, call: &StartedCall, allowance: &Allowance, now: Timestamp) {
        let is_newer = self.announced.as_ref().is_none_or(|seen| seen.call <= call.id);
        if allowance.quotas().next().is_some() && is_newer {
            self.announced = Some(SeenAllowance { call: call.id, at: call.at, allowance: *allowance });
        } else if self.announced().is_some_and(|announced| announced.is_over(now)) {
            self.announced = None;
        }
        // Only the refusals after that call are ever looked at.
        match &self.announced {
            Some(seen) => self.refused_since = self.refused_since.split_off(&(seen.call + 1)),
            None => self.refused_since.clear(),
        }
    }

    pub(super) fn announced(&self) -> Option<Announced> {
        let seen = self.announced.as_ref()?;
        let refused = self.refused_since.range(seen.call + 1..).count() as u64;
        let started = self.next_call.saturating_sub(seen.call + 1);
        let started_since = started.saturating_sub(refused);
        Some(Announced { allowance: seen.allowance, at: seen.at, started_since })
    }

    /// Adds what a call took to the averages.
    pub(super) fn used(&mut self, usage: &Usage) {
        let averages = [
            (&mut self.input_per_call, usage.input_tokens),
            (&mut self.output_per_call, usage.output_tokens),
        ];
        for (average, tokens) in averages {
            let tokens = tokens as f64;
            *average = if *average == 0.0 { tokens } else { *average * 0.9 + tokens * 0.1 };
        }
    }

    pub(super) fn tokens_per_call(&self) -> TokensPerCall {
        let known = |average: f64| (average > 0.0).then_some(average);
        TokensPerCall { input: known(self.input_per_call), output: known(self.output_per_call) }
    }

    pub(super) fn quota_wait(&self, part: f64, now: Timestamp) -> Option<Duration> {
        self.announced()?.wait(self.tokens_per_call(), part, now)
    }

    /// Whether calls take much longer than they did: the provider queues them, and more calls in flight would
    /// only wait longer.
    pub(super) fn is_slower(&mut self, latency: Latency) -> bool {
        if latency.samples >= MIN_SAMPLES {
            self.best_median =
                Some(self.best_median.map_or(latency.median(), |best| best.min(latency.median())));
        }
        self.best_median.is_some_and(|best| latency.median() > best * SLOWER_FACTOR + SLOWER_MARGIN)
    }
}
