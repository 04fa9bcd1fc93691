use std::sync::Arc;

use everypage_api::{Api, router};
use everypage_function::{Instance, NoPdf};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Arc::new(NoPdf)).await?;
    let (app, blobs) = (&instance.stack.app, &instance.stack.blobs);
    let api = Api::new(app.clone()).with_links(blobs.clone()).with_downloads(blobs.clone());
    let router = router(api);
    let (instance, router) = (&instance, &router);
    run(service_fn(async |event: LambdaEvent<Value>| {
        instance.invocation(everypage_api_function::handle(instance.app(), router, event.payload)).await
    }))
    .await
}
