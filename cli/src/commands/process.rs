//! `everypage process`: turns files into text on this machine.

use everypage_core::settings::OcrPages;

use crate::{
    args::Process,
    backend::Backend,
    documents::{self, WaitUntil},
    exit::Exit,
    problem::Problem,
    s3_address::S3Address,
    settings::{Context, no_api_key, ocr},
};

pub async fn run(context: &Context, args: Process) -> Result<Exit, Problem> {
    super::only_local(context, "`process` reads documents on this machine; on AWS use `submit`")?;
    if let Some(object) = args.documents.files.iter().find(|file| S3Address::is_meant(file)) {
        return Err(Problem::Usage(format!(
            "{} is in S3: `submit` reads it on a stack, `process` reads documents of this machine",
            object.display()
        )));
    }
    let settings = context.settings()?;
    let work = documents::prepare(&args.documents, WaitUntil::Done, settings.pdf.max_file_bytes)?;
    if settings.failover_order().is_empty() {
        context.screen.note(&no_api_key("every page gets the text that Everypage reads itself"));
        if settings.ocr != OcrPages::Off && ocr()?.will_be_built() {
            let note = "OCR is built in the background when the first page without a text layer needs it, once; this takes some minutes";
            context.screen.note(note);
        }
    }
    let backend = Backend::open(context).await?;
    documents::run(context, &backend, &args.documents, work, WaitUntil::Done).await
}
