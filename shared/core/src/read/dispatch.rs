//! One page message, from delivery to settled page.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{Either, select},
};
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error_span, warn};

use super::{
    PageReader, give_up,
    outcome::{ModelCall, PageOutcome},
    page_task::{LeasedUntil, PageTask, waits_until},
    pages::{self, Claim, LeaseLost, MessageRef, Page, Settled},
    report::{publish_if_late, report_settled},
    revive, telemetry,
};
use crate::{
    job::{
        Job, StepCode, StepError, credits, jobs,
        message::{PageMessage, PartialMessage},
    },
    ports::{
        Fault, Next,
        queue::{Delivery, Outgoing},
    },
    records::Versioned,
    settings::Settings,
    telemetry::{
        metrics::{Ended, Operation, processed},
        spans::Open,
    },
    time::until,
    trace::TraceContext,
};

/// What to do with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Delete it: its work is done, or can never be.
    Done,
    /// Deliver it again after this time.
    Later(Duration),
}

/// Handles one delivery. Never fails: what goes wrong here brings the message back, and after too many
/// deliveries makes it a dead letter.
pub async fn dispatch(reader: &PageReader, delivery: &Delivery) -> Disposition {
    dispatch_until(reader, delivery, Timestamp::MAX).await
}

/// Handles one delivery by a worker that has to leave by `leave_by`: it starts no call that may not end
/// before, and passes a page whose turn has not come by then on to another worker.
pub async fn dispatch_until(reader: &PageReader, delivery: &Delivery, leave_by: Timestamp) -> Disposition {
    let message = match PageMessage::parse(&delivery.body) {
        Ok(message) => message,
        Err(unreadable) => {
            return match give_up::on_message(reader, delivery, unreadable.to_string()).await {
                Ok(()) => Disposition::Done,
                Err(fault) => Disposition::Later(pause_after(&reader.settings, &fault)),
            };
        }
    };
    let log_span = error_span!(
        "page",
        job = %message.job_id,
        page = message.page_id.get(),
        tenant = %message.tenant,
        correlation = %message.correlation_id,
        trace = message.trace_id(),
    );
    let started_at = reader.store.clock.now();
    let mut span = telemetry::page_span(&reader.store, &message, delivery.receive_count);
    let disposition = async {
        match handle(reader, delivery, &message, span.as_ref().map(Open::context), leave_by).await {
            Ok(disposition) => disposition,
            Err(StepError::Fault(fault)) => later(reader, delivery, &message, &fault).await,
            Err(error) => match give_up::on_page(reader, delivery, &message, error.to_string()).await {
                Ok(()) => Disposition::Done,
                Err(fault) => later(reader, delivery, &message, &fault).await,
            },
        }
    }
    .instrument(log_span)
    .await;
    let ended = match disposition {
        Disposition::Done => Ended::Done,
        Disposition::Later(_) => Ended::Returned,
    };
    let took = until(started_at, reader.store.clock.now());
    processed(Operation::Page, message.priority, ended, took);
    if let (Disposition::Later(_), Some(span)) = (disposition, &mut span) {
        span.failed("comes_back");
    }
    disposition
}

/// Brings a message back after a fault of our own storage. As a new message, because deliveries count
/// crashes, and a throttled table is none; where that fails too, as this one.
async fn later(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    fault: &Fault,
) -> Disposition {
    let pause = pause_after(&reader.settings, fault);
    warn!(%fault, ?pause, "page goes back to the queue");
    // A fault that a retry can't repair is counted: the message becomes a dead letter.
    if fault.next() == Next::GiveUp {
        let is_last = delivery.receive_count >= reader.settings.max_receive_count;
        let given_up =
            is_last && give_up::on_page(reader, delivery, message, fault.to_string()).await.is_ok();
        return if given_up { Disposition::Done } else { Disposition::Later(pause) };
    }
    match pass_on(reader, delivery, message, pause).await {
        Ok(()) => Disposition::Done,
        Err(_) => Disposition::Later(pause),
    }
}

/// The pause that the refusing service asks for, else the longest of a retry.
fn pause_after(settings: &Settings, fault: &Fault) -> Duration {
    let requested = match fault {
        Fault::Throttled { retry_after, .. } => *retry_after,
        _ => None,
    };
    let usual = settings.retry_intervals.last().copied().unwrap_or(Duration::from_secs(1));
    requested.unwrap_or(usual).min(settings.page_visibility)
}

