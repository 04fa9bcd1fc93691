use std::{process::ExitCode, sync::Arc};

use everypage_core::settings::Settings;
use everypage_function::Instance;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

/// The argument that starts this program as a parser process.
const CHILD_ARGUMENT: &str = "pdf-child";

fn main() -> ExitCode {
    // First of all: a child must not have started a thread.
    let done = if std::env::args().nth(1).as_deref() == Some(CHILD_ARGUMENT) {
        everypage_pdf::child::run().map_err(Error::from)
    } else {
        // Its parsers run as the same user, and its environment has the role's credentials.
        everypage_pdf::protect_memory();
        serve()
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve() -> Result<(), Error> {
    everypage_function::use_fresh_temp_dir()?;
    let instance = Instance::start(|settings: &Settings| {
        Arc::new(IsolatedPdf::new(ChildCommand::new("/proc/self/exe").arg(CHILD_ARGUMENT), settings.pdf))
    })
    .await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<Value>| {
        instance.invocation(everypage_intake::handle(&instance.stack, event.payload)).await
    }))
    .await
}
