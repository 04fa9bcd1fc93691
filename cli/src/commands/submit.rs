//! `everypage submit`: turns files into text on a stack.

use crate::{
    args::Submit,
    backend::Backend,
    documents::{self, WaitUntil},
    exit::Exit,
    problem::Problem,
    settings::{Address, Context},
};

pub async fn run(context: &Context, args: Submit) -> Result<Exit, Problem> {
    if context.address == Address::Local {
        return Err(Problem::Usage(
            "`submit` uploads documents to a stack: pass --stack NAME (or --backend aws); on this machine use `process`".into(),
        ));
    }
    let wait = if args.detach { WaitUntil::Accepted } else { WaitUntil::Done };
    let max_bytes = context.settings()?.pdf.max_file_bytes;
    let work = documents::prepare(&args.documents, wait, max_bytes)?;
    let backend = Backend::open(context).await?;
    documents::run(context, &backend, &args.documents, work, wait).await
}
