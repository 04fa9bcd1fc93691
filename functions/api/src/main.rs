use std::sync::Arc;

use everypage_api::{Api, router};
use everypage_function::{Instance, NoPdf};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Arc::new(NoPdf)).await?;
    let router = router(Api::new(instance.stack.app.clone()).with_links(instance.stack.blobs.clone()));
    let (instance, router) = (&instance, &router);
    run(service_fn(async |event: LambdaEvent<Value>| {
        instance.invocation(everypage_api_function::handle(instance.app(), router, event.payload)).await
    }))
    .await
}
