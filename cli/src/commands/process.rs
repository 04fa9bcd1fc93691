//! `everypage process`: turns files into text on this machine.

use crate::{
    args::Process,
    backend::Backend,
    documents::{self, WaitUntil},
    exit::Exit,
    ocr_build,
    problem::Problem,
    s3_address::S3Address,
    settings::{Context, no_api_key},
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
        ocr_build::build_if_needed(context, &work).await?;
    }
    let backend = Backend::open(context).await?;
    documents::run(context, &backend, &args.documents, work, WaitUntil::Done).await
}
