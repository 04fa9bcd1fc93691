//! The intake function: makes jobs from objects in the bucket, and runs the state machine's steps up to
//! the plan.

mod arrival;
mod steps;

pub use steps::{Next, Step};

use everypage_aws::Stack;
use everypage_function::FailedStep;
use serde_json::{Value, json};

/// Handles an S3 notification or a step of the state machine.
pub async fn handle(stack: &Stack, event: Value) -> Result<Value, FailedStep> {
    if event.get("Records").is_some() {
        let notification = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
        return arrival::handle(stack, notification).await;
    }
    // S3 sends this event when a notification is configured.
    if event["Event"] == "s3:TestEvent" {
        return Ok(json!({}));
    }
    let step = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
    steps::handle(stack, step).await
}
