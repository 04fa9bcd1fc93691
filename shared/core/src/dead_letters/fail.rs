//! Ending a job that can't be processed: recorded, in the dead letters, its people told.

use crate::{
    dead_letters::{
        DeadLetters,
        add::{self, NewDeadLetter},
    },
    event::Actor,
    ids::JobId,
    job::{Failure, Job, JobEvent, StepError, jobs, passwords},
};

/// Tells whoever is responsible, then writes failure and dead letter in one: a crash in between tells
/// twice, and no job fails without a letter.
pub async fn fail(dead_letters: &DeadLetters, id: &JobId, failure: Failure) -> Result<Job, StepError> {
    let reason = format!("{}: {}", failure.code, failure.reason);
    let events = [JobEvent::Failed(failure)];
    let mut is_told = false;
    loop {
        let kept = jobs::load(&dead_letters.store, id).await?;
        if kept.value.is_over() {
            return Ok(kept.value);
        }
        let death = NewDeadLetter::of_job(&kept.value, reason.clone());
        if !is_told {
            add::notify(dead_letters, &death).await;
            is_told = true;
        }
        let mut more = add::moves(&dead_letters.store, &death).await?;
        more.extend(passwords::forget(&dead_letters.store, id).await?);
        if let Some(failed) =
            jobs::advance_once(&dead_letters.store, Actor::Finalize, &kept, &events, more).await?
        {
            add::log(&death);
            return Ok(failed.value);
        }
    }
}
