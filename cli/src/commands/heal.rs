//! `everypage heal`: retries the pages without AI text.

use std::time::Duration;

use everypage_core::{
    finish::{heal, results},
    job::Job,
};

use crate::{
    args::Heal,
    backend::Backend,
    ctrl_c,
    exit::Exit,
    find, human,
    problem::Problem,
    settings::{Address, Context, no_api_key},
    summary,
};

/// Time for settling and publishing after the last answer.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Heal) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let screen = &context.screen;
    let before = find::job(backend.app(), &args.job.job).await?;
    // A stack has keys of its own.
    if context.address == Address::Local && context.settings()?.failover_order().is_empty() {
        return Err(Problem::Usage(no_api_key("no model can be called")));
    }
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
    let work = async {
        let watch = backend.watch(&before).await?;
        progress.start(&before.id, &before.received.document.name);
        backend.register().await?;
        let sent = heal::send(&backend.app().finisher, &before.id, args.deadline).await?;
        let pages = before.survey.as_ref().map_or(sent.len(), |survey| survey.page_count() as usize);
        progress.expect(&before.id, pages, sent.len());
        let limit = args.deadline + PUBLISH_TIMEOUT;
        backend.settle(watch, &sent, limit, &progress, &cancel).await?;
        let job = heal::publish(&backend.app().finisher, &before.id).await?;
        Ok((sent, job))
    };
    let (sent, job) = backend.run_with(screen, &progress, &cancel, work).await?;
    let versions = |job: &Job| job.result.as_ref().map_or(0, |result| result.version);
    let (old, new) = (versions(&before), versions(&job));
    let document = results::read_document(backend.app().blobs.as_ref(), &job, None).await?;
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
        let retried = human::pages(sent.iter().copied());
        screen.print_line(&match (sent.is_empty(), new > old) {
            (true, _) => {
                format!("{name}: every page planned for AI has its AI text; nothing to heal")
            }
            (false, true) => format!("{name}: retried pages {retried}; version {new} is published"),
            (false, false) => {
                format!("{name}: retried pages {retried}; no model answered, version {old} stays")
            }
        })?;
        for line in document.iter().flat_map(summary::origin_lines) {
            screen.print_line(&line)?;
        }
    }
    Ok(if cancel.is_cancelled() { Exit::Cancelled } else { Exit::of(&job) })
}
