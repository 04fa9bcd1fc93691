//! `everypage heal`: the pages without AI text once more.

use std::time::Duration;

use everypage_core::{
    domain::job::Job,
    usecases::{heal, result},
};

use crate::{
    args::Heal,
    engine::Engine,
    exit::Exit,
    find, human,
    problem::Problem,
    settings::{Address, Context},
    stop::Stop,
    summary,
};

/// What settling and publishing may take after the last answer.
const AFTERWARDS: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Heal) -> Result<Exit, Problem> {
    let engine = Engine::open(context).await?;
    let screen = &context.screen;
    let before = find::job(engine.app(), &args.job.job).await?;
    // Whom a stack can ask is for the stack to know.
    if context.address == Address::Local && context.settings()?.roster().engines.is_empty() {
        return Err(Problem::Usage(
            "no API key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY): there is nobody to ask".into(),
        ));
    }
    let stop = Stop::on_ctrl_c(screen, engine.later());
    let progress = engine.progress(context);
    let work = async {
        let watch = engine.watch(&before).await?;
        progress.begin(&before.id, &before.received.document.name);
        engine.enlist().await?;
        let sent = heal::send(engine.app(), &before.id, args.deadline).await?;
        let pages = before.survey.as_ref().map_or(sent.len(), |survey| survey.page_count() as usize);
        progress.expect(&before.id, pages, sent.len());
        let limit = args.deadline + AFTERWARDS;
        engine.settle(watch, &sent, limit, &progress, &stop).await?;
        let job = heal::publish(engine.app(), &before.id).await?;
        Ok((sent, job))
    };
    let (sent, job) = engine.beside(screen, &progress, &stop, work).await?;
    let versions = |job: &Job| job.result.as_ref().map_or(0, |result| result.version);
    let (old, new) = (versions(&before), versions(&job));
    let document = result::read_document(engine.app(), &job, None).await?;
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
