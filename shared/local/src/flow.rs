//! The flow of one process: which jobs it drives, and which of their pages have settled.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
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
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Default)]
pub struct LocalFlow {
    state: Mutex<State>,
    started: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<JobId>,
    watches: HashMap<JobId, Watch>,
}

#[derive(Default)]
struct Watch {
    settled: HashSet<PageNumber>,
    changed: Arc<Notify>,
}

impl LocalFlow {
    /// Waits for the next job that was started and is not yet driven here. It counts as driven until
    /// [`LocalFlow::unwatch`]: starting it again meanwhile does nothing.
    pub async fn next_started(&self) -> JobId {
        loop {
            {
                let mut state = self.state.lock();
                while let Some(job) = state.waiting.pop() {
                    if !state.watches.contains_key(&job) {
                        state.watches.insert(job.clone(), Watch::default());
                        return job;
                    }
                }
            }
            self.started.notified().await;
        }
    }

    /// Starts to accept settlements of a job's pages; those of a job without a watch are stale.
    pub fn watch(&self, job: &JobId) -> Arc<Notify> {
        self.state.lock().watches.entry(job.clone()).or_default().changed.clone()
    }

    /// Queues the job for a driver, unless it is queued already.
    pub fn enqueue(&self, job: &JobId) {
        let mut state = self.state.lock();
        if !state.waiting.contains(job) {
            state.waiting.insert(0, job.clone());
        }
        drop(state);
        self.started.notify_one();
    }

    pub fn unwatch(&self, job: &JobId) {
        self.state.lock().watches.remove(job);
    }

    /// Takes the pages that have settled since the last call.
    pub fn take_settled(&self, job: &JobId) -> HashSet<PageNumber> {
        self.state
            .lock()
            .watches
            .get_mut(job)
            .map(|watch| std::mem::take(&mut watch.settled))
            .unwrap_or_default()
    }

    pub fn token(job: &JobId, page: PageNumber) -> TaskToken {
        TaskToken::new(format!("{job}/{page}"))
    }
}

#[async_trait]
impl Flow for LocalFlow {
    async fn start(&self, job: &JobId, _redrives: u32, _trace: &TraceContext) -> Result<(), Fault> {
        self.enqueue(job);
        Ok(())
    }

    async fn settle(&self, token: &TaskToken) -> Result<Acceptance, Fault> {
        let parts = token.as_str().rsplit_once('/');
        let page = parts.and_then(|(_, page)| page.parse().ok()).and_then(PageNumber::new);
        let (Some((job, _)), Some(page)) = (parts, page) else {
            return Ok(Acceptance::Stale);
        };
        match self.state.lock().watches.get_mut(&JobId::new(job)) {
            None => Ok(Acceptance::Stale),
            Some(watch) => {
                watch.settled.insert(page);
                watch.changed.notify_one();
                Ok(Acceptance::Accepted)
            }
        }
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(watch) = self.state.lock().watches.get(job) {
            watch.changed.notify_one();
        }
        Ok(())
    }

    /// Wakes the driver in every case: one that has nothing to do reads the job and continues.
    async fn remind(&self, job: &JobId, _: job::State) -> Result<(), Fault> {
        self.wake(job).await
    }
}
