use std::sync::Arc;

use everypage_api::{Api, router};
use everypage_api_function::{behind_gateway, handle};
use everypage_function::{Instance, NoPdf};
use lambda_http::{Error, LambdaEvent, lambda_runtime::run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Arc::new(NoPdf)).await?;
    let (app, blobs) = (&instance.stack.app, &instance.stack.blobs);
    let api = Api::new(app.clone()).with_upload_links(blobs.clone()).with_download_links(blobs.clone());
    let routes = behind_gateway(router(api));
    let (instance, routes) = (&instance, &routes);
    run(service_fn(async |event: LambdaEvent<Value>| {
        instance.invocation(handle(instance.app(), routes, event)).await
    }))
    .await
}
