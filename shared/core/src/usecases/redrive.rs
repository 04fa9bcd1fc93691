//! Bringing dead letters back to work, or letting them go.

use super::StepError;
use crate::{
    app::App,
    domain::{
        ids::{DeadLetterId, JobId},
        job::{JobEvent, State},
        message::PageMessage,
        secret::Secret,
    },
    ports::{clock::after, queue::Outgoing, records::Batch},
    store::{
        Kept,
        dead::{self, DeadEvent, DeadLetter, Subject},
        jobs, pages, secrets,
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// The job starts again.
    Job(JobId),
    /// The page was sent to the workers once more.
    Page(JobId),
}

async fn load(app: &App, id: &DeadLetterId) -> Result<Kept<DeadLetter>, StepError> {
    dead::find(app, id).await?.ok_or_else(|| StepError::Broken {
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
        Subject::Message => {
            let reason = format!("the message can't be read and would die again: {}", letter.reason);
            return Err(StepError::Broken { code: "unreadable_message", reason });
        }
    };
    // The message lives on in the queue; a second copy of the document's text is not kept.
    let marked = DeadLetter { redriven_at: Some(app.clock.now()), message: None, ..letter.clone() };
    // Refused when somebody else redrove it at the same time: also fine.
    dead::store(app, Some(&kept), marked, DeadEvent::Redriven { by: by.to_owned() }).await?;
    Ok(redriven)
}

async fn restart(app: &App, id: &JobId, by: &str, password: Option<Secret>) -> Result<(), StepError> {
    if let Some(password) = password {
        let changes = vec![secrets::keep(app, id, &password).await?];
        app.records.write(&Batch { stamp: app.ids.fresh(), changes }).await?;
    }
    let now = app.clock.now();
    jobs::advance(app, "operator", id, |job| match job.state {
        State::Failed => {
            let deadline = after(now, job.received.options.job_timeout());
            vec![JobEvent::Redriven { deadline, by: by.to_owned() }]
        }
        _ => vec![],
    })
    .await?;
    app.flow.start(id).await?;
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
    message.deadline = after(app.clock.now(), job.received.options.job_timeout());
    let name = format!("{}:a{}", message.idempotency_key, message.attempt);
    let outgoing =
        Outgoing { name, job: message.job_id.clone(), lane: message.priority, body: message.encode() };
    app.queue.send(&[outgoing]).await?;
    Ok(())
}

/// Lets a dead letter go: it is no longer listed, and its message is forgotten.
pub async fn purge(app: &App, id: &DeadLetterId, by: &str) -> Result<(), StepError> {
    let kept = load(app, id).await?;
    let letter = DeadLetter { message: None, ..kept.value.clone() };
    dead::store(app, Some(&kept), letter, DeadEvent::Purged { by: by.to_owned() }).await?;
    Ok(())
}
