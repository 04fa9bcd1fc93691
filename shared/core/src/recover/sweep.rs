//! The sweep: run every minute where no long-lived process recovers work. It finds what was lost between
//! two steps and completes it.
//!
//! - A job whose flow died, or was never started, is started or finalized; where its document was not opened
//!   before the deadline, a flow is started that opens it. One whose pages are all settled
//!   continues, if its flow was not notified.
//! - Documents that wait are admitted, where a seat is free or they are due, and seats that a dead process did not
//!   give back are freed.
//! - A message that the queue itself gave up becomes a dead letter, and its page falls back.
//! - Pages that were read late are published, if the process that was to do it died.
//! - Events that a dead process left unpublished are published.
//! - Webhooks are delivered, and notices are sent.
//! - Purchases of credits and erasures of tenants that were interrupted continue.
//! - Content that retention ends is removed.
//! - Accounts are compared with their trails.
//! - Gauges are measured.
//!
//! The parts are independent: one that fails does not stop the others.

use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::{
    dead_letters::{self, DeadLetter, add, fail::fail},
    finish::{finalize::finalize, heal, result::Cause, retention},
    job::{Failure, Halt, Job, State, StepCode, StepError, jobs, message::PageMessage},
    notices,
    notify::{deliver, relay},
    observe::measure::measure,
    ports::{Fault, flow::FlowStart, queue::Delivery},
    read::{
        countdowns,
        give_up::{self, Exhausted},
    },
    recover::{Recovery, backfill},
    sagas::run,
    time::{after, until, within},
};

/// Time after the deadline in which a flow finalizes its job itself.
const DEADLINE_GRACE: Duration = Duration::from_secs(5);
/// A job without a transition for this long after it was received or halted has no flow.
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after the deadline in which a flow opens a document that was not opened before.
const LATE_GRACE: Duration = Duration::from_secs(120);
/// Time in which a flow that was started for this opens it; then another is started.
const LATE_FLOW_TIME: Duration = Duration::from_secs(1200);
/// A process that was not seen for this long is dead.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(180);
/// Dead messages that one sweep examines; the rest follow in the next.
const MAX_DEAD_MESSAGES: usize = 1000;
/// Time to examine them all, before they are visible again.
const DEAD_VISIBILITY: Duration = Duration::from_secs(60);

/// Time for webhooks and purchases in one sweep: their retry intervals of 1 s, 4 s and 16 s fit in.
const OUTBOUND_TIME: Duration = Duration::from_secs(25);

/// Time for removing content in one sweep; the rest follows in the next.
const RETENTION_TIME: Duration = Duration::from_secs(25);

/// Jobs that are repaired concurrently, and for how long.
const CONCURRENT_REPAIRS: usize = 8;
const REPAIR_TIME: Duration = Duration::from_secs(60);

/// The counts of a sweep, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub started: usize,
    /// Jobs that were admitted.
    pub admitted: usize,
    /// Jobs whose flows were reminded of a decision.
    pub reminded: usize,
    pub finalized: usize,
    pub dead_letters: usize,
    /// Jobs whose late pages were published.
    pub healed: usize,
    pub events: usize,
    /// Delivery attempts, successful or not.
    pub webhooks: usize,
    /// Steps of purchases that were done or compensated.
    pub purchases: usize,
    /// Steps of erasures of tenants.
    pub erasures: usize,
    /// Jobs whose content was removed, because its time was over.
    pub expired: usize,
    /// Parts that have to be retried.
    pub faults: usize,
}

