//! Ends a job's time now at its caller's request: the result is published with what is there.

use crate::{
    event::Actor,
    events::Store,
    ids::JobId,
    job::{
        Interrupts, Job, JobEvent,
        jobs::{self, JobError},
    },
    ports::flow::Flow,
};

/// Moves the deadline to now and wakes the flow, which publishes as at any deadline: pages that are not
/// settled keep our own text, and `timeout_occurred` is set. Before the text of the document is read there
/// is nothing to publish: then, and for a job that is over or halted, nothing changes.
pub async fn end_now(
    store: &Store,
    flow: &dyn Flow,
    interrupts: &Interrupts,
    job: &JobId,
    by: &str,
) -> Result<Job, JobError> {
    let ended = jobs::advance(store, Actor::Operator, job, |job| {
        if job.survey.is_none() || job.is_over() || job.halt.is_some() {
            return vec![];
        }
        let deadline = job.deadline.min(store.clock.now());
        // In one batch: of a moved deadline alone, a flow that waits for the earlier one would not know.
        vec![JobEvent::DeadlineMoved { deadline, by: by.to_owned() }, JobEvent::DeadlineReached {}]
    })
    .await?;
    interrupts.interrupt(job);
    flow.wake(job).await?;
    Ok(ended.value)
}
