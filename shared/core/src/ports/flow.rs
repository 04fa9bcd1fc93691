//! The workflow that drives a job from step to step: Step Functions on AWS, the driver on one machine.

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
    /// No step waits for this token: the flow has ended, the page was settled before, or the token is
    /// invalid. Expected, not an error.
    Stale,
}

#[async_trait]
pub trait Flow: Send + Sync {
    /// Starts the flow of a job. While the flow runs, starting it again has no effect; after its end
    /// it may run once more, and finds that the job has ended. A redriven job gets a new flow, which
    /// `redrives` distinguishes from the earlier ones. `trace` is the parent of the flow's own spans.
    async fn start(&self, job: &JobId, redrives: u32, trace: &TraceContext) -> Result<(), Fault>;

    /// Reports that the page behind `token` is settled: `Accepted` if the flow waits for that page.
    /// Repeated, it is `Stale`, or `Accepted` again while the flow runs: a flow need not store which
    /// pages were reported. It never affects another page.
    async fn settle(&self, token: &TaskToken) -> Result<Acceptance, Fault>;

    /// Makes the flow read the job again after it was cancelled, approved or modified. A flow that is
    /// not waiting may miss this, because it reads the job before it waits. A job without a flow is
    /// no error.
    async fn wake(&self, job: &JobId) -> Result<(), Fault>;

    /// Wakes the flow if it may have missed an earlier [`Flow::wake`]; for the sweep, which can't know
    /// that. A flow that has already acted on `state` is not woken where that would restart it.
    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault>;
}
