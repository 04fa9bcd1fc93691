//! The end of a message that can't be worked off: a dead letter, and MuPDF's text for its page, so
//! that the job goes on.

use crate::{
    app::App,
    ids::{JobId, PageNumber, TaskToken},
    job::{
        jobs,
        message::{PageMessage, Remains},
    },
    ports::{Fault, queue::Delivery},
    read::{
        outcome::Outcome,
        pages::{self, Claim},
    },
};
use crate::{
    dead_letters::add::{Death, bury},
    job::StepError,
    read::dispatch::{settle_and_heal, settle_token},
};

/// What a message that was delivered too often turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Its page is done: a second copy, and nobody's loss.
    Superfluous,
    /// Somebody works on its page right now.
    InGoodHands,
    GivenUp,
}

/// A message that we do not understand. Should it still say which page it was for, that page falls back
/// and nobody waits for it.
pub async fn on_message(app: &App, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    bury(app, Death::of_message(app, delivery, reason.clone())).await?;
    let Remains { job, page, token, .. } = Remains::of(&delivery.body);
    match (job, page) {
        (Some(job), Some(page)) => fall_back(app, &job, page, 0, token.as_ref(), reason).await,
        _ => settle_token(app, token.as_ref()).await.map(drop),
    }
}

/// A message of a job that was deleted. Its text goes with the job.
async fn on_stranger(app: &App, delivery: &Delivery, reason: String) -> Result<(), Fault> {
    bury(app, Death { message: None, ..Death::of_message(app, delivery, reason) }).await
}

/// A page that can't be read for a reason of ours.
pub async fn on_page(
    app: &App,
    delivery: &Delivery,
    message: &PageMessage,
    reason: String,
) -> Result<(), Fault> {
    if jobs::find(app, &message.job_id).await?.is_none() {
        return on_stranger(app, delivery, reason).await;
    }
    bury_page(app, delivery, message, reason.clone()).await?;
    fall_back_from(app, message, reason).await
}

/// The letter alone.
pub async fn bury_page(
    app: &App,
    delivery: &Delivery,
    message: &PageMessage,
    reason: String,
) -> Result<(), Fault> {
    bury(app, Death::of_page(delivery, message, reason)).await
}

/// Delivered too often without ever being settled: whoever worked on it died each time.
pub async fn on_exhausted(
    app: &App,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Exhausted, StepError> {
    let page = pages::find(app, &message.job_id, message.page_id).await?;
    if let Some(page) = page.map(|kept| kept.value) {
        if page.answers(message.attempt) {
            settle_and_heal(app, message).await?;
            return Ok(Exhausted::Superfluous);
        }
        if page.lease.as_ref().is_some_and(|lease| lease.alive(app.clock.now())) {
            return Ok(Exhausted::InGoodHands);
        }
    }
    let times = app.settings.max_receive_count;
    let reason =
        format!("delivered {times} times and never settled: the worker died or lost its storage each time");
    if jobs::find(app, &message.job_id).await?.is_none() {
        on_stranger(app, delivery, reason).await?;
        return Ok(Exhausted::GivenUp);
    }
    let death = Death { deliveries: times, ..Death::of_page(delivery, message, reason.clone()) };
    bury(app, death).await?;
    fall_back_from(app, message, reason).await?;
    Ok(Exhausted::GivenUp)
}

async fn fall_back_from(app: &App, message: &PageMessage, reason: String) -> Result<(), Fault> {
    let token = message.task_token.as_ref();
    fall_back(app, &message.job_id, message.page_id, message.attempt, token, reason).await
}

async fn fall_back(
    app: &App,
    job: &JobId,
    page: PageNumber,
    attempt: u32,
    token: Option<&TaskToken>,
    reason: String,
) -> Result<(), Fault> {
    let Some(job) = jobs::find(app, job).await?.map(|kept| kept.value) else { return Ok(()) };
    // A published result has this page's MuPDF text already.
    if !job.is_over() {
        let now = app.clock.now();
        let (holder, visibility) = (app.holder(), app.settings.page_visibility);
        let claim = pages::claim(app, &job.id, page, attempt, &holder, visibility).await?;
        if let Claim::Granted(held) = claim {
            let outcome = Outcome::fallback(reason, vec![], now, now);
            // Lost only to somebody who settles it: either way the page has its text.
            let _ = pages::settle(app, &job, &held, attempt, outcome, None).await?;
        }
    }
    settle_token(app, token).await?;
    Ok(())
}
