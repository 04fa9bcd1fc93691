//! One page message, from delivery to settled page.

use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use futures::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::Mutex;
use tracing::{Instrument, debug, error_span, warn};

use crate::{
    document::{ImageFormat, Reason},
    ids::TaskToken,
    job::{Job, StepCode, StepError, credits, jobs, message::PageMessage},
    ports::{
        Fault,
        blobs::Blobs,
        flow::{Flow, Settlement},
        queue::{Delivery, Outgoing},
        vision::{PageRequest, RequestImage},
    },
    prepare::{StoredPage, stored_pages},
    providers::target::Target,
    read::{
        PageReader, give_up,
        outcome::{ModelCall, CallResult, Outcome},
        pages::{self, Claim, Page},
        revive,
        round::{Questions, Round, ask},
        telemetry,
    },
    records::Versioned,
    settings::Settings,
    telemetry::spans::Open,
    tenants,
    time::{after, until},
    trace::TraceContext,
};

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Its work is done, or it can never be: take it off the queue.
    Done,
    /// It comes back after this.
    Later(Duration),
}

/// Handles one delivery. Never fails: what goes wrong here brings the message back, and in the
/// end among the dead letters.
pub async fn dispatch(reader: &PageReader, delivery: &Delivery) -> Disposition {
    dispatch_until(reader, delivery, Timestamp::MAX).await
}

/// The same for a worker that has to leave by `leave_by`: no call is begun that may not end before. A
/// page whose turn has not come by then is passed on to another worker.
pub async fn dispatch_until(reader: &PageReader, delivery: &Delivery, leave_by: Timestamp) -> Disposition {
    let message = match PageMessage::parse(&delivery.body) {
        Ok(message) => message,
        Err(unreadable) => {
            return match give_up::on_message(reader, delivery, unreadable.to_string()).await {
                Ok(()) => Disposition::Done,
                Err(fault) => later(&reader.settings, delivery, &fault),
            };
        }
    };
    let span = error_span!(
        "page",
        job = %message.job_id,
        page = message.page_id.get(),
        tenant = %message.tenant,
        correlation = %message.correlation_id,
        trace = message.trace_id(),
    );
    let mut traced = telemetry::page_span(&reader.store, &message, delivery.receive_count);
    let done = async {
        match handle(reader, delivery, &message, traced.as_ref().map(Open::context), leave_by).await {
            Ok(disposition) => disposition,
            Err(StepError::Fault(fault)) => later(&reader.settings, delivery, &fault),
            Err(error) => match give_up::on_page(reader, delivery, &message, error.to_string()).await {
                Ok(()) => Disposition::Done,
                Err(fault) => later(&reader.settings, delivery, &fault),
            },
        }
    }
    .instrument(span)
    .await;
    if let (Disposition::Later(_), Some(traced)) = (done, &mut traced) {
        traced.failed("comes_back");
    }
    done
}

/// After as long as whoever refused asks for, and else longer each time: a message has few
/// deliveries, and an outage must not use them up within seconds.
fn later(settings: &Settings, delivery: &Delivery, fault: &Fault) -> Disposition {
    let intervals = &settings.retry_intervals;
    let asked = match fault {
        Fault::Throttled { retry_after, .. } => *retry_after,
        _ => None,
    };
    let earlier = delivery.receive_count.saturating_sub(1) as usize;
    let usual = intervals.get(earlier).or(intervals.last()).copied().unwrap_or(Duration::from_secs(1));
    let pause = asked.unwrap_or(usual).min(settings.page_visibility);
    warn!(%fault, ?pause, "page goes back to the queue");
    Disposition::Later(pause)
}

async fn handle(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    trace: Option<TraceContext>,
    leave_by: Timestamp,
) -> Result<Disposition, StepError> {
    if let Some(disposition) = attend(reader, delivery, message, trace, leave_by).await? {
        return Ok(disposition);
    }
    // Nothing is left to do for it, unless the queue's own tools brought it back from the dead.
    if let Some(revived) = revive::revived(reader, delivery, message).await?
        && let Some(disposition) = attend(reader, delivery, &revived, trace, leave_by).await?
    {
        return Ok(disposition);
    }
    debug!("job or page is over, settled without AI");
    settle_and_heal(reader, message).await?;
    Ok(Disposition::Done)
}

