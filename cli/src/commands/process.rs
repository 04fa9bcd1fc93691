//! `everypage process`: files in, text out, on this machine.

use crate::{
    args::Process,
    documents::{self, Stay},
    engine::Engine,
    exit::Exit,
    problem::Problem,
    settings::Context,
};

pub async fn run(context: &Context, args: Process) -> Result<Exit, Problem> {
    super::only_local(context, "`process` reads documents on this machine; on AWS use `submit`")?;
    let settings = context.settings()?;
    let password = documents::prepare(&args.documents, Stay::UntilDone)?;
    if settings.roster().engines.is_empty() {
        context.screen.note("no API key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY): every page gets the text that MuPDF reads");
    }
    let engine = Engine::open(context).await?;
    documents::run(context, &engine, &args.documents, password, Stay::UntilDone).await
}
