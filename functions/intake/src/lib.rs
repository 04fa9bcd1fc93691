//! The way in: objects that arrive in the bucket become jobs, and the state machine's steps up to
//! the plan.

mod arrival;
mod steps;

pub use steps::Step;

use everypage_aws::Stack;
use everypage_function::FailedStep;
use serde_json::{Value, json};

/// An S3 notification, or a step of the state machine.
pub async fn handle(stack: &Stack, event: Value) -> Result<Value, FailedStep> {
    if event.get("Records").is_some() {
        let notification = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
        return arrival::handle(stack, notification).await;
    }
    // What S3 sends when a notification is set up.
    if event["Event"] == "s3:TestEvent" {
        return Ok(json!({}));
    }
    let step = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
    steps::handle(stack, step).await
}
