use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::{
    ids::{JobId, PageNumber, TaskToken},
    job,
    ports::{
        Fault,
        flow::{Acceptance, Flow},
    },
    trace::TraceContext,
};

use crate::conformance::flow::{Driver, Signal};

/// Flows like those of Step Functions: each starts once, a token is answered once, and a wake reaches
/// only a flow that waits. The test drives the jobs.
#[derive(Default)]
pub struct MemoryFlow {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each job with its number of redrives.
    started: HashSet<(JobId, u32)>,
    running: HashMap<JobId, Running>,
    tokens: u32,
}

#[derive(Default)]
struct Running {
    waits: HashMap<TaskToken, PageNumber>,
    listens: bool,
    signals: Vec<Signal>,
}

impl MemoryFlow {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[async_trait]
impl Flow for MemoryFlow {
    async fn start(&self, job: &JobId, redrives: u32, _trace: &TraceContext) -> Result<(), Fault> {
        let mut state = self.state();
        if state.started.insert((job.clone(), redrives)) {
            state.running.insert(job.clone(), Running::default());
        }
        Ok(())
    }

    async fn settle(&self, token: &TaskToken) -> Result<Acceptance, Fault> {
        for flow in self.state().running.values_mut() {
            if let Some(page) = flow.waits.remove(token) {
                flow.signals.push(Signal::Settled(page));
                return Ok(Acceptance::Accepted);
            }
        }
        Ok(Acceptance::Stale)
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(flow) = self.state().running.get_mut(job).filter(|flow| flow.listens) {
            flow.listens = false;
            flow.signals.push(Signal::Woken);
        }
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

    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken {
        let mut state = self.state();
        state.tokens += 1;
        let token = TaskToken::new(format!("token {}", state.tokens));
        state.running.entry(job.clone()).or_default().waits.insert(token.clone(), page);
        token
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
