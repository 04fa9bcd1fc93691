//! Conformance of the flow in one process, whose jobs [`Driver`](everypage_local::Driver) drives.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use everypage_core::ids::JobId;
use everypage_local::LocalFlow;
use everypage_testkit::conformance::flow::{Driver, Signal, Subject};
use futures::FutureExt;
use parking_lot::Mutex;

/// Does what the driver does, one step at a time and without waiting.
struct ManualDriver {
    flow: Arc<LocalFlow>,
    starts: Mutex<HashMap<JobId, usize>>,
    signals: Mutex<HashMap<JobId, Vec<Signal>>>,
}

#[async_trait]
impl Driver for ManualDriver {
    async fn starts(&self, job: &JobId) -> usize {
        let mut starts = self.starts.lock();
        while let Some(started) = self.flow.next_started().now_or_never() {
            *starts.entry(started).or_default() += 1;
        }
        starts.get(job).copied().unwrap_or_default()
    }

    async fn listen(&self, job: &JobId) {
        self.flow.watch(job);
    }

    async fn signals(&self, job: &JobId, _count: usize) -> Vec<Signal> {
        let mut signals = self.signals.lock();
        let signals = signals.entry(job.clone()).or_default();
        if self.flow.watch(job).notified().now_or_never().is_some() {
            let settled = self.flow.take_settled(job);
            signals.push(if settled { Signal::Settled } else { Signal::Woken });
        }
        signals.clone()
    }

    async fn end(&self, job: &JobId) {
        self.flow.unwatch(job);
        self.signals.lock().remove(job);
    }
}

everypage_testkit::flow_conformance!(async {
    let flow = Arc::new(LocalFlow::default());
    let driver = ManualDriver { flow: flow.clone(), starts: Mutex::default(), signals: Mutex::default() };
    Subject::new(flow, Arc::new(driver))
});
