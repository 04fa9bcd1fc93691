//! The net under everything: run every minute where no process lives on to keep its promises. It
//! finds what fell between two steps and brings it to its end.
//!
//! - A job whose flow died, or was never started, is started or finalized.
//! - A message that the queue itself gave up becomes a dead letter, and its page falls back.
//! - Pages that were read late come into a new version, if whoever was to publish it died.
//! - Events that a vanished process left unpublished go out.
//! - Tenants are told of ends.
//! - Purchases of credits that stopped half way go on.
//! - How much waits is measured.
//!
//! Each part does what it can; one that fails does not keep the others from their work.

use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::{
    billing::buy,
    dead_letters::{self, DeadLetter, add, fail::fail},
    finish::{finalize::finalize, heal, result::Cause},
    job::{Failure, Halt, Job, State, StepError, jobs, message::PageMessage},
    notify::{deliver, relay},
    observe::measure::measure,
    ports::{Fault, queue::Delivery},
    read::give_up::{self, Exhausted},
    recover::Recovery,
    time::{after, within},
};

/// A flow has this long after its deadline to finalize its job itself.
const GRACE: Duration = Duration::from_secs(5);
/// A job that has not moved for this long after its arrival, or after it was halted, has no flow.
const STARTED_BY: Duration = Duration::from_secs(30);
/// A process not heard of for this long is gone.
pub const SILENT: Duration = Duration::from_secs(180);
/// Dead messages looked at in one sweep: the rest have their turn in the next.
const DEAD_AT_ONCE: usize = 1000;
/// Time to look at them all, before others see them again.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Webhooks are sent and purchases gone on with for so long: their pauses of 1 s, 4 s and 16 s fit in.
const OUTSIDE: Duration = Duration::from_secs(25);

/// Jobs that are mended side by side, and for how long.
const MENDED_AT_ONCE: usize = 8;
const MENDING: Duration = Duration::from_secs(60);

/// What a sweep did, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub started: usize,
    /// Jobs whose flows were asked whether they know that somebody decided.
    pub reminded: usize,
    pub finalized: usize,
    pub dead_letters: usize,
    /// Jobs whose late pages were published.
    pub healed: usize,
    pub events: usize,
    /// Sendings, whatever became of them.
    pub webhooks: usize,
    /// Steps of purchases that were taken or undone.
    pub purchases: usize,
    /// Parts that have to be tried again.
    pub faults: usize,
}

pub async fn sweep(recovery: &Recovery) -> Swept {
    let mut swept = Swept::default();
    let (mended, dead, healed, relayed, webhooks, purchases) = tokio::join!(
        mend_jobs(recovery),
        collect_dead_messages(recovery),
        heal::take_over(&recovery.finisher),
        relay::relay_silent(&recovery.publisher, SILENT),
        deliver::run_for(&recovery.publisher, OUTSIDE),
        buy::run_for(&recovery.billing, OUTSIDE),
    );
    match mended {
        Ok(mended) => {
            let count = |what| mended.iter().filter(|mended| **mended == what).count();
            (swept.started, swept.reminded) = (count(Mended::Started), count(Mended::Reminded));
            (swept.finalized, swept.faults) = (count(Mended::Finalized), count(Mended::NotYet));
        }
        Err(fault) => missed(&mut swept, "open jobs", &fault),
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
    if let Err(fault) = measure(&recovery.store, recovery.queue.as_ref(), &recovery.reader.breakers).await {
        missed(&mut swept, "what waits", &fault);
    }
    info!(?swept, "swept");
    swept
}

fn missed(swept: &mut Swept, what: &str, error: &dyn std::fmt::Display) {
    warn!(%error, "{what} not swept yet");
    swept.faults += 1;
}

/// What was done for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mended {
    Nothing,
    Started,
    Reminded,
    Finalized,
    /// It could not be done, and has to be tried again.
    NotYet,
}

/// Brings jobs further that their flows left behind, those that are due first. Many at once, and none
/// for so long that the next sweep would come in between.
async fn mend_jobs(recovery: &Recovery) -> Result<Vec<Mended>, Fault> {
    let open = jobs::open(&recovery.store).await?;
    let mending = open.into_iter().map(|job| async move {
        mend(recovery, &job).await.unwrap_or_else(|error| {
            warn!(job = %job.id, %error, "job not mended yet");
            Mended::NotYet
        })
    });
    let mut mended = Vec::new();
    let mut mending = stream::iter(mending.collect::<Vec<_>>()).buffer_unordered(MENDED_AT_ONCE);
    let all = async {
        while let Some(one) = mending.next().await {
            mended.push(one);
        }
    };
    if within(recovery.store.clock.as_ref(), MENDING, all).await.is_none() {
        warn!(mended = mended.len(), "more jobs were left behind than one sweep can mend");
        mended.push(Mended::NotYet);
    }
    Ok(mended)
}

