use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use everypage_aws::Stack;
use everypage_core::time::until;
use everypage_function::{Instance, Readers};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Readers::none()).await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<SqsEvent>| {
        let stack = instance.stack().await;
        let time = remaining_time(&stack, event.context.deadline);
        let work = everypage_worker::handle(&stack.app, stack.queue.as_ref(), event.payload, time);
        Ok::<SqsBatchResponse, Error>(instance.invocation(&stack, work).await)
    }))
    .await
}

/// The time until Lambda kills this invocation.
fn remaining_time(stack: &Stack, deadline_ms: u64) -> Duration {
    let deadline = jiff::Timestamp::from_millisecond(deadline_ms as i64).unwrap_or(jiff::Timestamp::MAX);
    until(stack.app.store.clock.now(), deadline)
}
