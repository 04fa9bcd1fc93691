use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        ids::{JobId, PageNumber, TaskToken},
        job,
        trace::TraceContext,
    },
    ports::{
        Fault,
        flow::{Flow, Settlement},
    },
};

use crate::suites::flow::{Driver, Told};

/// Flows as Step Functions has them: each begins once, a token is answered once, and whoever is to
/// be woken has to wait for it. The test drives the jobs.
#[derive(Default)]
pub struct MemoryFlow {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of every job, by how many redrives.
    begun: HashSet<(JobId, u32)>,
    going: HashMap<JobId, Going>,
    tokens: u32,
}

#[derive(Default)]
struct Going {
    waits: HashMap<TaskToken, PageNumber>,
    listens: bool,
    told: Vec<Told>,
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
        if state.begun.insert((job.clone(), redrives)) {
            state.going.insert(job.clone(), Going::default());
        }
        Ok(())
    }

    async fn settle(&self, token: &TaskToken) -> Result<Settlement, Fault> {
        for going in self.state().going.values_mut() {
            if let Some(page) = going.waits.remove(token) {
                going.told.push(Told::Settled(page));
                return Ok(Settlement::Accepted);
            }
        }
        Ok(Settlement::Stale)
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(going) = self.state().going.get_mut(job).filter(|going| going.listens) {
            going.listens = false;
            going.told.push(Told::Woken);
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
        self.state().begun.iter().filter(|(begun, _)| begun == job).count()
    }

    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken {
        let mut state = self.state();
        state.tokens += 1;
        let token = TaskToken::new(format!("token {}", state.tokens));
        state.going.entry(job.clone()).or_default().waits.insert(token.clone(), page);
        token
    }

    async fn listen(&self, job: &JobId) {
        self.state().going.entry(job.clone()).or_default().listens = true;
    }

    async fn told(&self, job: &JobId, _count: usize) -> Vec<Told> {
        self.state().going.get(job).map(|going| going.told.clone()).unwrap_or_default()
    }

    async fn end(&self, job: &JobId) {
        self.state().going.remove(job);
    }
}
