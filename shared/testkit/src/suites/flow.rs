#![allow(clippy::unwrap_used, reason = "an exam fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::{
    domain::{
        ids::{JobId, PageNumber, TaskToken},
        job::State,
        trace::TraceContext,
    },
    ports::flow::{Flow, Settlement},
};

/// What the flow of a job came to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Settled(PageNumber),
    Woken,
}

/// The other side of a flow, where jobs are driven.
#[async_trait]
pub trait Driver: Send + Sync {
    /// How often a flow of the job has begun.
    async fn starts(&self, job: &JobId) -> usize;

    /// Has a flow that was started wait for page 1 or 2; answers the page's token.
    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken;

    /// Has a flow that was started wait for a change.
    async fn listen(&self, job: &JobId);

    /// What a flow was told since it was started. At least `count` things, for which it waits.
    async fn told(&self, job: &JobId, count: usize) -> Vec<Told>;

    /// Ends the job's flow, whatever it waits for.
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

    /// A job whose flow has begun.
    async fn started(&self, id: &str) -> JobId {
        let job = JobId::new(id);
        self.start(&job, 0).await;
        assert_eq!(self.driver.starts(&job).await, 1);
        job
    }

    async fn settle(&self, token: &TaskToken) -> Settlement {
        self.flow.settle(token).await.unwrap()
    }
}

fn trace() -> TraceContext {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

fn page(number: u32) -> PageNumber {
    PageNumber::new(number).unwrap()
}

pub async fn a_flow_that_goes_on_is_not_started_again(subject: &Subject) {
    let (one, other) = (JobId::new("one"), JobId::new("other"));
    subject.start(&one, 0).await;
    subject.start(&one, 0).await;
    assert_eq!(subject.driver.starts(&one).await, 1, "before anybody took it up");
    subject.start(&one, 0).await;
    assert_eq!(subject.driver.starts(&one).await, 1, "while it is driven");
    assert_eq!(subject.driver.starts(&other).await, 0);
    subject.start(&other, 0).await;
    assert_eq!((subject.driver.starts(&one).await, subject.driver.starts(&other).await), (1, 1));
}

pub async fn a_redriven_job_has_a_flow_anew(subject: &Subject) {
    let job = subject.started("job").await;
    subject.driver.end(&job).await;
    subject.start(&job, 1).await;
    subject.start(&job, 1).await;
    assert_eq!(subject.driver.starts(&job).await, 2);
    let token = subject.driver.wait_for(&job, page(1)).await;
    assert_eq!(subject.settle(&token).await, Settlement::Accepted);
    assert_eq!(subject.driver.told(&job, 1).await, [Told::Settled(page(1))]);
}

pub async fn a_settled_page_is_told_to_its_flow_alone(subject: &Subject) {
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    let first = subject.driver.wait_for(&one, page(1)).await;
    let second = subject.driver.wait_for(&one, page(2)).await;
    let elsewhere = subject.driver.wait_for(&other, page(1)).await;
    assert_eq!(subject.settle(&second).await, Settlement::Accepted);
    assert_eq!(subject.driver.told(&one, 1).await, [Told::Settled(page(2))]);
    assert_eq!(subject.driver.told(&other, 0).await, []);
    assert_eq!(subject.settle(&first).await, Settlement::Accepted);
    assert_eq!(subject.driver.told(&one, 2).await, [2, 1].map(|number| Told::Settled(page(number))));
    assert_eq!(subject.settle(&elsewhere).await, Settlement::Accepted);
    assert_eq!(subject.driver.told(&other, 1).await, [Told::Settled(page(1))]);
}

pub async fn settling_a_page_again_concerns_no_other(subject: &Subject) {
    let job = subject.started("job").await;
    let first = subject.driver.wait_for(&job, page(1)).await;
    let second = subject.driver.wait_for(&job, page(2)).await;
    subject.settle(&first).await;
    subject.driver.told(&job, 1).await;
    // Either answer is right: a flow need not remember.
    subject.settle(&first).await;
    let told = subject.driver.told(&job, 1).await;
    assert!(told.iter().all(|told| *told == Told::Settled(page(1))), "{told:?}");
    assert_eq!(subject.settle(&second).await, Settlement::Accepted);
    let told = subject.driver.told(&job, told.len() + 1).await;
    assert_eq!(told.last(), Some(&Told::Settled(page(2))));
}

pub async fn a_flow_that_has_ended_takes_no_pages(subject: &Subject) {
    let (over, open) = (subject.started("over").await, subject.started("open").await);
    let late = subject.driver.wait_for(&over, page(1)).await;
    let in_time = subject.driver.wait_for(&open, page(1)).await;
    subject.driver.end(&over).await;
    assert_eq!(subject.settle(&late).await, Settlement::Stale);
    assert_eq!(subject.settle(&in_time).await, Settlement::Accepted);
}

pub async fn what_is_no_token_is_stale(subject: &Subject) {
    subject.started("job").await;
    let long = "x".repeat(3000);
    for text in ["", " ", "x", "job", "/", "job/", "job/0", "job/-1", "job/x", "nobody/1", "ä\u{0}\n", &long]
    {
        assert_eq!(subject.settle(&TaskToken::new(text)).await, Settlement::Stale, "{text:?}");
    }
}

pub async fn a_wake_is_told_to_the_flow_that_listens(subject: &Subject) {
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    subject.driver.listen(&one).await;
    subject.driver.listen(&other).await;
    subject.flow.wake(&other).await.unwrap();
    assert_eq!(subject.driver.told(&other, 1).await, [Told::Woken]);
    assert_eq!(subject.driver.told(&one, 0).await, []);
    subject.flow.wake(&one).await.unwrap();
    assert_eq!(subject.driver.told(&one, 1).await, [Told::Woken]);
}

/// The flow listens since the job was ACKED.
pub async fn a_flow_that_was_not_told_is_reminded(subject: &Subject) {
    subject.flow.remind(&JobId::new("never started"), State::Approved).await.unwrap();
    let (one, other) = (subject.started("one").await, subject.started("other").await);
    subject.driver.listen(&one).await;
    subject.driver.listen(&other).await;
    subject.flow.remind(&other, State::Approved).await.unwrap();
    assert_eq!(subject.driver.told(&other, 1).await, [Told::Woken]);
    assert_eq!(subject.driver.told(&one, 0).await, []);
}

pub async fn a_wake_that_nobody_waits_for_is_no_error(subject: &Subject) {
    subject.flow.wake(&JobId::new("never started")).await.unwrap();
    let job = subject.started("job").await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.listen(&job).await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.told(&job, 1).await;
    subject.flow.wake(&job).await.unwrap();
    subject.driver.end(&job).await;
    subject.flow.wake(&job).await.unwrap();
}
