//! Cancels a job at its caller's request. The pages read so far are still published; a job that waits for
//! admission ends at once.

use crate::{
    event::Actor,
    events::Store,
    ids::JobId,
    job::{
        Interrupts, Job, JobEvent,
        jobs::{self, JobError},
        passwords,
    },
    ports::flow::Flow,
};

/// Records the request to cancel and wakes the flow, which finalizes the job. A repeated request, or one
/// for a job that is over, changes nothing.
pub async fn cancel(
    store: &Store,
    flow: &dyn Flow,
    interrupts: &Interrupts,
    job: &JobId,
    by: &str,
) -> Result<Job, JobError> {
    let cancelled = loop {
        let found = jobs::load(store, job).await?;
        // After `deadline_reached` the job is being published: a cancel has no effect.
        if found.value.is_over() || found.value.halt.is_some() {
            break found.value;
        }
        let mut events = vec![JobEvent::CancelRequested { by: by.to_owned() }];
        let mut more = vec![];
        if found.value.is_waiting() {
            // It has no flow that would end it.
            events.push(JobEvent::Cancelled { result: None });
            more.extend(passwords::delete_change(store, job).await?);
        }
        if let Some(stored) = jobs::advance_once(store, Actor::Cancel, &found, &events, more).await? {
            break stored.value;
        }
    };
    interrupts.interrupt(job);
    flow.wake(job).await?;
    Ok(cancelled)
}
