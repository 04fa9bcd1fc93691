//! The workflow that drives a job from step to step: Step Functions on AWS, the driver on one machine.

use async_trait::async_trait;

use jiff::Timestamp;

use crate::{ids::JobId, ports::Fault, state::State, trace::TraceContext};

/// The input of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStart {
    pub job: JobId,
    /// A redriven job gets a new flow, which this distinguishes from the earlier ones.
    pub redrives: u32,
    /// Greater than 0 if the flow has ended and the job has not: it is started once more for each number.
    pub restarts: u32,
    pub state: State,
    pub deadline: Timestamp,
    /// When pages that no model has read by then are recognized, where that is not done all the time.
    pub ocr_at: Timestamp,
    /// The parent of the flow's own spans.
    pub trace: TraceContext,
}

#[async_trait]
pub trait Flow: Send + Sync {
    /// Starts the flow of a job. While the flow runs, starting it again has no effect; after its end
    /// it may run once more, and finds that the job has ended.
    async fn start(&self, start: &FlowStart) -> Result<(), Fault>;

    /// Reports that every page of the job is settled. A flow that is not waiting may miss this, because it
    /// reads the countdown before it waits. A job without a flow is no error, nor is a second report.
    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault>;

    /// Makes the flow read the job again after it was cancelled, approved or modified. A flow that is
    /// not waiting may miss this, because it reads the job before it waits. A job without a flow is
    /// no error.
    async fn wake(&self, job: &JobId) -> Result<(), Fault>;

    /// Wakes the flow if it may have missed an earlier [`Flow::wake`]; for the sweep, which can't know
    /// that. A flow that has already acted on `state` is not woken where that would restart it.
    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault>;
}
