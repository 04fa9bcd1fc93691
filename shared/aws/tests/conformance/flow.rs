//! Conformance of the flow: Step Functions, with a state machine that reports each signal to the suite.

use std::sync::Arc;

use async_trait::async_trait;
use everypage_aws::{Clients, JOB_CHANGED, SfnFlow};
use everypage_core::{
    ids::{JobId, TaskToken},
    job::State,
};
use everypage_testkit::{
    conformance::flow::{Driver, Signal, Subject},
    memory::MemoryRecords,
};
use serde_json::{Value, json};

use super::{emulator, inbox::Inbox};

/// What an execution reports when its token was answered.
const SETTLED: &str = "settled";
const CHANGED: &str = "changed";

struct Machine {
    sfn: aws_sdk_sfn::Client,
    arn: String,
    flow: Arc<SfnFlow>,
    inbox: Inbox,
}

impl Machine {
    async fn new(clients: &Clients) -> Self {
        let inbox = Inbox::new(clients).await;
        let definition = definition(&inbox.url);
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

    async fn token(&self, job: &JobId) -> TaskToken {
        let of_step = |body: &Value| body["job"] == job.as_str() && body["token"].is_string();
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

/// Sends its token to the inbox and, when the token is answered, a second message.
fn definition(inbox: &str) -> Value {
    let job = "$$.Execution.Input.job_id";
    let report = |what: &str| {
        json!({
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage",
            "Parameters": {"QueueUrl": inbox, "MessageBody": {"job.$": job, "has": what}},
            "End": true,
        })
    };
    json!({"StartAt": "Wait", "States": {
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {
                "QueueUrl": inbox,
                "MessageBody": {"job.$": job, "token.$": "$$.Task.Token"},
            },
            "Catch": [{"ErrorEquals": [JOB_CHANGED], "Next": "Changed"}],
            "Next": "Settled",
        },
        "Settled": report(SETTLED),
        "Changed": report(CHANGED),
    }})
}

#[async_trait]
impl Driver for Machine {
    async fn starts(&self, job: &JobId) -> usize {
        self.executions(job).await.len()
    }

    async fn listen(&self, job: &JobId) {
        let token = self.token(job).await;
        self.flow.store_token(job, &token, State::Acked).await.unwrap();
    }

    async fn signals(&self, job: &JobId, count: usize) -> Vec<Signal> {
        let reported = |body: &Value| body["job"] == job.as_str() && body["has"].is_string();
        let signal = |body: &Value| if body["has"] == SETTLED { Signal::Settled } else { Signal::Woken };
        self.inbox.arrived(count, reported).await.iter().map(signal).collect()
    }

    /// Fails what the executions wait for: ministack keeps the tokens of a stopped execution.
    async fn end(&self, job: &JobId) {
        let token = self.token(job).await;
        // Fails for a token that was answered before.
        let _ = self.sfn.send_task_failure().task_token(token.as_str()).send().await;
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
