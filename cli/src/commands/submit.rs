//! `everypage submit`: turns files into text on a stack.

use crate::{
    args::{Documents, Submit},
    backend::Backend,
    documents::{self, WaitUntil},
    exit::Exit,
    problem::Problem,
    s3_address::S3Address,
    settings::{Address, Context},
};

pub async fn run(context: &Context, mut args: Submit) -> Result<Exit, Problem> {
    if context.address == Address::Local {
        return Err(Problem::Usage(
            "`submit` uploads documents to a stack: pass --stack NAME (or --backend aws); on this machine use `process`".into(),
        ));
    }
    let wait = if args.detach { WaitUntil::Accepted } else { WaitUntil::Done };
    let max_bytes = context.settings()?.pdf.max_file_bytes;
    // Only a listing is needed before everything else is checked.
    let opened = match names_many_objects(&args.documents) {
        true => Some(Backend::open(context).await?),
        false => None,
    };
    if let Some(backend) = &opened {
        args.documents.files = backend.expand(std::mem::take(&mut args.documents.files)).await?;
    }
    let work = documents::prepare(&args.documents, wait, max_bytes)?;
    let backend = match opened {
        Some(backend) => backend,
        None => Backend::open(context).await?,
    };
    documents::run(context, &backend, &args.documents, work, wait).await
}

fn names_many_objects(args: &Documents) -> bool {
    let addresses = args.files.iter().filter(|file| S3Address::is_meant(file));
    addresses.filter_map(|file| file.to_string_lossy().parse::<S3Address>().ok()).any(|one| one.names_many())
}
