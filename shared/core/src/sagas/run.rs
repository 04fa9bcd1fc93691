//! Runs sagas: each step is recorded before and after it, so that any process can continue what another
//! one started. The decisions are in [`super::decide`].

use std::{fmt::Display, time::Duration};

use async_trait::async_trait;
use futures::{
    StreamExt,
    future::{pending, ready},
    stream,
};
use jiff::Timestamp;
use tracing::warn;

use super::{
    decide::{StepFailure, Task},
    definition::SagaStep,
    progress::{Progress, SagaEvent},
};
use crate::{
    ids::TenantId,
    ports::{Fault, clock::Clock},
    records::Versioned,
    time::{after, until},
};

/// Sagas of a kind that are continued concurrently.
const MAX_CONCURRENT: usize = 16;
/// Active sagas that are listed in one request.
const BATCH_SIZE: usize = 100;
/// How often sagas that other processes started are looked up.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The result of a step.
pub enum Ran<E> {
    /// All of it. The effect is written in one batch with the event that it is done.
    Done(E),
    /// A part of it; it is run again after the pause, as often as it takes.
    Partly(E, Duration),
}

/// Why events were not recorded.
pub enum AdvanceError {
    /// The store refuses the effect, and nothing was written.
    Refused(String),
    Fault(Fault),
}

impl From<Fault> for AdvanceError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// One kind of saga: where its records are, and what its steps do.
#[async_trait]
pub trait Saga: Sync {
    type Step: SagaStep;
    type Id: Display + Clone + Send + Sync;
    type Record: Send + Sync;
    /// What a step changes in the store, written with the event that it is done.
    type Effect: Default + Send;

    fn clock(&self) -> &dyn Clock;

    /// The pauses between tries of a step.
    fn pauses(&self) -> &[Duration];

    /// Whether this process has what the steps need.
    fn can_run(&self) -> bool;

    fn id(record: &Self::Record) -> &Self::Id;

    fn tenant(record: &Self::Record) -> &TenantId;

    fn progress(record: &Self::Record) -> &Progress<Self::Step>;

    async fn find(&self, id: &Self::Id) -> Result<Option<Versioned<Self::Record>>, Fault>;

    /// Sagas that continue by themselves, in the order in which they are due.
    async fn list_active(&self, limit: usize) -> Result<Vec<Versioned<Self::Record>>, Fault>;

    /// Records events together with an effect; `None` if another process changed the record.
    async fn advance(
        &self,
        before: &Versioned<Self::Record>,
        events: Vec<SagaEvent<Self::Step>>,
        effect: Self::Effect,
    ) -> Result<Option<Versioned<Self::Record>>, AdvanceError>;

    /// Runs a step. It may run again after any failure, and concurrently if a try exceeds its timeout.
    async fn run(&self, record: &Self::Record, step: Self::Step) -> Result<Ran<Self::Effect>, StepFailure>;

    /// Undoes a step, or says why that failed. It may run again like a step.
    async fn undo(&self, record: &Self::Record, step: Self::Step) -> Result<Self::Effect, String>;
}

/// Runs the steps of a saga for up to `patience`; other processes run those that are due later. `None` if
/// there is no such saga.
pub async fn drive<S: Saga>(saga: &S, id: &S::Id, patience: Duration) -> Result<Option<S::Record>, Fault> {
    let end = after(saga.clock().now(), patience);
    loop {
        let Some(found) = saga.find(id).await? else { return Ok(None) };
        let progress = S::progress(&found.value);
        let (now, due) = (saga.clock().now(), progress.due);
        if !progress.state.is_active() || due > end || now > end || !saga.can_run() {
            return Ok(Some(found.value));
        }
        match until(now, due) {
            Duration::ZERO => run_next_task(saga, &found).await?,
            pause => saga.clock().sleep(pause).await,
        }
    }
}

/// Runs or undoes one step, or ends a compensation.
async fn run_next_task<S: Saga>(saga: &S, before: &Versioned<S::Record>) -> Result<(), Fault> {
    let progress = S::progress(&before.value);
    let Some(task) = progress.next_task() else {
        if let Some(end) = progress.end_compensation() {
            advance(saga, before, vec![end]).await?;
        }
        return Ok(());
    };
    let start = progress.start(task, saga.clock().now());
    let Some(started) = advance(saga, before, vec![start]).await? else { return Ok(()) };
    match task {
        Task::Run(step) => run_step(saga, &started, step).await,
        Task::Undo(step) => undo_step(saga, &started, step).await,
    }
}

async fn run_step<S: Saga>(saga: &S, before: &Versioned<S::Record>, step: S::Step) -> Result<(), Fault> {
    let progress = S::progress(&before.value);
    let (events, effect) = match saga.run(&before.value, step).await {
        Ok(Ran::Done(effect)) => (progress.step_done(step), effect),
        Ok(Ran::Partly(effect, pause)) => {
            let again = after(saga.clock().now(), pause);
            (vec![SagaEvent::StepContinued { step, again }], effect)
        }
        Err(failure) => return record_failure(saga, before, step, failure).await,
    };
    match saga.advance(before, events, effect).await {
        // Not completed yet, or another process was faster: the next pass finds what is due.
        Ok(_) => Ok(()),
        Err(AdvanceError::Refused(reason)) => {
            record_failure(saga, before, step, StepFailure::Refused(reason)).await
        }
        Err(AdvanceError::Fault(fault)) => Err(fault),
    }
}

