//! The flow as Step Functions executions of `statemachine.asl.json`, one per job.
//!
//! **One token.** An execution waits for its pages and for changes by people (approval, cancellation) in one
//! `waitForTaskToken` step. Its task passes the token to [`SfnFlow::store_token`]. The token that was stored
//! last succeeds when every page is settled, and fails with [`JOB_CHANGED`] after a change: the execution
//! continues and reads the job.
//!
//! ```text
//! task:       store_token()     ──> read job and countdown ──> changed or settled? answer the token
//! person:     write decision    ──> wake()
//! last page:  count down to 0   ──> pages_settled()
//! ```
//!
//! Each side writes first and reads second, so at least one of the two sees the other; both may,
//! because an answered token is stale. A job whose execution does not wait has no token or a stale
//! one, and the answer has no effect: workers read the job before every page.

use std::{ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
use aws_sdk_sfn::{
    Client,
    error::SdkError,
    operation::{
        send_task_failure::SendTaskFailureError, send_task_success::SendTaskSuccessError,
        start_execution::StartExecutionError,
    },
};
use everypage_core::{
    digest::sha256_hex,
    ids::{JobId, TaskToken},
    job::State,
    keys::record,
    ports::{
        Fault,
        flow::{Flow, FlowStart},
        records::{Batch, Change, Draft, Records, When, Written},
    },
    trace::TraceContext,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::fault::fault;

const SERVICE: &str = "Step Functions";
/// The error with which a token fails after a change of its job; `statemachine.asl.json` catches it.
pub const JOB_CHANGED: &str = "JobChanged";
/// The error with which the token of a document with more than one range fails.
pub const MANY_RANGES: &str = "ManyRanges";
/// Step Functions rejects a token of another length as an invalid request.
const TOKEN_BYTES: RangeInclusive<usize> = 1..=2048;
/// Two tasks of one execution hardly ever store a token at the same time.
const MAX_STORE_TRIES: usize = 5;

pub struct SfnFlow {
    client: Client,
    state_machine: String,
    records: Arc<dyn Records>,
}

impl SfnFlow {
    /// `records` store the tokens of waiting executions.
    pub fn new(client: Client, state_machine_arn: impl Into<String>, records: Arc<dyn Records>) -> Self {
        Self { client, state_machine: state_machine_arn.into(), records }
    }

    /// Stores the token of the step at which a job's execution waits, with the job state that the
    /// execution acts on. The caller must read the job afterwards: an earlier decision found no token
    /// to complete.
    pub async fn store_token(&self, job: &JobId, token: &TaskToken, state: State) -> Result<(), Fault> {
        let key = record::wake(job);
        for _ in 0..MAX_STORE_TRIES {
            let held = self.records.get(&key).await?;
            let when = held.map_or(When::Absent, |item| When::Version(item.version));
            let body = json!({ "token": token, "state": state }).to_string();
            let change = Change::Put { draft: Draft::new(key.clone(), body), when };
            // A token is unique, so its hash identifies this write.
            let batch = Batch { stamp: sha256_hex(token.as_str().as_bytes()), changes: vec![change] };
            if self.records.write(&batch).await? == Written::Applied {
                return Ok(());
            }
        }
        let detail = format!("token of job {job} not stored: {MAX_STORE_TRIES} conflicting writes");
        Err(Fault::unreachable(SERVICE, detail))
    }

    /// The step at which the job's execution waits, as far as is known; it may be over.
    async fn waiting_step(&self, job: &JobId) -> Result<Option<WaitingStep>, Fault> {
        let Some(item) = self.records.get(&record::wake(job)).await? else { return Ok(None) };
        let step: WaitingStep =
            serde_json::from_str(&item.draft.body).map_err(|error| Fault::broken(SERVICE, error))?;
        Ok(Some(step).filter(|step| TOKEN_BYTES.contains(&step.token.as_str().len())))
    }

    /// Ends the step that prepares a whole document: this one has many ranges, which are prepared one by one.
    pub async fn leave_to_ranges(&self, token: &TaskToken) -> Result<(), Fault> {
        self.fail(token, MANY_RANGES).await
    }

    async fn fail(&self, token: &TaskToken, error: &str) -> Result<(), Fault> {
        let call = self.client.send_task_failure().task_token(token.as_str()).error(error);
        let Err(error) = call.send().await else { return Ok(()) };
        match error.as_service_error() {
            // No step waits for it any more.
            Some(
                SendTaskFailureError::TaskTimedOut(_)
                | SendTaskFailureError::TaskDoesNotExist(_)
                | SendTaskFailureError::InvalidToken(_),
            ) => Ok(()),
            _ => Err(fault(SERVICE, error)),
        }
    }
}

/// A deadline for a `Wait` state. Step Functions drops fractions of a second: it ends the race up to a second
/// before the deadline, and never after it.
pub fn wait_until(deadline: Timestamp) -> String {
    Timestamp::from_second(deadline.as_second()).unwrap_or(deadline).to_string()
}

/// The step at which an execution waits for its pages or a change.
#[derive(Deserialize)]
struct WaitingStep {
    token: TaskToken,
    /// The job state that the execution acts on.
    state: State,
}

/// The job id where Step Functions accepts it (80 characters: letters, digits, `-`, `_`), else its hash.
/// A name can't be reused for 90 days, so a redriven job has its redrive count appended, and a restarted
/// execution the count of restarts.
fn execution_name(job: &JobId, redrives: u32, restarts: u32) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = match (redrives, restarts) {
        (0, 0) => job.to_string(),
        (redrives, 0) => format!("{job}-{redrives}"),
        (redrives, restarts) => format!("{job}-{redrives}-{restarts}"),
    };
    if !job.as_str().is_empty() && name.len() <= 80 && name.bytes().all(plain) {
        name
    } else {
        sha256_hex(name.as_bytes())
    }
}

/// The trace context in X-Ray's format, so that the execution's segments belong to the job's trace.
fn xray_header(trace: &TraceContext) -> String {
    let (id, span, sampled) = (trace.trace_id(), trace.span_id(), u8::from(trace.sampled));
    format!("Root=1-{}-{};Parent={span};Sampled={sampled}", &id[..8], &id[8..])
}

#[async_trait]
impl Flow for SfnFlow {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        let FlowStart { job, redrives, restarts, state, deadline, ocr_at, trace } = start;
        // As the step `load` returns it, which an execution then need not begin with.
        let loaded =
            json!({ "state": state, "deadline": wait_until(*deadline), "ocr_at": wait_until(*ocr_at) });
        let call = self
            .client
            .start_execution()
            .state_machine_arn(&self.state_machine)
            .name(execution_name(job, *redrives, *restarts))
            .input(json!({ "job_id": job, "job": loaded }).to_string())
            .trace_header(xray_header(trace));
        match call.send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(response))
                if matches!(response.err(), StartExecutionError::ExecutionAlreadyExists(_)) =>
            {
                Ok(())
            }
            Err(error) => Err(fault(SERVICE, error)),
        }
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        let Some(step) = self.waiting_step(job).await? else { return Ok(()) };
        // The outcomes are in the table; the execution only has to continue.
        let call = self.client.send_task_success().task_token(step.token.as_str()).output("{}");
        let Err(error) = call.send().await else { return Ok(()) };
        match error.as_service_error() {
            // No step waits for it any more.
            Some(
                SendTaskSuccessError::TaskTimedOut(_)
                | SendTaskSuccessError::TaskDoesNotExist(_)
                | SendTaskSuccessError::InvalidToken(_),
            ) => Ok(()),
            _ => Err(fault(SERVICE, error)),
        }
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        match self.waiting_step(job).await? {
            Some(step) => self.fail(&step.token, JOB_CHANGED).await,
            None => Ok(()),
        }
    }

    /// Wakes the execution only when it acts on another state: waking it sends every page again that is
    /// not settled.
    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault> {
        match self.waiting_step(job).await?.filter(|step| step.state != state) {
            Some(step) => self.fail(&step.token, JOB_CHANGED).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_http_client::test_util::StaticReplayClient;
    use everypage_testkit::memory::MemoryRecords;

    use super::*;
    use crate::test_clients::{bodies, clients, response};

    fn flow(responses: &[(u16, &str)]) -> (SfnFlow, StaticReplayClient) {
        let (clients, sent) =
            clients(responses.iter().map(|(status, body)| response(*status, body)).collect());
        (SfnFlow::new(clients.sfn, "arn:machine", Arc::new(MemoryRecords::default())), sent)
    }

    #[tokio::test]
    async fn starting_twice_is_harmless() {
        let (flow, sent) = flow(&[
            (200, r#"{"executionArn":"a","startDate":1}"#),
            (400, r#"{"__type":"ExecutionAlreadyExists"}"#),
        ]);
        let start = FlowStart {
            job: JobId::new("01j"),
            redrives: 0,
            restarts: 0,
            state: State::Acked,
            deadline: "2026-01-02T03:04:05.678Z".parse().unwrap(),
            ocr_at: "2026-01-02T03:03:05.678Z".parse().unwrap(),
            trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap(),
        };
        flow.start(&start).await.unwrap();
        flow.start(&start).await.unwrap();
        let sent = bodies(&sent);
        let input: serde_json::Value = serde_json::from_str(sent[0]["input"].as_str().unwrap()).unwrap();
        let (deadline, ocr_at) = ("2026-01-02T03:04:05Z", "2026-01-02T03:03:05Z");
        let job = json!({ "state": "ACKED", "deadline": deadline, "ocr_at": ocr_at });
        assert_eq!((&sent[0]["name"], input), (&json!("01j"), json!({ "job_id": "01j", "job": job })));
        assert_eq!(sent[0], sent[1]);
        let header = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1";
        assert_eq!(sent[0]["traceHeader"], header);
    }

    #[test]
    fn an_id_that_is_no_valid_execution_name_is_hashed() {
        assert_eq!(execution_name(&JobId::new("a-B_9"), 0, 0), "a-B_9");
        assert_eq!(execution_name(&JobId::new("a-B_9"), 2, 0), "a-B_9-2");
        assert_eq!(execution_name(&JobId::new("a-B_9"), 0, 1), "a-B_9-0-1");
        for id in ["", "a b", "ä", &"x".repeat(81)] {
            let name = execution_name(&JobId::new(id), 0, 0);
            assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
    }

    #[tokio::test]
    async fn a_token_without_a_waiting_step_is_no_error() {
        let job = JobId::new("j");
        for code in ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"] {
            let stale = format!(r#"{{"__type":"{code}"}}"#);
            let (flow, sent) = flow(&[(400, &stale), (400, &stale)]);
            flow.store_token(&job, &TaskToken::new("t"), State::Acked).await.unwrap();
            flow.pages_settled(&job).await.unwrap();
            flow.wake(&job).await.unwrap();
            assert_eq!(bodies(&sent).len(), 2, "{code}");
        }
        let (makes_no_call, _) = flow(&[]);
        for text in [String::new(), "t".repeat(2049)] {
            makes_no_call.store_token(&job, &TaskToken::new(text), State::Acked).await.unwrap();
            makes_no_call.pages_settled(&job).await.unwrap();
            makes_no_call.wake(&job).await.unwrap();
        }
    }

    #[tokio::test]
    async fn settled_pages_complete_the_token_and_a_change_fails_it() {
        let (flow, sent) = flow(&[(200, "{}"), (200, "{}")]);
        let job = JobId::new("j");
        flow.pages_settled(&job).await.unwrap();
        flow.store_token(&job, &TaskToken::new("t"), State::Acked).await.unwrap();
        flow.pages_settled(&job).await.unwrap();
        flow.wake(&job).await.unwrap();
        let expected =
            [json!({ "taskToken": "t", "output": "{}" }), json!({ "taskToken": "t", "error": JOB_CHANGED })];
        assert_eq!(bodies(&sent), expected);
    }

    #[tokio::test]
    async fn waking_answers_the_token_that_was_stored_last() {
        let (flow, sent) = flow(&[(200, "{}"), (400, r#"{"__type":"TaskTimedOut"}"#)]);
        let job = JobId::new("j");
        flow.wake(&job).await.unwrap();
        assert_eq!(bodies(&sent).len(), 0, "no step waits yet");
        flow.store_token(&job, &TaskToken::new("one"), State::Acked).await.unwrap();
        flow.store_token(&job, &TaskToken::new("two"), State::Acked).await.unwrap();
        flow.wake(&job).await.unwrap();
        flow.wake(&job).await.unwrap();
        let tokens: Vec<_> = bodies(&sent).iter().map(|body| body["taskToken"].clone()).collect();
        assert_eq!(tokens, ["two", "two"]);
    }

    #[tokio::test]
    async fn an_execution_that_acts_on_the_current_state_is_not_reminded() {
        let (flow, sent) = flow(&[(200, "{}")]);
        let job = JobId::new("j");
        flow.remind(&job, State::Approved).await.unwrap();
        flow.store_token(&job, &TaskToken::new("first round"), State::Acked).await.unwrap();
        flow.remind(&job, State::Approved).await.unwrap();
        flow.store_token(&job, &TaskToken::new("second round"), State::Approved).await.unwrap();
        flow.remind(&job, State::Approved).await.unwrap();
        let tokens: Vec<_> = bodies(&sent).iter().map(|body| body["taskToken"].clone()).collect();
        assert_eq!(tokens, ["first round"]);
    }
}
