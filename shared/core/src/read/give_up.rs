//! Giving a message up: it becomes a dead letter and its page falls back, so that the job continues.

use crate::{
    dead_letters::add::{self, Cause, NewDeadLetter},
    ids::{JobId, PageNumber},
    job::{
        StepError, jobs,
        message::{PageMessage, PartialMessage},
    },
    ports::{Fault, queue::Delivery},
    read::{
        PageReader,
        dispatch::send_copy,
        outcome::{CallResult, ModelCall, Settlement},
        pages::{self, Claim, Settled},
        report::report_settled,
    },
};

/// The finding about a message that was delivered too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Its page is done: this was a second copy.
    Obsolete,
    /// A worker has its page now.
    InProgress,
    /// No worker died with its page. A copy was sent, with a count of its own.
    SentAgain,
    GivenUp,
}

/// Gives up a message that can't be parsed. If it still names its page, that page falls back, so that no
/// flow waits for it.
pub async fn on_message(reader: &PageReader, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    add::add(&reader.dead_letters, NewDeadLetter::of_message(&reader.settings, delivery, reason.clone()))
        .await?;
    match PartialMessage::of(&delivery.body) {
        PartialMessage { job: Some(job), page: Some(page), .. } => {
            fall_back(reader, &job, page, 0, reason).await
        }
        _ => Ok(()),
    }
}

/// Gives up a message of a deleted job, without keeping its text.
async fn on_deleted_job(reader: &PageReader, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    add::add(
        &reader.dead_letters,
        NewDeadLetter { message: None, ..NewDeadLetter::of_message(&reader.settings, delivery, reason) },
    )
    .await
}

/// Gives up a page that can't be read because of an error of ours.
pub async fn on_page(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    reason: String,
) -> Result<(), Fault> {
    if jobs::find(&reader.store, &message.job_id).await?.is_none() {
        return on_deleted_job(reader, delivery, reason).await;
    }
    add_page_dead_letter(reader, delivery, message, Cause::GaveUp, reason.clone()).await?;
    fall_back_from(reader, message, reason).await
}

/// Adds a dead letter for a page that falls back after an error of an unknown kind: that is for a person, who may
/// send it again. The page is settled by the caller, or was by its deadline.
pub(super) async fn on_unknown_error<'a>(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    mut calls: impl DoubleEndedIterator<Item = &'a ModelCall>,
) -> Result<(), Fault> {
    match calls.rfind(|call| call.result == CallResult::Unknown) {
        Some(call) => {
            add_page_dead_letter(reader, delivery, message, Cause::Unknown, call.detail.clone()).await
        }
        None => Ok(()),
    }
}

/// Adds the dead letter only; the page is settled by the caller.
async fn add_page_dead_letter(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
    cause: Cause,
    reason: String,
) -> Result<(), Fault> {
    add::add(&reader.dead_letters, NewDeadLetter::of_page(delivery, message, cause, reason)).await
}

/// Handles a message that was delivered too often without being settled. It is given up if a worker died with its
/// page. Where none did, Lambda threw the deliveries away because it had no capacity, or the last one ended well,
/// with another round to come.
pub async fn on_exhausted(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Exhausted, StepError> {
    let page = pages::find(&reader.store, &message.job_id, message.page_id).await?.map(|kept| kept.value);
    if page.as_ref().is_some_and(|page| page.answers(message.redrive_count)) {
        report_settled(reader, delivery, message).await?;
        return Ok(Exhausted::Obsolete);
    }
    match page.and_then(|page| page.lease) {
        Some(lease) if lease.is_valid(reader.store.clock.now()) => return Ok(Exhausted::InProgress),
        // It has expired and was not released.
        Some(_) => {}
        // This message may be the only one.
        None => {
            send_copy(reader, delivery).await?;
            return Ok(Exhausted::SentAgain);
        }
    }
    let times = reader.settings.max_receive_count;
    let reason =
        format!("delivered {times} times and never settled: the worker died or lost its storage each time");
    if jobs::find(&reader.store, &message.job_id).await?.is_none() {
        on_deleted_job(reader, delivery, reason).await?;
        return Ok(Exhausted::GivenUp);
    }
    let dead_letter = NewDeadLetter::of_page(delivery, message, Cause::Crashed, reason.clone());
    let dead_letter = NewDeadLetter { receive_count: times, ..dead_letter };
    add::add(&reader.dead_letters, dead_letter).await?;
    fall_back_from(reader, message, reason).await?;
    Ok(Exhausted::GivenUp)
}

async fn fall_back_from(reader: &PageReader, message: &PageMessage, reason: String) -> Result<(), Fault> {
    fall_back(reader, &message.job_id, message.page_id, message.redrive_count, reason).await
}

async fn fall_back(
    reader: &PageReader,
    job: &JobId,
    page: PageNumber,
    redrive_count: u32,
    reason: String,
) -> Result<(), Fault> {
    let Some(job) = jobs::find(&reader.store, job).await?.map(|kept| kept.value) else { return Ok(()) };
    // A published result has this page's own text already.
    if job.is_over() {
        return Ok(());
    }
    let (store, now) = (&reader.store, reader.store.clock.now());
    let (holder, visibility) = (store.holder(), reader.settings.page_visibility);
    let claim = pages::claim(store, &job.id, page, redrive_count, None, &holder, visibility).await?;
    let Claim::Granted(held) = claim else { return Ok(()) };
    let outcome = Settlement::fallback(reason, vec![], now, now);
    let blobs = reader.blobs.as_ref();
    // Refused only if another worker settles the page: either way it has text.
    let settled = pages::settle(store, blobs, &job, &held, redrive_count, outcome, None).await?;
    if settled == Ok(Settled::LastPage) {
        reader.flow.pages_settled(&job.id).await?;
    }
    Ok(())
}