/// A job that its flow should have brought further by now.
async fn mend(recovery: &Recovery, job: &Job) -> Result<Mended, StepError> {
    let now = recovery.store.clock.now();
    if !needs_mending(job, now) {
        return Ok(Mended::Nothing);
    }
    // The index is behind: it may have moved on since, or its deadline may have been moved.
    let Some(job) = jobs::find(&recovery.store, &job.id).await?.map(|kept| kept.value) else {
        return Ok(Mended::Nothing);
    };
    if job.state.is_terminal() {
        return Ok(Mended::Nothing);
    }
    let cause = match job.halt {
        Some(Halt::Cancelled) => Cause::Cancelled,
        _ => Cause::Deadline,
    };
    if is_overdue(&job, now) {
        // The document itself may be why its flow died: then that is its end.
        if let Err(error) = finalize(&recovery.finisher, &job.id, cause).await {
            if let StepError::Fault(fault) = error {
                return Err(fault.into());
            }
            let failure = Failure { code: error.code().to_owned(), reason: error.to_string() };
            fail(&recovery.dead_letters, &job.id, failure).await?;
        }
        return Ok(Mended::Finalized);
    }
    if was_not_started(&job, now) {
        recovery.flow.start(&job.id, job.redrives, &job.trace()).await?;
        return Ok(Mended::Started);
    }
    if may_be_asleep(&job, now) {
        recovery.flow.remind(&job.id, job.state).await?;
        return Ok(Mended::Reminded);
    }
    Ok(Mended::Nothing)
}

fn needs_mending(job: &Job, now: Timestamp) -> bool {
    is_overdue(job, now) || was_not_started(job, now) || may_be_asleep(job, now)
}

fn is_overdue(job: &Job, now: Timestamp) -> bool {
    // Whoever halted it told its flow: one that has not ended it since then is gone.
    let halted_at = job.halt.and(job.head.at);
    after(job.deadline, GRACE) <= now || halted_at.is_some_and(|at| after(at, STARTED_BY) <= now)
}

fn was_not_started(job: &Job, now: Timestamp) -> bool {
    matches!(job.state, State::Received | State::Acked) && after(job.received_at, STARTED_BY) <= now
}

/// A person decided on it, and whoever wrote that down may have died before the flow was woken.
fn may_be_asleep(job: &Job, now: Timestamp) -> bool {
    let asked = job.plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.version > 1);
    let decided_at = job.head.at.filter(|_| asked && job.state == State::Approved);
    decided_at.is_some_and(|at| after(at, STARTED_BY) <= now)
}

/// Looks through what lies in the queue's own place for the dead, until all was seen once.
pub async fn collect_dead_messages(recovery: &Recovery) -> Result<usize, StepError> {
    let (mut seen, mut buried) = (Vec::new(), 0);
    while seen.len() < DEAD_AT_ONCE {
        let some = recovery.queue.receive_dead(10, POLL_INTERVAL).await?;
        if some.is_empty() {
            break;
        }
        seen.extend(some);
    }
    let mut first_fault = None;
    for delivery in seen {
        let put_back = match examine(recovery, &delivery).await {
            Ok(Examined::Lies) => true,
            Ok(Examined::Buried) => {
                buried += 1;
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
    first_fault.map_or(Ok(buried), Err)
}

enum Examined {
    /// Its letter waits, or somebody still works on its page.
    Lies,
    /// It has a letter from now on.
    Buried,
    /// It was redriven or purged, or its page is done.
    Obsolete,
}

impl Examined {
    fn by(letter: &DeadLetter) -> Self {
        if letter.waits() { Self::Lies } else { Self::Obsolete }
    }
}

async fn examine(recovery: &Recovery, delivery: &Delivery) -> Result<Examined, StepError> {
    let stranger = dead_letters::find(&recovery.store, &add::message_dead_letter_id(&delivery.body)).await?;
    let mut message = match (stranger, PageMessage::parse(&delivery.body)) {
        (Some(letter), _) => return Ok(Examined::by(&letter.value)),
        (None, Ok(message)) => message,
        (None, Err(unreadable)) => {
            give_up::on_message(&recovery.reader, delivery, unreadable.to_string()).await?;
            return Ok(Examined::Buried);
        }
    };
    if let Some(letter) = dead_letters::find(
        &recovery.store,
        &dead_letters::page_dead_letter_id(&message.job_id, message.page_id),
    )
    .await?
    {
        // One that was redriven as it was died as what it then stood for.
        if let Some(revived) = letter.value.revived {
            (message.redrive_count, message.deadline) = (revived.redrive_count, revived.deadline);
        }
        if letter.value.redrive_count >= message.redrive_count {
            return Ok(Examined::by(&letter.value));
        }
    }
    Ok(match give_up::on_exhausted(&recovery.reader, delivery, &message).await? {
        Exhausted::Obsolete => Examined::Obsolete,
        Exhausted::InProgress => Examined::Lies,
        Exhausted::GivenUp => Examined::Buried,
    })
}
