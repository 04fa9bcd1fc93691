//! The intake function: makes jobs from objects in the bucket, and runs the state machine's steps up to
//! the plan.

mod arrival;
mod steps;

pub use steps::{Next, Step};

use everypage_aws::Stack;
use everypage_function::FailedStep;
use serde_json::{Value, json};

/// Handles notifications of the arrivals queue, or a step of the state machine. Each is on the heap: the compiler
/// does not compute the layout of futures that are nested deeper.
pub async fn handle(stack: &Stack, event: Value) -> Result<Value, FailedStep> {
    if event["Records"][0]["eventSource"] == "aws:sqs" {
        let arrivals = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
        return Box::pin(arrival::handle_queued(stack, arrivals)).await;
    }
    // A notification that S3 sent to the function itself, before the stack had an arrivals queue.
    if event.get("Records").is_some() {
        let notification = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
        return Box::pin(arrival::handle(stack, notification)).await;
    }
    // S3 sends this event when a notification is configured.
    if event["Event"] == "s3:TestEvent" {
        return Ok(json!({}));
    }
    let step = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
    Box::pin(steps::handle(stack, step)).await
}
