use everypage_api::{Api, router};
use everypage_api_function::{TokenClaims, behind_gateway, handle};
use everypage_function::{Instance, Readers, Stack, environment};
use lambda_http::{Error, LambdaEvent, lambda_runtime::run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let instance = Instance::start(|_| Readers::none()).await?;
    let claims = TokenClaims::read(environment);
    let (instance, claims) = (&instance, &claims);
    run(service_fn(async |event: LambdaEvent<Value>| {
        // Routes belong to a stack, which is another one after its secret has changed.
        let stack = instance.stack().await;
        let routes = behind_gateway(router(api(&stack)), claims.clone());
        instance.invocation(&stack, handle(&stack.app, &routes, event)).await
    }))
    .await
}

fn api(stack: &Stack) -> Api {
    Api::new(stack.app.clone())
        .with_upload_links(stack.blobs.clone())
        .with_download_links(stack.blobs.clone())
}
