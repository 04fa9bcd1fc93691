//! Whatever drives jobs from step to step: Step Functions on AWS, the driver on one machine.

use async_trait::async_trait;

use crate::{
    ids::{JobId, TaskToken},
    ports::Fault,
    state::State,
    trace::TraceContext,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    Accepted,
    /// Nobody waits for this token: the job's flow has ended, the page was settled before, or it is no
    /// token at all. Expected, not an error.
    Stale,
}

#[async_trait]
pub trait Flow: Send + Sync {
    /// Starts a job's flow. While that goes on, starting it again does nothing; after its end it may
    /// begin once more, and find a job that is over. A job that failed and was redriven has a
    /// flow anew: `redrives` tells it from the one that has ended. Whatever
    /// the flow traces itself belongs under `trace`.
    async fn start(&self, job: &JobId, redrives: u32, trace: &TraceContext) -> Result<(), Fault>;

    /// Tells the flow that the page behind `token` has its text: `Accepted` if it waits for that page.
    /// Said again it is `Stale`, or `Accepted` once more while the flow goes on: a flow need not
    /// remember. It concerns no other page in any case.
    async fn settle(&self, token: &TaskToken) -> Result<Acceptance, Fault>;

    /// Tells the flow to look at the job again: it was cancelled, approved or changed. One that waits
    /// for no change just now need not hear of it later: it looks at the job before it waits. A job
    /// without a flow is no error.
    async fn wake(&self, job: &JobId) -> Result<(), Fault>;

    /// The same by somebody who can't know whether it was told: one that went by the job as it is in
    /// `state` is left alone where waking it would have it begin again.
    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault>;
}
