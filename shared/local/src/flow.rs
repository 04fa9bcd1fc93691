//! The flow of one process: which jobs run here, and which of their pages have settled.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next job that was started and is not yet driven here. It counts as driven from now on,
    /// until [`LocalFlow::unwatch`]: starting it again meanwhile does nothing.
    pub async fn next_started(&self) -> JobId {
        loop {
            {
                let mut state = self.state();
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

    /// Begins to take settlements for a job; those of a job that nobody watches are stale.
    pub fn watch(&self, job: &JobId) -> Arc<Notify> {
        self.state().watches.entry(job.clone()).or_default().changed.clone()
    }

    /// Has a driver take the job up, unless one is about to.
    pub fn begin(&self, job: &JobId) {
        let mut state = self.state();
        if !state.waiting.contains(job) {
            state.waiting.insert(0, job.clone());
        }
        drop(state);
        self.started.notify_one();
    }

    pub fn unwatch(&self, job: &JobId) {
        self.state().watches.remove(job);
    }

    /// What has settled since the last time.
    pub fn take_settled(&self, job: &JobId) -> HashSet<PageNumber> {
        self.state().watches.get_mut(job).map(|watch| std::mem::take(&mut watch.settled)).unwrap_or_default()
    }

    pub fn token(job: &JobId, page: PageNumber) -> TaskToken {
        TaskToken::new(format!("{job}/{page}"))
    }
}

#[async_trait]
impl Flow for LocalFlow {
    async fn start(&self, job: &JobId, _redrives: u32, _trace: &TraceContext) -> Result<(), Fault> {
        self.begin(job);
        Ok(())
    }

    async fn settle(&self, token: &TaskToken) -> Result<Settlement, Fault> {
        let parts = token.as_str().rsplit_once('/');
        let page = parts.and_then(|(_, page)| page.parse().ok()).and_then(PageNumber::new);
        let (Some((job, _)), Some(page)) = (parts, page) else {
            return Ok(Settlement::Stale);
        };
        match self.state().watches.get_mut(&JobId::new(job)) {
            None => Ok(Settlement::Stale),
            Some(watch) => {
                watch.settled.insert(page);
                watch.changed.notify_one();
                Ok(Settlement::Accepted)
            }
        }
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(watch) = self.state().watches.get(job) {
            watch.changed.notify_one();
        }
        Ok(())
    }

    /// A driver that is woken for nothing looks at the job and goes on.
    async fn remind(&self, job: &JobId, _: job::State) -> Result<(), Fault> {
        self.wake(job).await
    }
}
