//! The flow as Step Functions executions of `statemachine.asl.json`, one per job.
//!
//! **Waking.** An execution waits for a decision or a change (approval, cancellation) in a
//! `waitForTaskToken` step. Its task passes the token to [`SfnFlow::store_token`], and `wake` completes
//! the token that was stored last; the execution continues and reads the job.
//!
//! ```text
//! task:    store_token()  ──> read the job ──> decided meanwhile? wake()
//! person:  write decision ──> wake()
//! ```
//!
//! Each side writes first and reads second, so at least one of the two sees the other; both may,
//! because a completed token is stale. A job whose execution does not wait has no token or a stale
//! one, and waking it does nothing: workers read the job before every page.

use std::{ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
use aws_sdk_sfn::{
    Client,
    error::SdkError,
    operation::{send_task_success::SendTaskSuccessError, start_execution::StartExecutionError},
};
use everypage_core::{
    digest::sha256_hex,
    ids::{JobId, TaskToken},
    job::State,
    keys::record,
    ports::{
        Fault,
        flow::{Acceptance, Flow},
        records::{Batch, Change, Draft, Records, When, Written},
    },
    trace::TraceContext,
};
use serde::Deserialize;
use serde_json::json;

use crate::fault::fault;

const SERVICE: &str = "Step Functions";
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

    async fn waiting_step(&self, job: &JobId) -> Result<Option<WaitingStep>, Fault> {
        let Some(item) = self.records.get(&record::wake(job)).await? else { return Ok(None) };
        serde_json::from_str(&item.draft.body).map(Some).map_err(|error| Fault::broken(SERVICE, error))
    }
}

/// The step at which an execution waits for a decision or change.
#[derive(Deserialize)]
struct WaitingStep {
    token: TaskToken,
    /// The job state that the execution acts on.
    state: State,
}

/// The job id where Step Functions accepts it (80 characters: letters, digits, `-`, `_`), else its hash.
/// A name can't be reused for 90 days, so a redriven job has its redrive count appended.
fn execution_name(job: &JobId, redrives: u32) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = if redrives == 0 { job.to_string() } else { format!("{job}-{redrives}") };
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
    async fn start(&self, job: &JobId, redrives: u32, trace: &TraceContext) -> Result<(), Fault> {
        let call = self
            .client
            .start_execution()
            .state_machine_arn(&self.state_machine)
            .name(execution_name(job, redrives))
            .input(json!({ "job_id": job }).to_string())
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

    async fn settle(&self, token: &TaskToken) -> Result<Acceptance, Fault> {
        if !TOKEN_BYTES.contains(&token.as_str().len()) {
            return Ok(Acceptance::Stale);
        }
        // The outcome is in the table; the execution only has to continue.
        let call = self.client.send_task_success().task_token(token.as_str()).output("{}");
        let Err(error) = call.send().await else { return Ok(Acceptance::Accepted) };
        match error.as_service_error() {
            Some(
                SendTaskSuccessError::TaskTimedOut(_)
                | SendTaskSuccessError::TaskDoesNotExist(_)
                | SendTaskSuccessError::InvalidToken(_),
            ) => Ok(Acceptance::Stale),
            _ => Err(fault(SERVICE, error)),
        }
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        if let Some(step) = self.waiting_step(job).await? {
            self.settle(&step.token).await?;
        }
        Ok(())
    }

    /// Wakes the execution only when it acts on another state: waking it sends every page again that is
    /// not settled.
    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault> {
        if let Some(step) = self.waiting_step(job).await?.filter(|step| step.state != state) {
            self.settle(&step.token).await?;
        }
        Ok(())
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
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        flow.start(&JobId::new("01j"), 0, &trace).await.unwrap();
        flow.start(&JobId::new("01j"), 0, &trace).await.unwrap();
        let sent = bodies(&sent);
        assert_eq!((&sent[0]["name"], &sent[0]["input"]), (&json!("01j"), &json!(r#"{"job_id":"01j"}"#)));
        assert_eq!(sent[0], sent[1]);
        let header = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1";
        assert_eq!(sent[0]["traceHeader"], header);
    }

    #[test]
    fn an_id_that_is_no_valid_execution_name_is_hashed() {
        assert_eq!(execution_name(&JobId::new("a-B_9"), 0), "a-B_9");
        assert_eq!(execution_name(&JobId::new("a-B_9"), 2), "a-B_9-2");
        for id in ["", "a b", "ä", &"x".repeat(81)] {
            let name = execution_name(&JobId::new(id), 0);
            assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
    }

    #[tokio::test]
    async fn a_token_without_a_waiting_step_is_stale() {
        for code in ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"] {
            let (flow, _) = flow(&[(400, &format!(r#"{{"__type":"{code}"}}"#))]);
            assert_eq!(flow.settle(&TaskToken::new("t")).await.unwrap(), Acceptance::Stale, "{code}");
        }
        let (makes_no_call, _) = flow(&[]);
        for text in [String::new(), "t".repeat(2049)] {
            assert_eq!(makes_no_call.settle(&TaskToken::new(text)).await.unwrap(), Acceptance::Stale);
        }
        let (flow, _) = flow(&[(200, "{}")]);
        assert_eq!(flow.settle(&TaskToken::new("t")).await.unwrap(), Acceptance::Accepted);
    }

    #[tokio::test]
    async fn waking_completes_the_token_that_was_stored_last() {
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
