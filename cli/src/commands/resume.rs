//! `everypage resume`: finish what was left open.

use std::sync::Arc;

use everypage_core::store::jobs;
use futures::future::join_all;

use crate::{
    engine::Engine,
    exit::Exit,
    human,
    problem::Problem,
    settings::{Context, open_engine},
    stop::Stop,
    summary,
};

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    super::only_local(context, "`resume` is for jobs of this machine; a stack finishes its own by itself")?;
    let local = Arc::new(open_engine(context.settings()?, context.data()?, context.traces.clone()).await?);
    let engine = Engine::Local(local.clone());
    let screen = &context.screen;
    let open = jobs::open(engine.app()).await?;
    if open.is_empty() {
        screen.note("no job is open");
    }
    let stop = Stop::on_ctrl_c(screen, engine.later());
    let progress = engine.progress(context);
    let work = async {
        let ended = join_all(open.iter().map(|job| local.wait_for(&job.id)));
        tokio::select! {
            ended = ended => Ok(Some(ended)),
            () = stop.requested() => Ok(None),
        }
    };
    let Some(ended) = engine.beside(screen, &progress, &stop, work).await? else {
        screen.note(&format!(
            "left; {} at the next start",
            human::count(open.len(), "job goes on", "jobs go on")
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