pub async fn sweep(recovery: &Recovery) -> Swept {
    let mut swept = Swept::default();
    let (repaired, admitted, dead, healed, relayed, webhooks, purchases, erasures, noticed, expired) = tokio::join!(
        repair_jobs(recovery),
        recovery.admission.recover(),
        collect_dead_messages(recovery),
        heal::take_over(&recovery.finisher),
        relay::relay_silent(&recovery.publisher, NODE_TIMEOUT),
        deliver::run_for(&recovery.publisher, OUTBOUND_TIME),
        run::run_for(&recovery.billing, OUTBOUND_TIME),
        run::run_for(&recovery.eraser, OUTBOUND_TIME),
        notices::send::send_due(&recovery.notices),
        retention::remove_for(&recovery.finisher, RETENTION_TIME),
    );
    match repaired {
        Ok(repaired) => {
            let count = |what| repaired.iter().filter(|repair| **repair == what).count();
            (swept.started, swept.reminded) = (count(Repair::Started), count(Repair::Reminded));
            (swept.finalized, swept.faults) = (count(Repair::Finalized), count(Repair::NotYet));
        }
        Err(fault) => missed(&mut swept, "open jobs", &fault),
    }
    match admitted {
        Ok(count) => swept.admitted = count,
        Err(fault) => missed(&mut swept, "waiting jobs", &fault),
    }
    match dead {
        Ok(count) => swept.dead_letters = count,
        Err(error) => missed(&mut swept, "dead messages", &error),
    }
    match healed {
        Ok(count) => swept.healed = count,
        Err(error) => missed(&mut swept, "late pages", &error),
    }
    match relayed {
        Ok(count) => swept.events = count,
        Err(fault) => missed(&mut swept, "unpublished events", &fault),
    }
    match webhooks {
        Ok(count) => swept.webhooks = count,
        Err(fault) => missed(&mut swept, "webhooks", &fault),
    }
    match purchases {
        Ok(count) => swept.purchases = count,
        Err(fault) => missed(&mut swept, "purchases", &fault),
    }
    match erasures {
        Ok(count) => swept.erasures = count,
        Err(fault) => missed(&mut swept, "erasures", &fault),
    }
    match expired {
        Ok(count) => swept.expired = count,
        Err(error) => missed(&mut swept, "expired content", &error),
    }
    if let Err(fault) = noticed {
        missed(&mut swept, "notices", &fault);
    }
    if let Err(fault) = crate::billing::drift::check(&recovery.store).await {
        missed(&mut swept, "accounts", &fault);
    }
    if let Err(fault) = backfill::list_ended_jobs(&recovery.store, &recovery.settings).await {
        missed(&mut swept, "jobs of version 0.1", &fault);
    }
    if let Err(fault) = measure(&recovery.store, recovery.queue.as_ref(), &recovery.reader.breakers).await {
        missed(&mut swept, "gauges", &fault);
    }
    info!(?swept, "swept");
    swept
}

fn missed(swept: &mut Swept, what: &str, error: &dyn std::fmt::Display) {
    warn!(%error, "{what} not swept yet");
    swept.faults += 1;
}

/// How a job was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Nothing,
    Started,
    Reminded,
    Finalized,
    /// Failed, and has to be retried.
    NotYet,
}

/// Repairs jobs whose flows did not continue, those that are due first. Stops before the next sweep starts.
async fn repair_jobs(recovery: &Recovery) -> Result<Vec<Repair>, Fault> {
    let open = jobs::open(&recovery.store).await?;
    let repairs = open.into_iter().map(|job| async move {
        repair(recovery, &job).await.unwrap_or_else(|error| {
            warn!(job = %job.id, %error, "job not repaired yet");
            Repair::NotYet
        })
    });
    let mut repaired = Vec::new();
    let mut repairs = stream::iter(repairs.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_REPAIRS);
    let all = async {
        while let Some(one) = repairs.next().await {
            repaired.push(one);
        }
    };
    if within(recovery.store.clock.as_ref(), REPAIR_TIME, all).await.is_none() {
        warn!(repaired = repaired.len(), "more jobs need repair than one sweep can do");
        repaired.push(Repair::NotYet);
    }
    Ok(repaired)
}

/// Repairs a job that its flow should have continued by now.
async fn repair(recovery: &Recovery, job: &Job) -> Result<Repair, StepError> {
    let now = recovery.store.clock.now();
    if !needs_repair(job, now) {
        return Ok(Repair::Nothing);
    }
    // The index lags: the job may have continued since, or its deadline may have been moved.
    let Some(job) = jobs::find(&recovery.store, &job.id).await?.map(|kept| kept.value) else {
        return Ok(Repair::Nothing);
    };
    if job.state.is_terminal() || job.is_waiting() {
        return Ok(Repair::Nothing);
    }
    let cause = match job.halt {
        Some(Halt::Cancelled) => Cause::Cancelled,
        _ => Cause::Deadline,
    };
    if is_overdue(&job, now) {
        // The document itself may be why its flow died: then the job fails.
        if let Err(error) = finalize(&recovery.finisher, &job.id, cause).await {
            match &error {
                StepError::Fault(_) => return Err(error),
                StepError::Broken { code: StepCode::NotOpened, .. } => {
                    return start_late(recovery, &job, now).await;
                }
                StepError::Document(_) | StepError::Broken { .. } => {}
            }
            let failure = Failure { code: error.code().to_owned(), reason: error.to_string() };
            fail(&recovery.dead_letters, &job.id, failure).await?;
        }
        return Ok(Repair::Finalized);
    }
    if was_not_started(&job, now) {
        recovery.flow.start(&job.flow_start()).await?;
        return Ok(Repair::Started);
    }
    if may_be_settled(&job, now) && countdowns::is_complete(&recovery.store, &job).await? {
        recovery.flow.pages_settled(&job.id).await?;
        return Ok(Repair::Reminded);
    }
    if may_be_asleep(&job, now) {
        recovery.flow.remind(&job.id, job.state).await?;
        return Ok(Repair::Reminded);
    }
    Ok(Repair::Nothing)
}