async fn record_failure<S: Saga>(
    saga: &S,
    before: &Versioned<S::Record>,
    step: S::Step,
    failure: StepFailure,
) -> Result<(), Fault> {
    let (saga_kind, record) = (S::Step::definition().kind, &before.value);
    warn!(saga = saga_kind, id = %S::id(record), tenant = %S::tenant(record), step = step.name(), ?failure, "saga step failed");
    let events = S::progress(record).step_failed(step, failure, saga.clock().now(), saga.pauses());
    advance(saga, before, events).await?;
    Ok(())
}

async fn undo_step<S: Saga>(saga: &S, before: &Versioned<S::Record>, step: S::Step) -> Result<(), Fault> {
    let (saga_kind, record) = (S::Step::definition().kind, &before.value);
    let reason = match saga.undo(record, step).await {
        Ok(effect) => match saga.advance(before, vec![SagaEvent::UndoDone { step }], effect).await {
            Ok(_) => return Ok(()),
            Err(AdvanceError::Refused(reason)) => reason,
            Err(AdvanceError::Fault(fault)) => return Err(fault),
        },
        Err(reason) => reason,
    };
    warn!(saga = saga_kind, id = %S::id(record), tenant = %S::tenant(record), step = step.name(), reason, "saga step not undone");
    let failed = S::progress(record).undo_failed(step, reason, saga.clock().now(), saga.pauses());
    advance(saga, before, vec![failed]).await?;
    Ok(())
}

/// Records events without an effect, which can't be refused.
async fn advance<S: Saga>(
    saga: &S,
    before: &Versioned<S::Record>,
    events: Vec<SagaEvent<S::Step>>,
) -> Result<Option<Versioned<S::Record>>, Fault> {
    saga.advance(before, events, S::Effect::default()).await.map_err(|error| match error {
        AdvanceError::Fault(fault) => fault,
        AdvanceError::Refused(reason) => Fault::broken("saga", reason),
    })
}

/// Continues every due saga, and starts no step after `end`; returns the number of steps, and when the next
/// saga is due.
async fn run_due<S: Saga>(saga: &S, end: Timestamp) -> Result<(usize, Option<Timestamp>), Fault> {
    let now = saga.clock().now();
    let due_at = |found: &Versioned<S::Record>| S::progress(&found.value).due;
    let active = saga.list_active(BATCH_SIZE).await?;
    let (due, later): (Vec<_>, Vec<_>) = active.into_iter().partition(|found| due_at(found) <= now);
    let runs = stream::iter(due).map(|found| async move {
        let id = S::id(&found.value);
        match run_while_due(saga, id, end).await {
            Ok(steps) => steps,
            Err(fault) => {
                warn!(saga = S::Step::definition().kind, %id, %fault, "saga can't be continued; retrying");
                saga.clock().sleep(POLL_INTERVAL).await;
                0
            }
        }
    });
    let steps = runs.buffer_unordered(MAX_CONCURRENT).fold(0, |sum, steps| ready(sum + steps)).await;
    Ok((steps, later.first().map(due_at)))
}

/// Runs tasks of a saga while they are due; returns how many. It reads the saga before each one, because
/// the index that listed it lags behind.
async fn run_while_due<S: Saga>(saga: &S, id: &S::Id, end: Timestamp) -> Result<usize, Fault> {
    let mut steps = 0;
    loop {
        let now = saga.clock().now();
        let due = saga.find(id).await?.filter(|found| {
            let progress = S::progress(&found.value);
            progress.state.is_active() && progress.due <= now
        });
        let Some(found) = due.filter(|_| now < end) else { return Ok(steps) };
        run_next_task(saga, &found).await?;
        steps += 1;
    }
}

/// Continues sagas as they become due; never returns.
pub async fn run<S: Saga>(saga: &S) {
    if !saga.can_run() {
        return pending().await;
    }
    loop {
        let pause = match run_due(saga, Timestamp::MAX).await {
            Ok((0, next)) => {
                next.map_or(POLL_INTERVAL, |next| until(saga.clock().now(), next).min(POLL_INTERVAL))
            }
            Ok(_) => continue,
            Err(fault) => {
                warn!(saga = S::Step::definition().kind, %fault, "due sagas can't be listed; retrying");
                POLL_INTERVAL
            }
        };
        saga.clock().sleep(pause.max(Duration::from_millis(1))).await;
    }
}

/// Continues due sagas until none is due within `time`, for a process that ends; returns the number of
/// steps.
pub async fn run_for<S: Saga>(saga: &S, time: Duration) -> Result<usize, Fault> {
    let end = after(saga.clock().now(), time);
    let mut steps = 0;
    while saga.can_run() {
        let (count, next) = run_due(saga, end).await?;
        steps += count;
        let now = saga.clock().now();
        match next {
            _ if now >= end => break,
            _ if count > 0 => {}
            Some(next) if next < end => saga.clock().sleep(until(now, next)).await,
            _ => break,
        }
    }
    Ok(steps)
}
