use everypage_function::{Instance, Readers};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Readers::none()).await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<Value>| {
        let stack = instance.stack().await;
        instance.invocation(&stack, everypage_finalize::handle(&stack.app, event.payload)).await
    }))
    .await
}
