use std::sync::Arc;

use everypage_function::{Instance, NoPdf};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Arc::new(NoPdf)).await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<Value>| {
        instance.invocation(everypage_finalize::handle(instance.app(), event.payload)).await
    }))
    .await
}
