//! Bringing dead letters back to work, or letting them go.

use crate::{
    app::App,
    dead_letters::{self, DeadEvent, DeadLetter, Revived, Subject},
    ids::{DeadLetterId, JobId},
    job::{JobEvent, State, jobs, message::PageMessage, passwords},
    money::MicroUsd,
    ports::{
        Fault,
        queue::{Delivery, Outgoing},
    },
    read::pages,
    records::Kept,
    secret::Secret,
    time::after,
};
use crate::{
    finish::heal,
    job::{StepError, credits},
    notify::deliver,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// The job starts again.
    Job(JobId),
    /// The page was sent to the workers once more.
    Page(JobId),
    /// The tenant is told once more of the job's end.
    Webhook(JobId),
}

async fn load(app: &App, id: &DeadLetterId) -> Result<Kept<DeadLetter>, StepError> {
    dead_letters::find(app, id).await?.ok_or_else(|| StepError::Broken {
        code: "unknown_dead_letter",
        reason: format!("there is no dead letter {id}"),
    })
}

/// Sends one dead letter back with its counters reset. It is sent first and marked then: a crash
/// in between sends it twice, which is harmless, and never loses it.
pub async fn redrive(
    app: &App,
    id: &DeadLetterId,
    by: &str,
    password: Option<Secret>,
) -> Result<Redriven, StepError> {
    let kept = load(app, id).await?;
    let letter = &kept.value;
    let redriven = match &letter.subject {
        Subject::Job { job } => {
            restart(app, job, by, password).await?;
            Redriven::Job(job.clone())
        }
        Subject::Page { job, .. } => {
            resend(app, letter).await?;
            Redriven::Page(job.clone())
        }
        Subject::Webhook { job, delivery } => {
            if !deliver::redrive(app, delivery).await? {
                let reason = "the message to the tenant is gone".to_owned();
                return Err(StepError::Broken { code: "unreadable_message", reason });
            }
            Redriven::Webhook(job.clone())
        }
        Subject::Message => {
            let reason = format!("the message can't be read and would die again: {}", letter.reason);
            return Err(StepError::Broken { code: "unreadable_message", reason });
        }
    };
    // The message lives on in the queue; a second copy of the document's text is not kept.
    let marked = DeadLetter { redriven_at: Some(app.clock.now()), message: None, ..letter.clone() };
    // Refused when somebody else redrove it at the same time: also fine.
    dead_letters::store(app, Some(&kept), marked, DeadEvent::Redriven { by: by.to_owned() }).await?;
    Ok(redriven)
}

/// What sending a letter back may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Pages that would be read by AI.
    pub pages: u32,
    pub cost: MicroUsd,
    /// Letters whose documents were never planned: nobody knows yet.
    pub unknown: usize,
}

/// Adds what `letter` may cost, by its job's plan. One that can't be sent costs nothing.
pub async fn estimate(app: &App, letter: &DeadLetter, sum: &mut Estimate) -> Result<(), Fault> {
    let (job, page) = match &letter.subject {
        Subject::Job { job } => (job, false),
        Subject::Page { job, .. } => (job, true),
        Subject::Webhook { .. } | Subject::Message => return Ok(()),
    };
    let job = jobs::find(app, job).await?.map(|kept| kept.value);
    let Some(plan) = job.and_then(|job| job.plan) else {
        sum.unknown += 1;
        return Ok(());
    };
    let pages = if page { 1 } else { plan.ai_pages };
    sum.pages += pages;
    // A plan without AI is known, and free.
    let each = plan.estimated_cost_micro_usd.0.checked_div(u64::from(plan.ai_pages)).unwrap_or(0);
    sum.cost += MicroUsd(each * u64::from(pages));
    Ok(())
}

