//! `everypage resume`: finishes the unfinished jobs of this machine.

use std::sync::Arc;

use everypage_core::{admission::line, job::jobs};
use futures::future::join_all;

use crate::{
    backend::Backend,
    ctrl_c,
    exit::Exit,
    human,
    problem::Problem,
    settings::{Context, open_local},
    summary,
};

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    super::only_local(context, "`resume` is for jobs of this machine; a stack finishes its jobs itself")?;
    let local = Arc::new(open_local(context.settings()?, context.data()?, context.traces.clone()).await?);
    let backend = Backend::Local(local.clone());
    let screen = &context.screen;
    let mut open = jobs::open(&backend.app().store).await?;
    open.extend(line::waiting(&backend.app().store).await?);
    if open.is_empty() {
        screen.note("no unfinished job");
    }
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
    let work = async {
        let ended = join_all(open.iter().map(|job| local.wait_for(&job.id)));
        tokio::select! {
            ended = ended => Ok(Some(ended)),
            () = cancel.cancelled() => Ok(None),
        }
    };
    let Some(ended) = backend.run_with(screen, &progress, &cancel, work).await? else {
        screen.note(&format!(
            "cancelled; {} at the next start",
            human::count(open.len(), "job continues", "jobs continue")
        ));
        return Ok(Exit::Cancelled);
    };
    let mut exit = Exit::Complete;
    for job in ended {
        let job = job?;
        exit = exit.max(Exit::of(&job));
        screen.note(&format!("{}: {} (job {})", job.received.document.name, summary::headline(&job), job.id));
    }
    Ok(exit)
}