async fn handle(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    trace: Option<TraceContext>,
    leave_by: Timestamp,
) -> Result<Disposition, StepError> {
    if let Some(disposition) = read(reader, delivery, message, trace, leave_by).await? {
        return Ok(disposition);
    }
    // Nothing is left to do for it, unless the queue's own tools redrove a dead message.
    if let Some(revived) = revive::revived(reader, delivery, message).await?
        && let Some(disposition) = read(reader, delivery, &revived, trace, leave_by).await?
    {
        return Ok(disposition);
    }
    debug!("job or page is over, settled without AI");
    report_settled(reader, delivery, message).await
}

/// Reads the page and stores the outcome; `None` when the job or the page is over.
async fn read(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    trace: Option<TraceContext>,
    leave_by: Timestamp,
) -> Result<Option<Disposition>, StepError> {
    let (store, visibility) = (&reader.store, reader.settings.page_visibility);
    // Before the job is read: an interrupt that comes later is not missed.
    let interrupted = reader.interrupts.interrupted(&message.job_id);
    let Some(job) = jobs::find(store, &message.job_id).await?.map(|found| found.value) else {
        let reason = format!("there is no job {}", message.job_id);
        return Err(StepError::Broken { code: StepCode::UnknownJob, reason });
    };
    let now = store.clock.now();
    let Some(deadline) = deadline_of(&job, message, now) else { return Ok(None) };
    if delivery.receive_count > reader.settings.max_receive_count {
        // Given up, or a second copy of a message whose page is done or in progress.
        give_up::on_exhausted(reader, delivery, message).await?;
        return Ok(Some(Disposition::Done));
    }
    if message.rounds > 0
        && let Some(at) = wait_longer(reader, &job, message, deadline).await?
    {
        pass_on(reader, delivery, message, until(now, at)).await?;
        return Ok(Some(Disposition::Done));
    }
    let holder = store.holder();
    let this = MessageRef { id: delivery.id.clone(), redrive_count: message.redrive_count };
    let (page, redrive_count) = (message.page_id, message.redrive_count);
    let claim = pages::claim(store, &job.id, page, redrive_count, Some(this.clone()), &holder, visibility);
    let held = match claim.await? {
        Claim::Granted(held) => *held,
        Claim::AlreadyDone => return Ok(None),
        // The other message stays until the page is settled, or is replaced by a new one: this one is
        // not needed.
        Claim::Busy { message: Some(other), .. } if other.is_copied_by(&this) => {
            debug!("another worker has the page for another message, this copy is dropped");
            return Ok(Some(Disposition::Done));
        }
        Claim::Busy { until: busy, .. } => {
            debug!("another worker has the page");
            let soon = until(now, busy).clamp(Duration::from_secs(1), visibility);
            return Ok(Some(Disposition::Later(soon)));
        }
    };
    // Many pages may have been sent when there were credits for one; the rest become dead letters.
    if job.is_over()
        && let Err(error) = credits::check(store, &job, 1).await
    {
        pages::release(store, &held).await?;
        return Err(error);
    }
    let (rounds, earlier_calls) = (held.value.rounds, held.value.earlier_calls.clone());
    let first_round_at = held.value.first_round_at.unwrap_or(now);
    let leased_until = LeasedUntil::new(&held.value);
    let held = Arc::new(Mutex::new(held));
    let stop = CancellationToken::new();
    let heartbeat = async {
        let work = Work { delivery, job: &job, message, holder: &holder, leased_until: &leased_until };
        let stopped = keep_alive(reader, &work, interrupted, held.clone()).await;
        stop.cancel();
        stopped
    };
    let task = PageTask {
        reader,
        job: &job,
        message,
        holder: &holder,
        deadline,
        leave_by,
        trace,
        stop: &stop,
        leased_until: &leased_until,
        earlier_calls: &earlier_calls,
        rounds,
        first_round_at,
    };
    // A renewal in flight is not dropped: it would change the page's version unseen, and the outcome
    // would be refused.
    let renewed = async { drop(held.lock().await) };
    let (outcome, stopped) = with_heartbeat(task.run(), heartbeat, renewed).await;
    let held = held.lock().await.clone();
    // The worker that has the page now settles it; its message is this one or a copy.
    if let Some(Stopped::LeaseLost) = stopped {
        if let Ok(outcome) = &outcome {
            pages::record_calls(store, &job.id, message.page_id, outcome.calls()).await?;
        }
        return Ok(Some(Disposition::Later(visibility)));
    }
    match outcome {
        Err(error) => {
            pages::release(store, &held).await?;
            Err(error)
        }
        Ok(outcome) => {
            conclude(reader, delivery, message, &job, &held, first_round_at, outcome).await.map(Some)
        }
    }
}

