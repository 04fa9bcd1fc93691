//! `everypage heal`: the pages without AI text once more.

use std::time::Duration;

use everypage_core::{
    domain::job::Job,
    usecases::{heal, result},
};
use everypage_local::Engine;

use crate::{
    args::Heal,
    drive::{self, Stop},
    exit::Exit,
    find, human,
    problem::Problem,
    progress::Progress,
    settings::Context,
    summary,
};

/// What settling and publishing may take after the last answer.
const AFTERWARDS: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Heal) -> Result<Exit, Problem> {
    let engine = super::open(context).await?;
    let screen = &context.screen;
    let before = find::job(&engine.app, &args.job.job).await?;
    if context.settings()?.roster().engines.is_empty() {
        return Err(Problem::Usage(
            "no API key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY): there is nobody to ask".into(),
        ));
    }
    let stop = Stop::on_ctrl_c(screen);
    let progress = Progress::follow(&engine.bus, screen, context.verbose);
    let work = async {
        take_on(&engine, &before).await?;
        progress.begin(&before.id, &before.received.document.name);
        let sent = heal::send(&engine.app, &before.id, args.deadline).await?;
        let pages = before.survey.as_ref().map_or(sent.len(), |survey| survey.page_count() as usize);
        progress.expect(&before.id, pages, sent.len());
        let limit = args.deadline + AFTERWARDS;
        tokio::select! {
            drained = settle(&engine, &before, limit) => drained?,
            // What was sent goes on at the next start.
            () = stop.requested() => {}
        }
        let job = heal::publish(&engine.app, &before.id).await?;
        Ok((sent, job))
    };
    let (sent, job) = drive::beside(&engine, screen, &progress, &stop, work).await?;
    let versions = |job: &Job| job.result.as_ref().map_or(0, |result| result.version);
    let (old, new) = (versions(&before), versions(&job));
    let document = result::read_document(&engine.app, &job, None).await?;
    if args.listing.json {
        screen.print_json(&serde_json::json!({
            "job": job.id,
            "sent": sent,
            "version_before": old,
            "version": new,
            "pages": document.iter().flat_map(summary::origins).collect::<Vec<_>>(),
        }))?;
    } else {
        let name = &job.received.document.name;
        let asked = human::pages(sent.iter().copied());
        screen.print_line(&match (sent.is_empty(), new > old) {
            (true, _) => {
                format!("{name}: every page that was planned for AI has its AI text; nothing to heal")
            }
            (false, true) => format!("{name}: asked again for pages {asked}; version {new} is published"),
            (false, false) => {
                format!("{name}: asked again for pages {asked}; nobody answered, version {old} stays")
            }
        })?;
        for line in document.iter().flat_map(summary::origin_lines) {
            screen.print_line(&line)?;
        }
    }
    Ok(if stop.is_requested() { Exit::Cancelled } else { Exit::of(&job) })
}

/// Makes the job's messages come to this process.
pub async fn take_on(engine: &Engine, job: &Job) -> Result<(), Problem> {
    match engine.take_on(&job.id).await? {
        true => Ok(()),
        false => Err(Problem::Failed(format!(
            "job {} is being worked on by another process; try again when that is done",
            job.id
        ))),
    }
}

/// Waits until the job's messages are worked off.
pub async fn settle(engine: &Engine, job: &Job, limit: Duration) -> Result<(), Problem> {
    match engine.drain_within(&job.id, limit).await? {
        true => Ok(()),
        false => Err(Problem::Failed(format!(
            "pages of job {} were not settled within {}; they go on at the next start",
            job.id,
            human::duration(limit)
        ))),
    }
}
