//! The record of calls: what was asked, how it went, and how many were under way at once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use everypage_core::domain::target::Provider;
use tokio::sync::Notify;

use super::{Behaviour, Call, Counts, ModelCount, Outcome, request::Asked};

/// Calls kept in full; the counts go on when older ones are forgotten.
const CALLS_KEPT: usize = 100_000;
/// Names counted apart; a client that makes names up shares one entry after these.
const NAMES_KEPT: usize = 1_000;
const OTHER: &str = "(other)";

#[derive(Default)]
struct State {
    seq: u64,
    calls: VecDeque<Call>,
    total: u64,
    in_flight: u64,
    disconnected: u64,
    models: BTreeMap<ModelKey, ModelCount>,
    behaviours: BTreeMap<String, u64>,
}

type ModelKey = (Provider, String);

/// Shared by the handle and every connection.
pub(super) struct CallLog {
    started: Instant,
    state: Mutex<State>,
    /// Told at every change.
    changed: Notify,
}

impl CallLog {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { started: now(), state: Mutex::default(), changed: Notify::new() })
    }

    pub(super) fn begin(self: &Arc<Self>, asked: &Asked, with_key: bool, behaviour: &Behaviour) -> OpenCall {
        let started_ms = self.now_ms();
        let mut state = self.state();
        let seq = state.seq + 1;
        state.push(Call {
            seq,
            provider: asked.provider,
            model: asked.model.clone(),
            page: asked.page,
            has_image: asked.has_image,
            image: asked.image,
            with_key,
            behaviour: behaviour.clone(),
            outcome: Outcome::InFlight,
            bytes_sent: 0,
            started_ms,
            finished_ms: None,
        });
        let model = state.count(asked, behaviour);
        drop(state);
        self.changed.notify_waiters();
        OpenCall { log: Arc::clone(self), seq, model, ended: false }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state().calls.iter().cloned().collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            total: state.total,
            in_flight: state.in_flight,
            disconnected: state.disconnected,
            models: state.models.values().cloned().collect(),
            behaviours: state.behaviours.clone(),
        }
    }

    /// Forgets calls and counts; what is in flight goes on being counted as that.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        let State { calls, total, disconnected, models, behaviours, .. } = &mut *state;
        calls.clear();
        behaviours.clear();
        (*total, *disconnected) = (0, 0);
        models.retain(|_, count| count.in_flight > 0);
        for count in models.values_mut() {
            (count.calls, count.max_in_flight) = (0, count.in_flight);
        }
    }

    pub(super) async fn until(&self, met: impl Fn(&Counts) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if met(&self.counts()) {
                return;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(now().duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

impl State {
    fn push(&mut self, call: Call) {
        self.seq = call.seq;
        if self.calls.len() == CALLS_KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    fn count(&mut self, asked: &Asked, behaviour: &Behaviour) -> ModelKey {
        self.total += 1;
        self.in_flight += 1;
        *self.behaviours.entry(kept(&self.behaviours, behaviour.to_string())).or_default() += 1;
        let known = self.models.contains_key(&(asked.provider, asked.model.clone()));
        let model = if known || self.models.len() < NAMES_KEPT { &asked.model } else { OTHER };
        let key = (asked.provider, model.to_owned());
        let count = self.models.entry(key.clone()).or_insert_with(|| ModelCount::new(&key));
        count.calls += 1;
        count.in_flight += 1;
        count.max_in_flight = count.max_in_flight.max(count.in_flight);
        key
    }

    /// `None` when the call was forgotten meanwhile.
    fn call(&mut self, seq: u64) -> Option<&mut Call> {
        let oldest = self.calls.front()?.seq;
        self.calls.get_mut(usize::try_from(seq.checked_sub(oldest)?).ok()?)
    }
}

fn kept(names: &BTreeMap<String, u64>, name: String) -> String {
    if names.contains_key(&name) || names.len() < NAMES_KEPT { name } else { OTHER.to_owned() }
}

/// A call under way. Dropped before it is [sent](Self::sent), it counts as left by the client.
pub(super) struct OpenCall {
    log: Arc<CallLog>,
    seq: u64,
    model: ModelKey,
    ended: bool,
}

impl OpenCall {
    /// So many bytes of the body go out now.
    pub(super) fn wrote(&self, bytes: usize) {
        if let Some(call) = self.log.state().call(self.seq) {
            call.bytes_sent += bytes as u64;
        }
    }

    /// To be said before the last byte can reach the client: one that calls again at once must
    /// not find its previous call still in flight.
    pub(super) fn sent(&mut self) {
        self.end(Outcome::Sent);
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let finished_ms = self.log.now_ms();
        let mut state = self.log.state();
        state.in_flight -= 1;
        state.disconnected += u64::from(outcome == Outcome::Disconnected);
        if let Some(count) = state.models.get_mut(&self.model) {
            count.in_flight -= 1;
        }
        if let Some(call) = state.call(self.seq) {
            call.outcome = outcome;
            call.finished_ms = Some(finished_ms);
        }
        drop(state);
        self.log.changed.notify_waiters();
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.end(Outcome::Disconnected);
    }
}

#[expect(clippy::disallowed_methods, reason = "the provider plays the outside world, which has real time")]
fn now() -> Instant {
    Instant::now()
}