/// Until when a page that came back has to wait longer, so that no worker claims it in vain. Its record shows that.
async fn wait_longer(
    reader: &PageReader,
    job: &Job,
    message: &PageMessage,
    deadline: Timestamp,
) -> Result<Option<Timestamp>, StepError> {
    let (store, now) = (&reader.store, reader.store.clock.now());
    let Some(page) = pages::find(store, &job.id, message.page_id).await? else { return Ok(None) };
    let last_call_at =
        page.value.earlier_calls.iter().map(ModelCall::ended_at).max().unwrap_or(Timestamp::MIN);
    let shown = page.value.waiting.as_ref();
    let Some(waiting) = waits_until(reader, job, message, shown, last_call_at).await? else {
        return Ok(None);
    };
    if waiting.until >= deadline {
        return Ok(None);
    }
    // What it shows may be as it is until that time has passed.
    if shown.is_some_and(|shown| shown.until <= now) {
        pages::wait_longer(store, &page, &waiting).await?;
    }
    Ok(Some(waiting.until))
}

/// Stores what came of the reading. The page is given back before its message, so that the next delivery
/// need not wait for the lease.
async fn conclude(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    job: &Job,
    held: &Versioned<Page>,
    first_round_at: Timestamp,
    outcome: PageOutcome,
) -> Result<Disposition, StepError> {
    let store = &reader.store;
    let (settlement, text) = match outcome {
        PageOutcome::Settled(settlement, text) => (settlement, text),
        PageOutcome::Stopped(calls) => {
            // Its message does not come back.
            if store.clock.now() >= job.deadline {
                let calls = held.value.earlier_calls.iter().chain(&calls);
                give_up::on_unknown_error(reader, delivery, message, calls).await?;
            }
            pages::release_after(store, held, calls).await?;
            return Ok(Disposition::Done);
        }
        PageOutcome::PassedOn(calls) => {
            pages::release_after(store, held, calls).await?;
            debug!("the worker leaves, page passed on");
            pass_on(reader, delivery, message, Duration::ZERO).await?;
            return Ok(Disposition::Done);
        }
        PageOutcome::Waiting(waiting, calls) => {
            pages::release_to_wait(store, held, calls, &waiting, first_round_at).await?;
            let delay = until(store.clock.now(), waiting.until);
            debug!(reason = waiting.reason.name(), target = %waiting.target, ?delay, "page waits");
            let message = PageMessage { rounds: waiting.rounds, ..message.clone() };
            pass_on(reader, delivery, &message, delay).await?;
            return Ok(Disposition::Done);
        }
        PageOutcome::Faulted(fault, calls) => {
            pages::release_after(store, held, calls).await?;
            return Err(fault.into());
        }
    };
    // The dead letter comes first: once the page is settled, no delivery would come back to write it.
    if !settlement.is_ai() {
        let calls = held.value.earlier_calls.iter().chain(&settlement.calls);
        give_up::on_unknown_error(reader, delivery, message, calls).await?;
    }
    let (blobs, rounds) = (reader.blobs.as_ref(), held.value.rounds + 1);
    let (calls, confidence) = (settlement.calls.clone(), settlement.confidence);
    let settled = pages::settle(store, blobs, job, held, message.redrive_count, settlement, text).await?;
    let Ok(settled) = settled else {
        pages::record_calls(store, &job.id, message.page_id, &calls).await?;
        return Ok(Disposition::Later(Duration::from_secs(1)));
    };
    telemetry::rounds(rounds);
    if let Some(confidence) = confidence {
        telemetry::confidence(confidence);
    }
    if settled == Settled::LastPage {
        reader.flow.pages_settled(&job.id).await?;
    }
    // The worker that publishes late pages does so for all of them, for as long as they come.
    while_hidden(reader, delivery, publish_if_late(reader, message)).await?;
    Ok(Disposition::Done)
}

/// Extends the message's visibility until `work` is done.
async fn while_hidden<T>(reader: &PageReader, delivery: &Delivery, work: impl Future<Output = T>) -> T {
    let visibility = reader.settings.page_visibility;
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = reader.store.clock.sleep(visibility / 3) => {}
        }
        let extended = std::pin::pin!(reader.queue.extend(&delivery.receipt, visibility));
        // One that is not extended in time is delivered again, and finds its page done.
        if let Either::Left((done, _)) = select(work.as_mut(), extended).await {
            return done;
        }
    }
}

