//! Ending a job that can't be processed: recorded, in the dead letters, its people told.

use crate::{
    app::App,
    ids::JobId,
    job::{Failure, Job, JobEvent, jobs, passwords},
};
use crate::{
    dead_letters::add::{self, Death},
    job::StepError,
};

/// Tells whoever is responsible, then writes failure and dead letter in one: a crash in between tells
/// twice, and no job fails without a letter.
pub async fn fail(app: &App, id: &JobId, failure: Failure) -> Result<Job, StepError> {
    let reason = format!("{}: {}", failure.code, failure.reason);
    let events = [JobEvent::Failed(failure)];
    let mut is_told = false;
    loop {
        let kept = jobs::load(app, id).await?;
        if kept.value.is_over() {
            return Ok(kept.value);
        }
        let death = Death::of_job(&kept.value, reason.clone());
        if !is_told {
            add::notify(app, &death).await;
            is_told = true;
        }
        let mut more = add::moves(app, &death).await?;
        more.extend(passwords::forget(app, id).await?);
        if let Some(failed) = jobs::advance_once(app, "finalize", &kept, &events, more).await? {
            add::log(&death);
            return Ok(failed.value);
        }
    }
}