async fn restart(app: &App, id: &JobId, by: &str, password: Option<Secret>) -> Result<(), StepError> {
    // One that is not read again would never forget its password.
    let needs_it = jobs::load(app, id).await?.value.state == State::Failed;
    if let Some(password) = password.filter(|_| needs_it) {
        app.write(vec![passwords::keep(app, id, &password).await?]).await?;
    }
    let now = app.clock.now();
    let kept = jobs::advance(app, "operator", id, |job| match job.state {
        State::Failed => {
            let deadline = after(now, job.received.options.job_timeout());
            vec![JobEvent::Redriven { deadline, by: by.to_owned() }]
        }
        _ => vec![],
    })
    .await?;
    app.flow.start(id, kept.value.redrives, &kept.value.trace()).await?;
    Ok(())
}

async fn resend(app: &App, letter: &DeadLetter) -> Result<(), StepError> {
    let body = letter.message.as_deref().unwrap_or_default();
    let mut message = PageMessage::parse(body)
        .map_err(|error| StepError::Broken { code: "unreadable_message", reason: error.to_string() })?;
    let page = pages::find(app, &message.job_id, message.page_id).await?;
    message.attempt = page.map_or(0, |kept| kept.value.attempt).max(message.attempt) + 1;
    message.task_token = None;
    let job = jobs::load(app, &message.job_id).await?.value;
    if job.is_over() {
        if !heal::heals(&job) {
            let reason = format!("its job is {}: nothing would come of reading the page", job.state);
            return Err(StepError::Broken { code: "nothing_to_heal", reason });
        }
        credits::check(app, &job, 1).await?;
    }
    message.deadline = after(app.clock.now(), job.received.options.job_timeout());
    let name = format!("{}:a{}", message.idempotency_key, message.attempt);
    let outgoing =
        Outgoing { name, job: message.job_id.clone(), lane: message.priority, body: message.encode() };
    app.queue.send(&[outgoing]).await?;
    Ok(())
}

/// The queue's own tools know nothing of letters: SQS's redrive sends a dead message back as it
/// was. Answers with the message as it has to be taken then, sent once more and with a deadline of
/// its own; `None` for a message that is just late.
pub async fn revived(
    app: &App,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Option<PageMessage>, StepError> {
    let id = dead_letters::page_letter(&message.job_id, message.page_id);
    loop {
        let Some(kept) = dead_letters::find(app, &id).await? else { return Ok(None) };
        let letter = &kept.value;
        let as_it_stands = |revived: Revived| PageMessage {
            attempt: revived.sending,
            deadline: revived.deadline,
            ..message.clone()
        };
        if let Some(revived) = letter.revived {
            return Ok(Some(as_it_stands(revived)));
        }
        // A delivery that is counted on from before its death was never redriven. Neither was the copy of a
        // message that we gave up ourselves: the queue has only those that it delivered too often.
        let queue_has_it = letter.attempts >= app.settings.max_receive_count;
        if !letter.waits() || !queue_has_it || delivery.receive_count > letter.attempts {
            return Ok(None);
        }
        let job = jobs::load(app, &message.job_id).await?.value;
        if job.is_over() && !heal::heals(&job) {
            return Ok(None);
        }
        let page = pages::find(app, &message.job_id, message.page_id).await?;
        let now = app.clock.now();
        let revived = Revived {
            sending: page.map_or(0, |kept| kept.value.attempt).max(letter.sending).max(message.attempt) + 1,
            deadline: after(now, job.received.options.job_timeout()),
        };
        let marked =
            DeadLetter { redriven_at: Some(now), revived: Some(revived), message: None, ..letter.clone() };
        if dead_letters::store(app, Some(&kept), marked, DeadEvent::Redriven { by: "queue".into() }).await? {
            return Ok(Some(as_it_stands(revived)));
        }
    }
}

/// Lets a dead letter go: it is no longer listed, and its message is forgotten.
pub async fn purge(app: &App, id: &DeadLetterId, by: &str) -> Result<(), StepError> {
    let kept = load(app, id).await?;
    let letter = DeadLetter { message: None, purged: true, ..kept.value.clone() };
    dead_letters::store(app, Some(&kept), letter, DeadEvent::Purged { by: by.to_owned() }).await?;
    Ok(())
}
