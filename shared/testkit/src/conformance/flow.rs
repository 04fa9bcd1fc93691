#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::{
    ids::{JobId, PageNumber, TaskToken},
    job::State,
    ports::flow::{Acceptance, Flow},
    trace::TraceContext,
};

/// A signal that reached the flow of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Settled(PageNumber),
    Woken,
}

/// The receiving end of a flow, where jobs are driven.
#[async_trait]
pub trait Driver: Send + Sync {
    /// How often a flow of the job was started.
    async fn starts(&self, job: &JobId) -> usize;

    /// Lets a started flow wait for page 1 or 2; returns the page's token.
    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken;

    /// Lets a started flow wait for a change.
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
        self.flow.start(job, redrives, &trace()).await.unwrap();
    }

    /// A job whose flow is started.
    async fn started(&self, id: &str) -> JobId {
        let job = JobId::new(id);
        self.start(&job, 0).await;
        assert_eq!(self.driver.starts(&job).await, 1);
        job
    }

    async fn settle(&self, token: &TaskToken) -> Acceptance {
        self.flow.settle(token).await.unwrap()
    }
}

fn trace() -> TraceContext {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

fn page(number: u32) -> PageNumber {
    PageNumber::new(number).unwrap()
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
    let token = subject.driver.wait_for(&job, page(1)).await;
    assert_eq!(subject.settle(&token).await, Acceptance::Accepted);
    assert_eq!(subject.driver.signals(&job, 1).await, [Signal::Settled(page(1))]);
}

pub async fn a_settled_page_signals_only_its_own_flow(subject: &Subject) {
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    let first = subject.driver.wait_for(&one, page(1)).await;
    let second = subject.driver.wait_for(&one, page(2)).await;
    let elsewhere = subject.driver.wait_for(&other, page(1)).await;
    assert_eq!(subject.settle(&second).await, Acceptance::Accepted);
    assert_eq!(subject.driver.signals(&one, 1).await, [Signal::Settled(page(2))]);
    assert_eq!(subject.driver.signals(&other, 0).await, []);
    assert_eq!(subject.settle(&first).await, Acceptance::Accepted);
    assert_eq!(subject.driver.signals(&one, 2).await, [2, 1].map(|number| Signal::Settled(page(number))));
    assert_eq!(subject.settle(&elsewhere).await, Acceptance::Accepted);
    assert_eq!(subject.driver.signals(&other, 1).await, [Signal::Settled(page(1))]);
}

pub async fn settling_a_page_twice_affects_no_other_page(subject: &Subject) {
    let job = subject.started("job").await;
    let first = subject.driver.wait_for(&job, page(1)).await;
    let second = subject.driver.wait_for(&job, page(2)).await;
    subject.settle(&first).await;
    subject.driver.signals(&job, 1).await;
    // Accepted and Stale are both correct: a flow need not keep answered tokens.
    subject.settle(&first).await;
    let signals = subject.driver.signals(&job, 1).await;
    assert!(signals.iter().all(|signal| *signal == Signal::Settled(page(1))), "{signals:?}");
    assert_eq!(subject.settle(&second).await, Acceptance::Accepted);
    let signals = subject.driver.signals(&job, signals.len() + 1).await;
    assert_eq!(signals.last(), Some(&Signal::Settled(page(2))));
}

pub async fn an_ended_flow_accepts_no_pages(subject: &Subject) {
    let (over, open) = (subject.started("over").await, subject.started("open").await);
    let late = subject.driver.wait_for(&over, page(1)).await;
    let in_time = subject.driver.wait_for(&open, page(1)).await;
    subject.driver.end(&over).await;
    assert_eq!(subject.settle(&late).await, Acceptance::Stale);
    assert_eq!(subject.settle(&in_time).await, Acceptance::Accepted);
}

pub async fn an_invalid_token_is_stale(subject: &Subject) {
    subject.started("job").await;
    let long = "x".repeat(3000);
    for text in ["", " ", "x", "job", "/", "job/", "job/0", "job/-1", "job/x", "unknown/1", "ä\u{0}\n", &long]
    {
        assert_eq!(subject.settle(&TaskToken::new(text)).await, Acceptance::Stale, "{text:?}");
    }
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