/// What becomes of a message whose page still has to be read; `None` when the job or the page is
/// over.
async fn attend(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    trace: Option<TraceContext>,
    leave_by: Timestamp,
) -> Result<Option<Disposition>, StepError> {
    let Some(job) = jobs::find(&reader.store, &message.job_id).await?.map(|kept| kept.value) else {
        return Err(StepError::Broken {
            code: StepCode::UnknownJob,
            reason: format!("there is no job {}", message.job_id),
        });
    };
    let now = reader.store.clock.now();
    let Some(deadline) = time_for(&job, message, now) else { return Ok(None) };
    if delivery.receive_count > reader.settings.max_receive_count {
        // Given up, or a second copy of a message whose page is done or in good hands.
        give_up::on_exhausted(reader, delivery, message).await?;
        return Ok(Some(Disposition::Done));
    }
    let holder = reader.store.holder();
    let visibility = reader.settings.page_visibility;
    let held =
        match pages::claim(&reader.store, &job.id, message.page_id, message.attempt, &holder, visibility)
            .await?
        {
            Claim::Granted(held) => *held,
            Claim::AlreadyDone => return Ok(None),
            Claim::Busy { until: busy } => {
                debug!("another worker has the page");
                let soon = until(now, busy).clamp(Duration::from_secs(1), visibility);
                return Ok(Some(Disposition::Later(soon)));
            }
        };
    // Many pages may have been sent while there were credits for one; a person sees those without.
    if job.is_over()
        && let Err(error) = credits::check(&reader.store, &job, 1).await
    {
        pages::release(&reader.store, &held).await?;
        return Err(error);
    }
    let held = Arc::new(Mutex::new(held));
    let stop = CancellationToken::new();
    let alive = async {
        let stopped = keep_alive(reader, delivery, &job, message, &holder, held.clone()).await;
        stop.cancel();
        stopped
    };
    let reading = read_page(reader, message, trace, &holder, deadline, leave_by, &stop);
    // A renewal on its way is not dropped: it would change the page's version unseen, and the answer
    // would be refused.
    let renewed = async { drop(held.lock().await) };
    let (read, stopped) = while_alive(reading, alive, renewed).await;
    let held = held.lock().await.clone();
    // Whoever has the page now will settle it; its message is this one or a copy.
    if let Some(Stopped::LeaseLost) = stopped {
        return Ok(Some(Disposition::Later(visibility)));
    }
    let (outcome, text) = match read {
        Ok(Reading::Settled(outcome, text)) => (outcome, text),
        // The job is over: what was held is given back and nothing is stored for the page.
        Ok(Reading::Stopped) => {
            pages::release(&reader.store, &held).await?;
            settle_token(reader.flow.as_ref(), message.task_token.as_ref()).await?;
            return Ok(Some(Disposition::Done));
        }
        // Given back first, so that the next worker finds the page free.
        Ok(Reading::NotItsTurn) => {
            pages::release(&reader.store, &held).await?;
            pass_on(reader, delivery, message).await?;
            return Ok(Some(Disposition::Done));
        }
        Ok(Reading::BrokenOff(attempts)) => {
            pages::release_after(&reader.store, &held, attempts).await?;
            return Ok(Some(Disposition::Later(Duration::from_secs(1))));
        }
        // Given back, so that the next delivery need not wait for the lease to run out.
        Ok(Reading::Faulted(fault, attempts)) => {
            pages::release_after(&reader.store, &held, attempts).await?;
            return Err(fault.into());
        }
        Err(error) => {
            pages::release(&reader.store, &held).await?;
            return Err(error);
        }
    };
    // Nobody knows what such an error means: a person should see it, and may send the page again.
    // The letter comes first: once the page is settled, no delivery would come back to write it.
    let unknown = outcome.attempts.iter().find(|attempt| attempt.result == CallResult::Unknown);
    if let Some(attempt) = unknown.filter(|_| !outcome.is_ai()) {
        give_up::add_page_dead_letter(reader, delivery, message, attempt.detail.clone()).await?;
    }
    if pages::settle(&reader.store, reader.blobs.as_ref(), &job, &held, message.attempt, outcome, text)
        .await?
        .is_err()
    {
        return Ok(Some(Disposition::Later(Duration::from_secs(1))));
    }
    settle_and_heal(reader, message).await?;
    Ok(Some(Disposition::Done))
}

/// Runs `work` to its end beside `alive`, and tells whether and why that ended first.
/// What `alive` is in the middle of is over when `idle` ends.
async fn while_alive<T, S>(
    work: impl Future<Output = T>,
    alive: impl Future<Output = S>,
    idle: impl Future<Output = ()>,
) -> (T, Option<S>) {
    let (work, alive) = (std::pin::pin!(work), std::pin::pin!(alive));
    match select(work, alive).await {
        Either::Left((done, alive)) => {
            select(std::pin::pin!(idle), alive).await;
            (done, None)
        }
        // It was told to stop, puts away what it holds and ends soon.
        Either::Right((stopped, work)) => (work.await, Some(stopped)),
    }
}

