use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::{
    ids::JobId,
    job,
    ports::{
        Fault,
        flow::{Flow, FlowStart},
    },
};

use crate::conformance::flow::{Driver, Signal};

/// Flows like those of Step Functions: each starts once, and a signal reaches only a flow that waits, once. The test drives the jobs.
#[derive(Default)]
pub struct MemoryFlow {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each job with its number of redrives.
    started: HashSet<(JobId, u32)>,
    running: HashMap<JobId, Running>,
}

#[derive(Default)]
struct Running {
    listens: bool,
    signals: Vec<Signal>,
}

impl MemoryFlow {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn signal(&self, job: &JobId, signal: Signal) {
        if let Some(flow) = self.state().running.get_mut(job).filter(|flow| flow.listens) {
            flow.listens = false;
            flow.signals.push(signal);
        }
    }
}

#[async_trait]
impl Flow for MemoryFlow {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        let mut state = self.state();
        if state.started.insert((start.job.clone(), start.redrives)) {
            state.running.insert(start.job.clone(), Running::default());
        }
        Ok(())
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        self.signal(job, Signal::Settled);
        Ok(())
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        self.signal(job, Signal::Woken);
        Ok(())
    }

    async fn remind(&self, job: &JobId, _: job::State) -> Result<(), Fault> {
        self.wake(job).await
    }
}

#[async_trait]
impl Driver for MemoryFlow {
    async fn starts(&self, job: &JobId) -> usize {
        self.state().started.iter().filter(|(started, _)| started == job).count()
    }

    async fn listen(&self, job: &JobId) {
        self.state().running.entry(job.clone()).or_default().listens = true;
    }

    async fn signals(&self, job: &JobId, _count: usize) -> Vec<Signal> {
        self.state().running.get(job).map(|flow| flow.signals.clone()).unwrap_or_default()
    }

    async fn end(&self, job: &JobId) {
        self.state().running.remove(job);
    }
}
