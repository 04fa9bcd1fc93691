//! The end of a message that can't be worked off: a dead letter, and MuPDF's text for its page, so
//! that the job goes on.

use crate::{
    dead_letters::add::{NewDeadLetter, bury},
    ids::{JobId, PageNumber, TaskToken},
    job::{
        StepError, jobs,
        message::{PageMessage, PartialMessage},
    },
    ports::{Fault, queue::Delivery},
    read::{
        PageReader,
        dispatch::{settle_and_heal, settle_token},
        outcome::Settlement,
        pages::{self, Claim},
    },
};

/// What a message that was delivered too often turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Its page is done: a second copy, and nobody's loss.
    Obsolete,
    /// Somebody works on its page right now.
    InProgress,
    GivenUp,
}

/// A message that we do not understand. Should it still say which page it was for, that page falls back
/// and nobody waits for it.
pub async fn on_message(reader: &PageReader, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    bury(&reader.dead_letters, NewDeadLetter::of_message(&reader.settings, delivery, reason.clone())).await?;
    let PartialMessage { job, page, token, .. } = PartialMessage::of(&delivery.body);
    match (job, page) {
        (Some(job), Some(page)) => fall_back(reader, &job, page, 0, token.as_ref(), reason).await,
        _ => settle_token(reader.flow.as_ref(), token.as_ref()).await.map(drop),
    }
}

/// A message of a job that was deleted. Its text goes with the job.
async fn on_deleted_job(reader: &PageReader, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    bury(
        &reader.dead_letters,
        NewDeadLetter { message: None, ..NewDeadLetter::of_message(&reader.settings, delivery, reason) },
    )
    .await
}

/// A page that can't be read for a reason of ours.
pub async fn on_page(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    reason: String,
) -> Result<(), Fault> {
    if jobs::find(&reader.store, &message.job_id).await?.is_none() {
        return on_deleted_job(reader, delivery, reason).await;
    }
    add_page_dead_letter(reader, delivery, message, reason.clone()).await?;
    fall_back_from(reader, message, reason).await
}

/// The letter alone.
pub async fn add_page_dead_letter(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    reason: String,
) -> Result<(), Fault> {
    bury(&reader.dead_letters, NewDeadLetter::of_page(delivery, message, reason)).await
}

/// Delivered too often without ever being settled: whoever worked on it died each time.
pub async fn on_exhausted(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Exhausted, StepError> {
    let page = pages::find(&reader.store, &message.job_id, message.page_id).await?;
    if let Some(page) = page.map(|kept| kept.value) {
        if page.answers(message.redrive_count) {
            settle_and_heal(reader, message).await?;
            return Ok(Exhausted::Obsolete);
        }
        if page.lease.as_ref().is_some_and(|lease| lease.alive(reader.store.clock.now())) {
            return Ok(Exhausted::InProgress);
        }
    }
    let times = reader.settings.max_receive_count;
    let reason =
        format!("delivered {times} times and never settled: the worker died or lost its storage each time");
    if jobs::find(&reader.store, &message.job_id).await?.is_none() {
        on_deleted_job(reader, delivery, reason).await?;
        return Ok(Exhausted::GivenUp);
    }
    let death =
        NewDeadLetter { receive_count: times, ..NewDeadLetter::of_page(delivery, message, reason.clone()) };
    bury(&reader.dead_letters, death).await?;
    fall_back_from(reader, message, reason).await?;
    Ok(Exhausted::GivenUp)
}

async fn fall_back_from(reader: &PageReader, message: &PageMessage, reason: String) -> Result<(), Fault> {
    let token = message.task_token.as_ref();
    fall_back(reader, &message.job_id, message.page_id, message.redrive_count, token, reason).await
}

async fn fall_back(
    reader: &PageReader,
    job: &JobId,
    page: PageNumber,
    redrive_count: u32,
    token: Option<&TaskToken>,
    reason: String,
) -> Result<(), Fault> {
    let Some(job) = jobs::find(&reader.store, job).await?.map(|kept| kept.value) else { return Ok(()) };
    // A published result has this page's MuPDF text already.
    if !job.is_over() {
        let now = reader.store.clock.now();
        let (holder, visibility) = (reader.store.holder(), reader.settings.page_visibility);
        let claim = pages::claim(&reader.store, &job.id, page, redrive_count, &holder, visibility).await?;
        if let Claim::Granted(held) = claim {
            let outcome = Settlement::fallback(reason, vec![], now, now);
            // Lost only to somebody who settles it: either way the page has its text.
            let _ = pages::settle(
                &reader.store,
                reader.blobs.as_ref(),
                &job,
                &held,
                redrive_count,
                outcome,
                None,
            )
            .await?;
        }
    }
    settle_token(reader.flow.as_ref(), token).await?;
    Ok(())
}