/// Until when this page may be worked on; `None` when there is no point in asking an AI.
fn time_for(job: &Job, message: &PageMessage, now: Timestamp) -> Option<Timestamp> {
    if !job.is_over() {
        return (!job.is_halted(now)).then_some(job.deadline);
    }
    // Sent again after the result was published: it heals the result, by a deadline of its own.
    let heals = message.attempt > 0 && job.is_healable() && now < message.deadline;
    heals.then_some(message.deadline)
}

/// Waiting is no failure, but deliveries are counted: the message is sent once more, as a new one with
/// a count of its own, before this one is done with. Should the worker die in between there are two,
/// which is harmless: a page's claim lets one worker through.
async fn pass_on(reader: &PageReader, delivery: &Delivery, message: &PageMessage) -> Result<(), Fault> {
    // A queue may drop a message that has the name of one which is still there, as this one is.
    let name = format!("{}:a{}:{}", message.idempotency_key, message.attempt, reader.store.ids.fresh());
    let (job, body) = (message.job_id.clone(), delivery.body.clone());
    debug!("no turn for the page yet, passed on");
    reader.queue.send(&[Outgoing { name, job, lane: delivery.lane, body }]).await
}

/// How the reading of a page ended.
enum Reading {
    Settled(Outcome, Option<String>),
    /// The job is over, or the page is somebody else's.
    Stopped,
    /// The worker has to leave, and no model was asked yet.
    NotItsTurn,
    /// The same with models that were asked in vain: another delivery that led to nothing.
    BrokenOff(Vec<ModelCall>),
    /// Our own storage failed while models were asked.
    Faulted(Fault, Vec<ModelCall>),
}

