//! Whatever drives jobs from step to step: Step Functions on AWS, the driver on one machine.

use async_trait::async_trait;

use super::Fault;
use crate::domain::{
    ids::{JobId, TaskToken},
    trace::TraceContext,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    Accepted,
    /// Nobody waits for this token any more: the job has ended or the page was settled before.
    /// Expected, not an error.
    Stale,
}

#[async_trait]
pub trait Flow: Send + Sync {
    /// Starts a job's flow; starting it twice is harmless. A job that failed and was redriven has a
    /// flow anew: `redrives` tells it from the one that has ended. Whatever
    /// the flow traces itself belongs under `trace`.
    async fn start(&self, job: &JobId, redrives: u32, trace: &TraceContext) -> Result<(), Fault>;

    /// Tells the flow that the page behind `token` has its text.
    async fn settle(&self, token: &TaskToken) -> Result<Settlement, Fault>;

    /// Tells the flow to look at the job again: it was cancelled, approved or changed.
    async fn wake(&self, job: &JobId) -> Result<(), Fault>;
}
