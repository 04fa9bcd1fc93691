//! `everypage resume`: finish what was left open.

use everypage_core::store::jobs;
use futures::future::join_all;

use crate::{
    drive::{self, Stop},
    exit::Exit,
    human,
    problem::Problem,
    progress::Progress,
    settings::Context,
    summary,
};

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    let engine = super::open(context).await?;
    let screen = &context.screen;
    let open = jobs::open(&engine.app).await?;
    if open.is_empty() {
        screen.note("no job is open");
    }
    let stop = Stop::on_ctrl_c(screen);
    let progress = Progress::follow(&engine.bus, screen, context.verbose);
    let work = async {
        let ended = join_all(open.iter().map(|job| engine.wait_for(&job.id)));
        tokio::select! {
            ended = ended => Ok(Some(ended)),
            () = stop.requested() => Ok(None),
        }
    };
    let Some(ended) = drive::beside(&engine, screen, &progress, &stop, work).await? else {
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
