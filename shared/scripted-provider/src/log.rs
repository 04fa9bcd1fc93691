//! The record of calls: what was requested, how it ended, and how many were in flight.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use everypage_core::providers::target::Provider;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::{Behaviour, Call, Counts, ModelCount, Outcome, request::ModelRequest};

/// Calls stored in full; older ones are discarded and stay counted.
const MAX_CALLS: usize = 100_000;
/// Names counted separately; further ones share one entry, so that a client that invents names
/// can't grow the table.
const MAX_NAMES: usize = 1_000;
const OTHER: &str = "(other)";

#[derive(Default)]
struct State {
    seq: u64,
    calls: VecDeque<Call>,
    total: u64,
    in_flight: u64,
    max_in_flight: u64,
    disconnected: u64,
    models: BTreeMap<ModelKey, ModelCount>,
    behaviours: BTreeMap<String, u64>,
}

type ModelKey = (Provider, String);

/// Shared by the handle and every connection.
pub(super) struct CallLog {
    started: Instant,
    state: Mutex<State>,
    /// Notified at every change.
    changed: Notify,
}

impl CallLog {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { started: now(), state: Mutex::default(), changed: Notify::new() })
    }

    pub(super) fn begin(
        self: &Arc<Self>,
        request: &ModelRequest,
        with_key: bool,
        behaviour: &Behaviour,
        pause: Duration,
    ) -> OpenCall {
        let started_ms = self.now_ms();
        let mut state = self.state();
        let seq = state.seq + 1;
        state.push(Call {
            seq,
            provider: request.provider,
            model: request.model.clone(),
            page: request.page,
            has_image: request.has_image,
            image: request.image,
            tier: request.tier,
            with_key,
            behaviour: behaviour.clone(),
            delay_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            status: None,
            outcome: Outcome::InFlight,
            bytes_sent: 0,
            started_ms,
            finished_ms: None,
        });
        let model = state.count(request, behaviour);
        drop(state);
        self.changed.notify_waiters();
        OpenCall { log: Arc::clone(self), seq, model, status: None, slots: Vec::new(), ended: false }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state().calls.iter().cloned().collect()
    }

    pub(super) fn calls_after(&self, seq: u64) -> Vec<Call> {
        let state = self.state();
        let newer = state.calls.iter().rev().take_while(|call| call.seq > seq).count();
        state.calls.range(state.calls.len() - newer..).cloned().collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            total: state.total,
            in_flight: state.in_flight,
            max_in_flight: state.max_in_flight,
            disconnected: state.disconnected,
            models: state.models.values().cloned().collect(),
            behaviours: state.behaviours.clone(),
        }
    }

    /// Discards calls and counts; calls in flight stay counted as in flight.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        let State { calls, total, in_flight, max_in_flight, disconnected, models, behaviours, .. } =
            &mut *state;
        calls.clear();
        behaviours.clear();
        (*total, *max_in_flight, *disconnected) = (0, *in_flight, 0);
        models.retain(|_, count| count.in_flight > 0);
        for count in models.values_mut() {
            (count.calls, count.max_in_flight) = (0, count.in_flight);
            count.results.clear();
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
        self.state.lock()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(now().duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

impl State {
    fn push(&mut self, call: Call) {
        self.seq = call.seq;
        if self.calls.len() == MAX_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    fn count(&mut self, request: &ModelRequest, behaviour: &Behaviour) -> ModelKey {
        self.total += 1;
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        *self.behaviours.entry(counted_name(&self.behaviours, behaviour.to_string())).or_default() += 1;
        let known = self.models.contains_key(&(request.provider, request.model.clone()));
        let model = if known || self.models.len() < MAX_NAMES { &request.model } else { OTHER };
        let key = (request.provider, model.to_owned());
        let count = self.models.entry(key.clone()).or_insert_with(|| ModelCount::new(&key));
        count.calls += 1;
        count.in_flight += 1;
        count.max_in_flight = count.max_in_flight.max(count.in_flight);
        key
    }

    /// `None` when the call was discarded meanwhile.
    fn call(&mut self, seq: u64) -> Option<&mut Call> {
        let oldest = self.calls.front()?.seq;
        self.calls.get_mut(usize::try_from(seq.checked_sub(oldest)?).ok()?)
    }
}

fn counted_name(names: &BTreeMap<String, u64>, name: String) -> String {
    if names.contains_key(&name) || names.len() < MAX_NAMES { name } else { OTHER.to_owned() }
}

/// A call in flight. Dropped before it is [sent](Self::sent), it counts as disconnected.
pub(super) struct OpenCall {
    log: Arc<CallLog>,
    seq: u64,
    model: ModelKey,
    status: Option<u16>,
    slots: Vec<OwnedSemaphorePermit>,
    ended: bool,
}

impl OpenCall {
    /// Keeps the slots of limits until the call ends.
    pub(super) fn hold(&mut self, slots: Vec<OwnedSemaphorePermit>) {
        self.slots = slots;
    }

    pub(super) fn respond_with(&mut self, status: u16) {
        self.status = Some(status);
        if let Some(call) = self.log.state().call(self.seq) {
            call.status = Some(status);
        }
    }

    /// Counts bytes of the body as they are handed to the connection.
    pub(super) fn wrote(&self, bytes: usize) {
        if let Some(call) = self.log.state().call(self.seq) {
            call.bytes_sent += bytes as u64;
        }
    }

    /// Must be called before the last byte can reach the client: a client that calls again
    /// immediately must not find its previous call still in flight.
    pub(super) fn sent(&mut self) {
        self.end(Outcome::Sent);
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.slots.clear();
        let finished_ms = self.log.now_ms();
        let result = match (outcome, self.status) {
            (Outcome::Disconnected, _) => "disconnected".to_owned(),
            (_, Some(status)) => status.to_string(),
            (_, None) => "closed".to_owned(),
        };
        let mut state = self.log.state();
        state.in_flight -= 1;
        state.disconnected += u64::from(outcome == Outcome::Disconnected);
        if let Some(count) = state.models.get_mut(&self.model) {
            count.in_flight -= 1;
            *count.results.entry(result).or_default() += 1;
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