/// The whole of the reading: from stored text and image to an outcome.
async fn read_page(
    reader: &PageReader,
    message: &PageMessage,
    trace: Option<TraceContext>,
    holder: &str,
    deadline: Timestamp,
    leave_by: Timestamp,
    stop: &CancellationToken,
) -> Result<Reading, StepError> {
    let started = reader.store.clock.now();
    let settings = tenants::settings(&reader.tenants, &message.tenant).await?;
    let stored = stored_page(reader.blobs.as_ref(), message).await?;
    // Its image could not be made: a model would have to invent the page.
    if message.image.is_none() && stored.text.trim().is_empty() {
        let why = "the page has neither an image nor words to send".to_owned();
        return Ok(Reading::Settled(Outcome::fallback(why, vec![], started, reader.store.clock.now()), None));
    }
    let image = match &message.image {
        None => None,
        Some(image) => {
            let bytes = reader.blobs.get(&image.key).await?.ok_or_else(|| StepError::Broken {
                code: StepCode::ImageMissing,
                reason: format!("{} is gone", image.key),
            })?;
            let format =
                if image.mime == ImageFormat::Png.mime() { ImageFormat::Png } else { ImageFormat::Jpeg };
            Some(RequestImage { format, bytes: bytes.into() })
        }
    };
    let context_text = match &message.context_key {
        None => message.context_text.clone(),
        Some(key) => {
            let bytes = reader.blobs.get(key).await?.ok_or_else(|| StepError::Broken {
                code: StepCode::ContextMissing,
                reason: format!("{key} is gone"),
            })?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    let request = PageRequest {
        system_prompt: settings.system_prompt.clone(),
        context_text,
        image,
        max_output_tokens: reader.settings.max_output_tokens,
    };
    let steps: Vec<Target> = settings.failover_order().starting_with(message.ai_provider).steps(message.model_tier);
    // A scan's OCR layer is often worse than what the model reads: it is no measure.
    let sound = matches!(stored.reason, Reason::Text | Reason::Image | Reason::VectorFigure);
    let questions = Questions {
        steps: &steps,
        request_timeout: settings.request_timeout,
        request: &request,
        text_layer: sound.then_some(stored.text.as_str()),
        deadline,
        begin_by: begin_by(started, leave_by, settings.request_timeout),
        leave_by,
        holder,
        priority: message.priority,
        tenant: &message.tenant,
        trace,
        stop,
    };
    let round = ask(reader, &questions).await;
    let now = reader.store.clock.now();
    Ok(match round {
        Round::Answered { target, text, attempts } => {
            Reading::Settled(Outcome::read_by(target, &text, attempts, started, now), Some(text))
        }
        Round::Exhausted { why, attempts } => {
            Reading::Settled(Outcome::fallback(why, attempts, started, now), None)
        }
        // The time of a page that heals is not the job's, whose deadline may never have come.
        Round::OutOfTime { attempts } if message.attempt > 0 => {
            let why = "there was no answer in the time that was given for healing".to_owned();
            Reading::Settled(Outcome::fallback(why, attempts, started, now), None)
        }
        Round::OutOfTime { attempts } => Reading::Settled(Outcome::timed_out(attempts, started, now), None),
        Round::NoTimeToAsk { attempts } => {
            let skipped = |attempt: &ModelCall| attempt.result == CallResult::BreakerOpen;
            if attempts.iter().all(skipped) { Reading::NotItsTurn } else { Reading::BrokenOff(attempts) }
        }
        Round::Faulted { fault, attempts } => Reading::Faulted(fault, attempts),
        Round::Stopped => Reading::Stopped,
    })
}

/// The last moment for a call of at most `call` to begin. A worker that lives shorter than a call may
/// take would never begin any: it has half of its time, and cuts the call off.
fn begin_by(now: Timestamp, leave_by: Timestamp, call: Duration) -> Timestamp {
    let time = until(now, leave_by);
    if call <= time { leave_by.saturating_sub(call).unwrap_or(leave_by) } else { after(now, time / 2) }
}

async fn stored_page(blobs: &dyn Blobs, message: &PageMessage) -> Result<StoredPage, StepError> {
    let pages = stored_pages(blobs, &message.mupdf_text_key).await?.unwrap_or_default();
    pages.into_iter().find(|page| page.page == message.page_id).ok_or_else(|| StepError::Broken {
        code: StepCode::StoredText,
        reason: format!("page {} is not in {}", message.page_id, message.mupdf_text_key),
    })
}

enum Stopped {
    JobOver,
    LeaseLost,
}

/// Keeps message and page while the work goes on: every third of the visibility both are
/// extended, so that two beats may be lost before anybody else takes over.
///
/// ```text
///  receive   beat     beat     beat           worker killed
///    |--------|--------|--------|--------------x
///    |---------- visibility ----|--------------|-----------| message and page are free again
/// ```
async fn keep_alive(
    reader: &PageReader,
    delivery: &Delivery,
    job: &Job,
    message: &PageMessage,
    holder: &str,
    held: Arc<Mutex<Versioned<Page>>>,
) -> Stopped {
    let visibility = reader.settings.page_visibility;
    loop {
        let interrupted = reader.interrupts.interrupted(&job.id);
        tokio::select! {
            biased;
            () = reader.store.clock.sleep(visibility / 3) => {}
            () = interrupted => {}
        }
        let now = reader.store.clock.now();
        // A store that can't be asked just now is no reason to drop a call that is being paid for.
        match jobs::find(&reader.store, &job.id).await {
            Ok(Some(kept)) if time_for(&kept.value, message, now).is_none() => return Stopped::JobOver,
            Ok(_) => {}
            Err(fault) => warn!(%fault, "job not read, work goes on"),
        }
        if let Err(fault) = reader.queue.extend(&delivery.receipt, visibility).await {
            warn!(%fault, "message not extended, work goes on");
        }
        let mut held = held.lock().await;
        match pages::renew(&reader.store, &held, holder, visibility).await {
            Ok(Ok(renewed)) => *held = renewed,
            Ok(Err(pages::LeaseLost)) => return Stopped::LeaseLost,
            Err(fault) => warn!(%fault, "lease not renewed, work goes on"),
        }
    }
}

pub(super) async fn settle_token(flow: &dyn Flow, token: Option<&TaskToken>) -> Result<Settlement, Fault> {
    match token {
        Some(token) => flow.settle(token).await,
        None => Ok(Settlement::Stale),
    }
}

/// Tells the flow; a page that nobody waits for any more came after the result, and heals it.
pub(super) async fn settle_and_heal(reader: &PageReader, message: &PageMessage) -> Result<(), StepError> {
    if settle_token(reader.flow.as_ref(), message.task_token.as_ref()).await? == Settlement::Stale {
        reader.late_pages.publish(&message.job_id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_begins_only_if_it_can_end_while_its_worker_lives() {
        let (now, seconds) = (Timestamp::UNIX_EPOCH, Duration::from_secs);
        let leave_by = after(now, seconds(320));
        assert_eq!(begin_by(now, leave_by, seconds(120)), after(now, seconds(200)));
        assert_eq!(begin_by(now, leave_by, seconds(270)), after(now, seconds(50)));
        // A tenant's calls may take longer than any worker lives: they are cut off.
        assert_eq!(begin_by(now, leave_by, seconds(600)), after(now, seconds(160)));
        assert!(begin_by(now, Timestamp::MAX, seconds(120)) > after(now, seconds(1 << 30)));
    }
}