/// Starts another flow for a document that was not opened before its deadline: this process can't open it.
async fn start_late(recovery: &Recovery, job: &Job, now: Timestamp) -> Result<Repair, StepError> {
    let late = until(job.deadline, now);
    if late < LATE_GRACE {
        return Ok(Repair::Nothing);
    }
    // One of each number: the sweep comes by every minute.
    let restarts = 1 + (late.as_secs() / LATE_FLOW_TIME.as_secs()) as u32;
    recovery.flow.start(&FlowStart { restarts, ..job.flow_start() }).await?;
    Ok(Repair::Started)
}

fn needs_repair(job: &Job, now: Timestamp) -> bool {
    is_overdue(job, now) || was_not_started(job, now) || may_be_settled(job, now)
}

fn is_overdue(job: &Job, now: Timestamp) -> bool {
    // Its flow was woken by the halt: one that has not finalized the job since then is dead.
    let halted_at = job.halt.and(job.head.at);
    after(job.deadline, DEADLINE_GRACE) <= now || halted_at.is_some_and(|at| after(at, FLOW_TIMEOUT) <= now)
}

fn was_not_started(job: &Job, now: Timestamp) -> bool {
    matches!(job.state, State::Received | State::Acked)
        && !job.is_waiting()
        && after(job.run_started_at(), FLOW_TIMEOUT) <= now
}

/// Its pages were sent, and the process that settled the last one may have died before it notified the flow.
fn may_be_settled(job: &Job, now: Timestamp) -> bool {
    let approved_at = job.head.at.filter(|_| job.state == State::Approved);
    approved_at.is_some_and(|at| after(at, FLOW_TIMEOUT) <= now)
}

/// A person decided on it, and the process that recorded it may have died before it woke the flow.
fn may_be_asleep(job: &Job, now: Timestamp) -> bool {
    let was_decided = job.plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.version > 1);
    let decided_at = job.head.at.filter(|_| was_decided && job.state == State::Approved);
    decided_at.is_some_and(|at| after(at, FLOW_TIMEOUT) <= now)
}

/// Examines the messages in the queue's own dead-letter queue, each once.
pub async fn collect_dead_messages(recovery: &Recovery) -> Result<usize, StepError> {
    let (mut seen, mut added) = (Vec::new(), 0);
    while seen.len() < MAX_DEAD_MESSAGES {
        let some = recovery.queue.receive_dead_letters(10, DEAD_VISIBILITY).await?;
        if some.is_empty() {
            break;
        }
        seen.extend(some);
    }
    let mut first_fault = None;
    for delivery in seen {
        let put_back = match examine(recovery, &delivery).await {
            Ok(Examined::Waiting) => true,
            Ok(Examined::Added) => {
                added += 1;
                true
            }
            Ok(Examined::Obsolete) => false,
            Err(error) => {
                first_fault.get_or_insert(error);
                true
            }
        };
        let receipt = &delivery.receipt;
        if put_back {
            recovery.queue.extend(receipt, Duration::ZERO).await?;
        } else {
            recovery.queue.delete(receipt).await?;
        }
    }
    first_fault.map_or(Ok(added), Err)
}

enum Examined {
    /// Its dead letter waits, or a worker still has its page.
    Waiting,
    /// A dead letter was added.
    Added,
    /// It was redriven, purged or sent again, or its page is done.
    Obsolete,
}

impl Examined {
    fn by(dead_letter: &DeadLetter) -> Self {
        if dead_letter.is_waiting() { Self::Waiting } else { Self::Obsolete }
    }
}

async fn examine(recovery: &Recovery, delivery: &Delivery) -> Result<Examined, StepError> {
    let unreadable =
        dead_letters::find(&recovery.store, &add::message_dead_letter_id(&delivery.body)).await?;
    let mut message = match (unreadable, PageMessage::parse(&delivery.body)) {
        (Some(dead_letter), _) => return Ok(Examined::by(&dead_letter.value)),
        (None, Ok(message)) => message,
        (None, Err(unreadable)) => {
            give_up::on_message(&recovery.reader, delivery, unreadable.to_string()).await?;
            return Ok(Examined::Added);
        }
    };
    if let Some(dead_letter) = dead_letters::find(
        &recovery.store,
        &dead_letters::page_dead_letter_id(&message.job_id, message.page_id),
    )
    .await?
    {
        // A message that the queue's own tools redrove counts as that redrive.
        if let Some(revived) = dead_letter.value.revived {
            (message.redrive_count, message.deadline) = (revived.redrive_count, revived.deadline);
        }
        if dead_letter.value.redrive_count >= message.redrive_count {
            return Ok(Examined::by(&dead_letter.value));
        }
    }
    Ok(match give_up::on_exhausted(&recovery.reader, delivery, &message).await? {
        Exhausted::Obsolete | Exhausted::SentAgain => Examined::Obsolete,
        Exhausted::InProgress => Examined::Waiting,
        Exhausted::GivenUp => Examined::Added,
    })
}