/// Runs `work` to its end concurrently with `heartbeat`, and returns why that ended first if it did.
/// What the heartbeat is in the middle of is over when `idle` ends.
async fn with_heartbeat<T, S>(
    work: impl Future<Output = T>,
    heartbeat: impl Future<Output = S>,
    idle: impl Future<Output = ()>,
) -> (T, Option<S>) {
    let (work, heartbeat) = (std::pin::pin!(work), std::pin::pin!(heartbeat));
    match select(work, heartbeat).await {
        Either::Left((done, heartbeat)) => {
            select(std::pin::pin!(idle), heartbeat).await;
            (done, None)
        }
        // The work was cancelled: it releases what it holds and ends soon.
        Either::Right((stopped, work)) => (work.await, Some(stopped)),
    }
}

/// Until when this page may be worked on; `None` when no model should be called for it.
fn deadline_of(job: &Job, message: &PageMessage, now: Timestamp) -> Option<Timestamp> {
    if !job.is_over() {
        return (!job.is_halted(now)).then_some(job.deadline);
    }
    // Sent again after the result was published: it heals the result, by a deadline of its own.
    let heals = message.redrive_count > 0 && job.is_healable() && now < message.deadline;
    heals.then_some(message.deadline)
}

/// Sends the message once more, as a new one with a receive count of its own, before this one is deleted:
/// waiting is no failure, but deliveries are counted. A worker that dies in between leaves two messages,
/// which is harmless: a page's claim lets one worker through.
async fn pass_on(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    delay: Duration,
) -> Result<(), Fault> {
    // A queue may drop a message that has the name of one which is still there, as this one is.
    let name = format!("{}:a{}:{}", message.idempotency_key, message.redrive_count, reader.store.ids.fresh());
    let (job, body) = (message.job_id.clone(), message.encode()?);
    let delay = delay.min(reader.queue.max_delay());
    reader.queue.send(&[Outgoing { name, job, lane: delivery.lane, body, delay }]).await
}

/// Sends a received message once more, as a new one with a receive count of its own.
pub async fn send_copy(reader: &PageReader, delivery: &Delivery) -> Result<(), Fault> {
    let message = PartialMessage::of(&delivery.body);
    let Some(job) = message.job else {
        return Err(Fault::broken("queue", "the message names no job"));
    };
    let name = format!("copy:{}:{}", delivery.id, reader.store.ids.fresh());
    let (lane, body) = (delivery.lane, delivery.body.clone());
    reader.queue.send(&[Outgoing { name, job, lane, body, delay: Duration::ZERO }]).await
}

/// What a worker works on.
struct Work<'a> {
    delivery: &'a Delivery,
    job: &'a Job,
    message: &'a PageMessage,
    holder: &'a str,
    leased_until: &'a LeasedUntil,
}

enum Stopped {
    JobOver,
    LeaseLost,
}

/// Extends message and page every third of the visibility while the work continues, so that two heartbeats
/// may be lost before another worker takes over.
///
/// ```text
///  receive   beat     beat     beat           worker killed
///    |--------|--------|--------|--------------x
///    |---------- visibility ----|--------------|-----------| message and page are free again
/// ```
async fn keep_alive(
    reader: &PageReader,
    work: &Work<'_>,
    interrupted: impl Future<Output = ()> + Send + 'static,
    held: Arc<Mutex<Versioned<Page>>>,
) -> Stopped {
    let Work { delivery, job, message, holder, leased_until } = work;
    let visibility = reader.settings.page_visibility;
    let mut interrupted = interrupted.boxed();
    loop {
        tokio::select! {
            biased;
            () = reader.store.clock.sleep(visibility / 3) => {}
            () = &mut interrupted => {}
        }
        interrupted = reader.interrupts.interrupted(&job.id).boxed();
        let now = reader.store.clock.now();
        // A store that can't be reached just now is no reason to drop a call that is being paid for.
        match jobs::find(&reader.store, &job.id).await {
            Ok(Some(found)) if deadline_of(&found.value, message, now).is_none() => return Stopped::JobOver,
            Ok(_) => {}
            Err(fault) => warn!(%fault, "job not read, work continues"),
        }
        if let Err(fault) = reader.queue.extend(&delivery.receipt, visibility).await {
            warn!(%fault, "message not extended, work continues");
        }
        let mut held = held.lock().await;
        match pages::renew(&reader.store, &held, holder, visibility).await {
            Ok(Ok(renewed)) => {
                leased_until.renewed(&renewed.value);
                *held = renewed;
            }
            Ok(Err(LeaseLost)) => return Stopped::LeaseLost,
            Err(fault) => warn!(%fault, "lease not renewed, work continues"),
        }
    }
}
