//! `everypage submit`: files into a stack's bucket, text out.

use crate::{
    args::Submit,
    documents::{self, Stay},
    engine::Engine,
    exit::Exit,
    problem::Problem,
    settings::{Address, Context},
};

pub async fn run(context: &Context, args: Submit) -> Result<Exit, Problem> {
    if context.address == Address::Local {
        return Err(Problem::Usage(
            "`submit` uploads documents to a stack: name it with --stack NAME (or --engine aws); on this machine use `process`".into(),
        ));
    }
    let stay = if args.detach { Stay::UntilAccepted } else { Stay::UntilDone };
    let password = documents::prepare(&args.documents, stay)?;
    let engine = Engine::open(context).await?;
    documents::run(context, &engine, &args.documents, password, stay).await
}
