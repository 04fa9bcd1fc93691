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

use tracing::{info, warn};

use super::{
    StepError, bury,
    fail::fail,
    finalize::finalize,
    give_up::{self, Exhausted},
    heal,
    measure::measure,
    purchase, relay, webhooks,
};
use crate::{
    app::App,
    domain::{
        job::{Failure, Halt, Job, State},
        message::PageMessage,
        result::Cause,
    },
    ports::{clock::after, queue::Delivery},
    store::{
        dead::{self, DeadLetter},
        jobs,
    },
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
const LOOK: Duration = Duration::from_secs(60);

/// Webhooks are sent and purchases gone on with for so long: their pauses of 1 s, 4 s and 16 s fit in.
const OUTSIDE: Duration = Duration::from_secs(25);

/// What a sweep did, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub started: usize,
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

pub async fn sweep(app: &App) -> Swept {
    let mut swept = Swept::default();
    match jobs::open(app).await {
        Ok(open) => {
            for job in open {
                if let Err(error) = mend(app, &job, &mut swept).await {
                    warn!(job = %job.id, %error, "job not mended yet");
                    swept.faults += 1;
                }
            }
        }
        Err(fault) => missed(&mut swept, "open jobs", &fault),
    }
    match collect_dead(app).await {
        Ok(count) => swept.dead_letters = count,
        Err(error) => missed(&mut swept, "dead messages", &error),
    }
    match heal::take_over(app).await {
        Ok(count) => swept.healed = count,
        Err(error) => missed(&mut swept, "late pages", &error),
    }
    match relay::relay_silent(app, SILENT).await {
        Ok(count) => swept.events = count,
        Err(fault) => missed(&mut swept, "unpublished events", &fault),
    }
    let (webhooks, purchases) =
        tokio::join!(webhooks::run_for(app, OUTSIDE), purchase::run_for(app, OUTSIDE));
    match webhooks {
        Ok(count) => swept.webhooks = count,
        Err(fault) => missed(&mut swept, "webhooks", &fault),
    }
    match purchases {
        Ok(count) => swept.purchases = count,
        Err(fault) => missed(&mut swept, "purchases", &fault),
    }
    if let Err(fault) = measure(app).await {
        missed(&mut swept, "what waits", &fault);
    }
    info!(?swept, "swept");
    swept
}

fn missed(swept: &mut Swept, what: &str, error: &dyn std::fmt::Display) {
    warn!(%error, "{what} not swept yet");
    swept.faults += 1;
}

/// A job that its flow should have brought further by now.
async fn mend(app: &App, job: &Job, swept: &mut Swept) -> Result<(), StepError> {
    let now = app.clock.now();
    let cause = match job.halt {
        Some(Halt::Cancelled) => Cause::Cancelled,
        _ => Cause::Deadline,
    };
    // Whoever halted it told its flow: one that has not ended it since then is gone.
    let halted_at = job.halt.and(job.head.at);
    let is_left = halted_at.is_some_and(|at| after(at, STARTED_BY) <= now);
    if after(job.deadline, GRACE) <= now || is_left {
        swept.finalized += 1;
        // The document itself may be why its flow died: then that is its end.
        if let Err(error) = finalize(app, &job.id, cause).await {
            if let StepError::Fault(fault) = error {
                return Err(fault.into());
            }
            let failure = Failure { code: error.code().to_owned(), reason: error.to_string() };
            fail(app, &job.id, failure).await?;
        }
    } else if matches!(job.state, State::Received | State::Acked) && after(job.received_at, STARTED_BY) <= now
    {
        swept.started += 1;
        app.flow.start(&job.id, job.redrives, &job.trace()).await?;
    }
    Ok(())
}

/// Looks through what lies in the queue's own place for the dead, until all was seen once.
pub async fn collect_dead(app: &App) -> Result<usize, StepError> {
    let (mut seen, mut buried) = (Vec::new(), 0);
    while seen.len() < DEAD_AT_ONCE {
        let some = app.queue.receive_dead(10, LOOK).await?;
        if some.is_empty() {
            break;
        }
        seen.extend(some);
    }
    let mut first_fault = None;
    for delivery in seen {
        let put_back = match examine(app, &delivery).await {
            Ok(Found::Lies) => true,
            Ok(Found::Buried) => {
                buried += 1;
                true
            }
            Ok(Found::Superfluous) => false,
            Err(error) => {
                first_fault.get_or_insert(error);
                true
            }
        };
        let receipt = &delivery.receipt;
        if put_back {
            app.queue.extend(receipt, Duration::ZERO).await?;
        } else {
            app.queue.delete(receipt).await?;
        }
    }
    first_fault.map_or(Ok(buried), Err)
}

enum Found {
    /// Its letter waits, or somebody still works on its page.
    Lies,
    /// It has a letter from now on.
    Buried,
    /// It was redriven or purged, or its page is done.
    Superfluous,
}

impl Found {
    fn by(letter: &DeadLetter) -> Self {
        if letter.waits() { Self::Lies } else { Self::Superfluous }
    }
}

async fn examine(app: &App, delivery: &Delivery) -> Result<Found, StepError> {
    let stranger = dead::find(app, &bury::message_letter(&delivery.body)).await?;
    let mut message = match (stranger, PageMessage::parse(&delivery.body)) {
        (Some(letter), _) => return Ok(Found::by(&letter.value)),
        (None, Ok(message)) => message,
        (None, Err(unreadable)) => {
            bury::bury(app, bury::Death::of_message(app, delivery, unreadable.to_string())).await?;
            return Ok(Found::Buried);
        }
    };
    if let Some(letter) = dead::find(app, &dead::page_letter(&message.job_id, message.page_id)).await? {
        // One that was redriven as it was died as what it then stood for.
        if let Some(revived) = letter.value.revived {
            (message.attempt, message.deadline) = (revived.sending, revived.deadline);
        }
        if letter.value.sending >= message.attempt {
            return Ok(Found::by(&letter.value));
        }
    }
    Ok(match give_up::on_exhausted(app, delivery, &message).await? {
        Exhausted::Superfluous => Found::Superfluous,
        Exhausted::InGoodHands => Found::Lies,
        Exhausted::GivenUp => Found::Buried,
    })
}
