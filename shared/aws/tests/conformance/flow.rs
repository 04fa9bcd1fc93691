//! Conformance of the flow: Step Functions, with a state machine that reports each signal to the suite.

use std::sync::Arc;

use async_trait::async_trait;
use everypage_aws::{Clients, SfnFlow};
use everypage_core::{
    ids::{JobId, PageNumber, TaskToken},
    job::State,
};
use everypage_testkit::{
    conformance::flow::{Driver, Signal, Subject},
    memory::MemoryRecords,
};
use serde_json::{Value, json};

use super::{emulator, inbox::Inbox};

/// The signals that an execution waits for in parallel. Each branch sends its token to the inbox and,
/// when the token is completed, a second message.
const WAITS: [&str; 3] = ["page 1", "page 2", "change"];

struct Machine {
    sfn: aws_sdk_sfn::Client,
    arn: String,
    flow: Arc<SfnFlow>,
    inbox: Inbox,
}

impl Machine {
    async fn new(clients: &Clients) -> Self {
        let inbox = Inbox::new(clients).await;
        let definition = json!({"StartAt": "All", "States": {"All": {
            "Type": "Parallel",
            "Branches": WAITS.map(|what| waiting(&inbox.url, what)),
            "End": true,
        }}});
        let made = clients
            .sfn
            .create_state_machine()
            .name(emulator::unique_name("flow"))
            .role_arn("arn:aws:iam::000000000000:role/flow")
            .definition(definition.to_string());
        let arn = made.send().await.unwrap().state_machine_arn;
        let flow = SfnFlow::new(clients.sfn.clone(), &arn, Arc::new(MemoryRecords::default()));
        Self { sfn: clients.sfn.clone(), arn, flow: Arc::new(flow), inbox }
    }

    async fn token(&self, job: &JobId, what: &str) -> TaskToken {
        let of_step = |body: &Value| body["job"] == job.as_str() && body["waits_for"] == what;
        let found = self.inbox.arrived(1, of_step).await;
        TaskToken::new(found[0]["token"].as_str().unwrap())
    }

    /// The job's executions, by ARN.
    async fn executions(&self, job: &JobId) -> Vec<String> {
        let mut found = Vec::new();
        let listed = self.sfn.list_executions().state_machine_arn(&self.arn).send().await.unwrap();
        for execution in listed.executions {
            let arn = execution.execution_arn;
            let described = self.sfn.describe_execution().execution_arn(&arn).send().await.unwrap();
            let input: Value = serde_json::from_str(described.input().unwrap()).unwrap();
            if input["job_id"] == job.as_str() {
                found.push(arn);
            }
        }
        found
    }

    async fn is_running(&self, execution: &str) -> bool {
        let described = self.sfn.describe_execution().execution_arn(execution).send().await.unwrap();
        described.status == aws_sdk_sfn::types::ExecutionStatus::Running
    }
}

/// A branch that waits for one signal.
fn waiting(inbox: &str, what: &str) -> Value {
    let job = "$$.Execution.Input.job_id";
    json!({"StartAt": "Wait", "States": {
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {
                "QueueUrl": inbox,
                "MessageBody": {"job.$": job, "waits_for": what, "token.$": "$$.Task.Token"},
            },
            "Next": "Report",
        },
        "Report": {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage",
            "Parameters": {"QueueUrl": inbox, "MessageBody": {"job.$": job, "has": what}},
            "End": true,
        },
    }})
}

#[async_trait]
impl Driver for Machine {
    async fn starts(&self, job: &JobId) -> usize {
        self.executions(job).await.len()
    }

    async fn wait_for(&self, job: &JobId, page: PageNumber) -> TaskToken {
        self.token(job, &format!("page {page}")).await
    }

    async fn listen(&self, job: &JobId) {
        let token = self.token(job, "change").await;
        self.flow.store_token(job, &token, State::Acked).await.unwrap();
    }

    async fn signals(&self, job: &JobId, count: usize) -> Vec<Signal> {
        let reported = |body: &Value| body["job"] == job.as_str() && body["has"].is_string();
        let signal = |body: &Value| match body["has"].as_str().unwrap().strip_prefix("page ") {
            Some(page) => Signal::Settled(PageNumber::new(page.parse().unwrap()).unwrap()),
            None => Signal::Woken,
        };
        self.inbox.arrived(count, reported).await.iter().map(signal).collect()
    }

    /// Fails everything that the executions wait for: ministack keeps the tokens of a stopped execution.
    async fn end(&self, job: &JobId) {
        for what in WAITS {
            let token = self.token(job, what).await;
            // Fails for a token that was completed before.
            let _ = self.sfn.send_task_failure().task_token(token.as_str()).send().await;
        }
        for execution in self.executions(job).await {
            while self.is_running(&execution).await {
                tokio::task::yield_now().await;
            }
        }
        self.inbox.discard(|body| body["job"] == job.as_str());
    }
}

everypage_testkit::flow_conformance!(async {
    let machine = Machine::new(&emulator::connect().await).await;
    Subject::new(machine.flow.clone(), Arc::new(machine))
});
