//! Redrive: sending dead letters back to work.

use std::time::Duration;

use crate::{
    admission::line,
    dead_letters::{self, DeadLetter, DeadLetterEvent, Subject},
    event::Actor,
    events::Store,
    ids::{DeadLetterId, JobId},
    job::{JobEvent, State, StepCode, StepError, credits, jobs, message::PageMessage, passwords},
    money::MicroUsd,
    notify::deliver,
    ports::{Fault, queue::Outgoing},
    read::pages,
    recover::Recovery,
    secret::Secret,
    time::after,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// The job starts again.
    Job(JobId),
    /// The page was sent to the workers once more.
    Page(JobId),
    /// The webhook is delivered again, about an event of this job if any.
    Webhook(Option<JobId>),
}

/// Sends one dead letter back to work with its counters reset. It is sent first and marked afterwards: a
/// crash in between sends it twice, which is harmless, and never loses it.
pub async fn redrive(
    recovery: &Recovery,
    id: &DeadLetterId,
    by: &str,
    password: Option<Secret>,
) -> Result<Redriven, StepError> {
    let kept = dead_letters::load(&recovery.store, id).await?;
    let dead_letter = &kept.value;
    let redriven = match &dead_letter.subject {
        Subject::Job { job } => {
            restart(recovery, job, by, password).await?;
            Redriven::Job(job.clone())
        }
        Subject::Page { job, .. } => {
            resend(recovery, dead_letter).await?;
            Redriven::Page(job.clone())
        }
        Subject::Webhook { job, delivery } => {
            if !deliver::redrive(&recovery.publisher, delivery).await? {
                let reason = "the webhook delivery is gone".to_owned();
                return Err(StepError::Broken { code: StepCode::UnreadableMessage, reason });
            }
            Redriven::Webhook(job.clone())
        }
        Subject::Message => {
            let reason = format!("the message can't be parsed and would fail again: {}", dead_letter.reason);
            return Err(StepError::Broken { code: StepCode::UnreadableMessage, reason });
        }
    };
    // The queue has the message now; a second copy of the document's text is not kept.
    let marked =
        DeadLetter { redriven_at: Some(recovery.store.clock.now()), message: None, ..dead_letter.clone() };
    let redriven_event = DeadLetterEvent::Redriven { by: by.to_owned(), revived: None };
    // Refused when another process redrove it at the same time, which is fine.
    dead_letters::save(&recovery.store, Some(&kept), marked, redriven_event).await?;
    Ok(redriven)
}

/// The estimated cost of a redrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Pages that would be read by AI.
    pub pages: u32,
    pub cost: MicroUsd,
    /// Dead letters whose documents were never planned: their cost is not known.
    pub unknown: usize,
}

/// Adds what redriving `dead_letter` may cost, by its job's plan. One that can't be redriven costs nothing.
pub async fn estimate(store: &Store, dead_letter: &DeadLetter, sum: &mut Estimate) -> Result<(), Fault> {
    let (job, page) = match &dead_letter.subject {
        Subject::Job { job } => (job, false),
        Subject::Page { job, .. } => (job, true),
        Subject::Webhook { .. } | Subject::Message => return Ok(()),
    };
    let job = jobs::find(store, job).await?.map(|kept| kept.value);
    let Some(plan) = job.and_then(|job| job.plan) else {
        sum.unknown += 1;
        return Ok(());
    };
    let pages = if page { 1 } else { plan.ai_pages };
    sum.pages += pages;
    // A plan without AI is free.
    let each = plan.estimated_cost_micro_usd.0.checked_div(u64::from(plan.ai_pages)).unwrap_or(0);
    sum.cost += MicroUsd(each * u64::from(pages));
    Ok(())
}

async fn restart(
    recovery: &Recovery,
    id: &JobId,
    by: &str,
    password: Option<Secret>,
) -> Result<(), StepError> {
    // The password of a job that is not read again would never be deleted.
    let needs_it = jobs::load(&recovery.store, id).await?.value.state == State::Failed;
    if let Some(password) = password.filter(|_| needs_it) {
        recovery
            .store
            .write(vec![
                passwords::put_change(&recovery.store, recovery.vault.as_ref(), id, &password).await?,
            ])
            .await?;
    }
    let failed = jobs::load(&recovery.store, id).await?.value;
    if failed.state == State::Failed {
        let (tenant, level) = (&failed.received.tenant, failed.received.options.priority);
        let place = line::take_place(&recovery.store, tenant, level).await?;
        // Its time runs from admission.
        let deadline = after(recovery.store.clock.now(), recovery.settings.max_deadline);
        jobs::advance(&recovery.store, Actor::Operator, id, |job| match job.state {
            State::Failed => vec![JobEvent::Redriven { deadline, by: by.to_owned(), place: Some(place) }],
            _ => vec![],
        })
        .await?;
    }
    // Also one that was redriven before: the process may have died here.
    let job = jobs::load(&recovery.store, id).await?.value;
    if job.is_waiting() {
        recovery.admission.admit(Some(&job)).await?;
    } else {
        recovery.flow.start(&job.flow_start()).await?;
    }
    Ok(())
}

async fn resend(recovery: &Recovery, dead_letter: &DeadLetter) -> Result<(), StepError> {
    let body = dead_letter.message.as_deref().unwrap_or_default();
    let mut message = PageMessage::parse(body).map_err(|error| StepError::Broken {
        code: StepCode::UnreadableMessage,
        reason: error.to_string(),
    })?;
    let page = pages::find(&recovery.store, &message.job_id, message.page_id).await?;
    message.redrive_count = page.map_or(0, |kept| kept.value.redrive_count).max(message.redrive_count) + 1;
    let job = jobs::load(&recovery.store, &message.job_id).await?.value;
    if job.is_over() {
        if !job.is_healable() {
            let reason = format!("its job is {}: reading the page would change nothing", job.state);
            return Err(StepError::Broken { code: StepCode::NothingToHeal, reason });
        }
        credits::check(&recovery.store, &job, 1).await?;
    }
    message.deadline = after(recovery.store.clock.now(), job.received.options.job_timeout());
    let name = format!("{}:a{}", message.idempotency_key, message.redrive_count);
    message.rounds = 0;
    let (job, lane, body) = (message.job_id.clone(), message.priority, message.encode()?);
    let outgoing = Outgoing { name, job, lane, body, delay: Duration::ZERO };
    recovery.queue.send(&[outgoing]).await?;
    Ok(())
}
