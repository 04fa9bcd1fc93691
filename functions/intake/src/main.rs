use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use everypage_core::{ports::ocr::Ocr, settings::Settings};
use everypage_function::{Instance, Readers};
use everypage_pdf::{ChildCommand, IsolatedPdf, OcrProgram, TesseractOcr};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

/// The argument that starts this program as a parser process.
const CHILD_ARGUMENT: &str = "pdf-child";
const OCR_PROGRAM: &str = "everypage-ocr";
/// Two parsers, one of which renders the page, and one recognition have the function's memory.
const OCR_PROCESSES: NonZeroUsize = NonZeroUsize::MIN;

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

/// The program for OCR: in the function's own folder, else in that of its layers.
fn ocr_program() -> PathBuf {
    let own = std::env::current_exe().map(|program| program.with_file_name(OCR_PROGRAM)).ok();
    own.filter(|own| own.is_file()).unwrap_or_else(|| Path::new("/opt").join(OCR_PROGRAM))
}

#[tokio::main]
async fn serve() -> Result<(), Error> {
    everypage_function::use_fresh_temp_dir()?;
    let ocr = TesseractOcr::new(OcrProgram::new(ocr_program())).with_processes(OCR_PROCESSES);
    let ocr: Arc<dyn Ocr> = Arc::new(ocr);
    let instance = Instance::start(move |settings: &Settings| {
        let child = ChildCommand::new("/proc/self/exe").arg(CHILD_ARGUMENT);
        Readers { pdf: Arc::new(IsolatedPdf::new(child, settings.pdf)), ocr: ocr.clone() }
    })
    .await?;
    let instance = &instance;
    run(service_fn(async |event: LambdaEvent<Value>| {
        let stack = instance.stack().await;
        instance.invocation(&stack, everypage_intake::handle(&stack, event.payload)).await
    }))
    .await
}
