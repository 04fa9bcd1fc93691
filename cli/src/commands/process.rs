//! `everypage process`: turns files into text on this machine.

use crate::{
    args::Process,
    backend::Backend,
    documents::{self, WaitUntil},
    exit::Exit,
    problem::Problem,
    settings::{Context, no_api_key},
};

pub async fn run(context: &Context, args: Process) -> Result<Exit, Problem> {
    super::only_local(context, "`process` reads documents on this machine; on AWS use `submit`")?;
    let settings = context.settings()?;
    let work = documents::prepare(&args.documents, WaitUntil::Done, settings.pdf.max_file_bytes)?;
    if settings.failover_order().is_empty() {
        context.screen.note(&no_api_key("every page gets the text that Everypage reads itself"));
    }
    let backend = Backend::open(context).await?;
    documents::run(context, &backend, &args.documents, work, WaitUntil::Done).await
}
