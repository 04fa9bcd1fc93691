//! The exam of the flow in one process, where [`Driver`](everypage_local::Driver) takes jobs up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use everypage_core::domain::ids::{JobId, PageNumber, TaskToken};
use everypage_local::LocalFlow;
use everypage_testkit::suites::flow::{Driver, Subject, Told};
use futures::FutureExt;

/// Does what the driver does, one thing at a time. Everything that it could wait for is there at once.
struct ByHand {
    flow: Arc<LocalFlow>,
    starts: Mutex<HashMap<JobId, usize>>,
    told: Mutex<HashMap<JobId, Vec<Told>>>,
}

#[async_trait]
impl Driver for ByHand {
    async fn starts(&self, job: &JobId) -> usize {
        let mut starts = self.starts.lock().unwrap();
        while let Some(started) = self.flow.next_started().now_or_never() {
            *starts.entry(started).or_default() += 1;
        }
        starts.get(job).copied().unwrap_or_default()
    }

    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken {
        self.flow.watch(job);
        LocalFlow::token(job, page)
    }

    async fn listen(&self, job: &JobId) {
        self.flow.watch(job);
    }

    async fn told(&self, job: &JobId, _count: usize) -> Vec<Told> {
        let mut told = self.told.lock().unwrap();
        let told = told.entry(job.clone()).or_default();
        if self.flow.watch(job).notified().now_or_never().is_some() {
            let settled = self.flow.take_settled(job);
            let woken = settled.is_empty().then_some(Told::Woken);
            told.extend(settled.into_iter().map(Told::Settled).chain(woken));
        }
        told.clone()
    }

    async fn end(&self, job: &JobId) {
        self.flow.unwatch(job);
        self.told.lock().unwrap().remove(job);
    }
}

everypage_testkit::flow_exam!(async {
    let flow = Arc::new(LocalFlow::default());
    let driver = ByHand { flow: flow.clone(), starts: Mutex::default(), told: Mutex::default() };
    Subject::new(flow, Arc::new(driver))
});
