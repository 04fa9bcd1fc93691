#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::{
    ids::JobId,
    job::State,
    ports::flow::{Flow, FlowStart},
};

/// A signal that reached the flow of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Every page is settled.
    Settled,
    /// The job was changed.
    Woken,
}

/// The receiving end of a flow, where jobs are driven.
#[async_trait]
pub trait Driver: Send + Sync {
    /// How often a flow of the job was started.
    async fn starts(&self, job: &JobId) -> usize;

    /// Lets a started flow wait for its pages or a change.
    async fn listen(&self, job: &JobId);

    /// The signals that a flow received since it was started. Waits until there are at least `count`.
    async fn signals(&self, job: &JobId, count: usize) -> Vec<Signal>;

    /// Ends the job's flow, even while it waits.
    async fn end(&self, job: &JobId);
}

pub struct Subject {
    flow: Arc<dyn Flow>,
    driver: Arc<dyn Driver>,
}

impl Subject {
    pub fn new(flow: Arc<dyn Flow>, driver: Arc<dyn Driver>) -> Self {
        Self { flow, driver }
    }

    async fn start(&self, job: &JobId, redrives: u32) {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        let (job, deadline) = (job.clone(), jiff::Timestamp::UNIX_EPOCH);
        self.flow
            .start(&FlowStart {
                job,
                redrives,
                restarts: 0,
                state: State::Acked,
                deadline,
                ocr_at: deadline,
                trace,
            })
            .await
            .unwrap();
    }

    /// A job whose flow is started.
    async fn started(&self, id: &str) -> JobId {
        let job = JobId::new(id);
        self.start(&job, 0).await;
        assert_eq!(self.driver.starts(&job).await, 1);
        job
    }
}

pub async fn a_running_flow_is_not_started_again(subject: &Subject) {
    let (one, other) = (JobId::new("one"), JobId::new("other"));
    subject.start(&one, 0).await;
    subject.start(&one, 0).await;
    assert_eq!(subject.driver.starts(&one).await, 1, "before a driver took it");
    subject.start(&one, 0).await;
    assert_eq!(subject.driver.starts(&one).await, 1, "while it is driven");
    assert_eq!(subject.driver.starts(&other).await, 0);
    subject.start(&other, 0).await;
    assert_eq!((subject.driver.starts(&one).await, subject.driver.starts(&other).await), (1, 1));
}

pub async fn a_redriven_job_gets_a_new_flow(subject: &Subject) {
    let job = subject.started("job").await;
    subject.driver.end(&job).await;
    subject.start(&job, 1).await;
    subject.start(&job, 1).await;
    assert_eq!(subject.driver.starts(&job).await, 2);
    subject.driver.listen(&job).await;
    subject.flow.pages_settled(&job).await.unwrap();
    assert_eq!(subject.driver.signals(&job, 1).await, [Signal::Settled]);
}

pub async fn settled_pages_signal_only_their_own_flow(subject: &Subject) {
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    subject.driver.listen(&one).await;
    subject.driver.listen(&other).await;
    subject.flow.pages_settled(&one).await.unwrap();
    assert_eq!(subject.driver.signals(&one, 1).await, [Signal::Settled]);
    assert_eq!(subject.driver.signals(&other, 0).await, []);
    subject.flow.pages_settled(&other).await.unwrap();
    assert_eq!(subject.driver.signals(&other, 1).await, [Signal::Settled]);
}

pub async fn a_signal_that_comes_twice_is_no_error(subject: &Subject) {
    subject.flow.pages_settled(&JobId::new("never started")).await.unwrap();
    let job = subject.started("job").await;
    subject.driver.listen(&job).await;
    subject.flow.pages_settled(&job).await.unwrap();
    subject.flow.pages_settled(&job).await.unwrap();
    assert_eq!(subject.driver.signals(&job, 1).await, [Signal::Settled]);
    subject.driver.end(&job).await;
    subject.flow.pages_settled(&job).await.unwrap();
}

pub async fn a_wake_reaches_only_the_waiting_flow(subject: &Subject) {
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    subject.driver.listen(&one).await;
    subject.driver.listen(&other).await;
    subject.flow.wake(&other).await.unwrap();
    assert_eq!(subject.driver.signals(&other, 1).await, [Signal::Woken]);
    assert_eq!(subject.driver.signals(&one, 0).await, []);
    subject.flow.wake(&one).await.unwrap();
    assert_eq!(subject.driver.signals(&one, 1).await, [Signal::Woken]);
}

/// The flow waits since the job was ACKED.
pub async fn a_reminder_wakes_a_flow_that_missed_a_change(subject: &Subject) {
    subject.flow.remind(&JobId::new("never started"), State::Approved).await.unwrap();
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    subject.driver.listen(&one).await;
    subject.driver.listen(&other).await;
    subject.flow.remind(&other, State::Approved).await.unwrap();
    assert_eq!(subject.driver.signals(&other, 1).await, [Signal::Woken]);
    assert_eq!(subject.driver.signals(&one, 0).await, []);
}

pub async fn a_wake_without_a_waiting_flow_is_no_error(subject: &Subject) {
    subject.flow.wake(&JobId::new("never started")).await.unwrap();
    let job = subject.started("job").await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.listen(&job).await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.signals(&job, 1).await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.end(&job).await;
    subject.flow.wake(&job).await.unwrap();
}
