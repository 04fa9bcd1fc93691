//! The flow of one process: which jobs it drives, and whether all pages of each have settled.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use everypage_core::{
    ids::JobId,
    job,
    ports::{
        Fault,
        flow::{Flow, FlowStart},
    },
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
    settled: bool,
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

    /// Starts to receive the signals of a job.
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

    /// Whether all pages were reported as settled since the last call.
    pub fn take_settled(&self, job: &JobId) -> bool {
        let mut state = self.state.lock();
        state.watches.get_mut(job).is_some_and(|watch| std::mem::take(&mut watch.settled))
    }
}

#[async_trait]
impl Flow for LocalFlow {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        self.enqueue(&start.job);
        Ok(())
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(watch) = self.state.lock().watches.get_mut(job) {
            watch.settled = true;
            watch.changed.notify_one();
        }
        Ok(())
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
