//! Fails a job that can't be processed: records the failure, adds a dead letter and its notice.

use crate::{
    dead_letters::{
        DeadLetters,
        add::{self, NewDeadLetter},
    },
    event::Actor,
    ids::JobId,
    job::{Failure, Job, JobEvent, StepError, jobs, passwords},
};

/// Stores failure, dead letter and notice in one transaction. A job that is over stays as it is.
pub async fn fail(dead_letters: &DeadLetters, id: &JobId, failure: Failure) -> Result<Job, StepError> {
    let reason = format!("{}: {}", failure.code, failure.reason);
    let events = [JobEvent::Failed(failure)];
    loop {
        let job = jobs::load(&dead_letters.store, id).await?;
        if job.value.is_over() {
            // The process that ended it may have died before it gave the seat back.
            dead_letters.admission.leave(id).await;
            return Ok(job.value);
        }
        let dead_letter = NewDeadLetter::of_job(&job.value, reason.clone());
        let mut more = add::changes(&dead_letters.store, &dead_letter).await?;
        more.extend(passwords::delete_change(&dead_letters.store, id).await?);
        if let Some(failed) =
            jobs::advance_once(&dead_letters.store, Actor::Finalize, &job, &events, more).await?
        {
            add::added(&dead_letter);
            dead_letters.admission.leave(id).await;
            return Ok(failed.value);
        }
    }
}
