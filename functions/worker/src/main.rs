use std::{sync::Arc, time::Duration};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use everypage_core::time::until;
use everypage_function::{Instance, NoPdf};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Arc::new(NoPdf)).await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<SqsEvent>| {
        let stack = &instance.stack;
        let time = remaining_time(instance, event.context.deadline);
        let work = everypage_worker::handle(&stack.app, stack.queue.as_ref(), event.payload, time);
        Ok::<SqsBatchResponse, Error>(instance.invocation(work).await)
    }))
    .await
}

/// The time until Lambda kills this invocation.
fn remaining_time(instance: &Instance, deadline_ms: u64) -> Duration {
    let deadline = jiff::Timestamp::from_millisecond(deadline_ms as i64).unwrap_or(jiff::Timestamp::MAX);
    until(instance.app().store.clock.now(), deadline)
}
