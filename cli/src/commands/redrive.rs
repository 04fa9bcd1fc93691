//! `everypage dlq redrive`: sends dead letters back to processing, and waits for their outcome.

use std::{collections::BTreeMap, time::Duration};

use everypage_core::{
    dead_letters::{DeadLetter, Subject},
    finish::heal as healing,
    ids::{JobId, PageNumber},
    job::{Job, jobs},
    notify::deliver,
    recover::redrive::{Redriven, redrive},
};

use tokio_util::sync::CancellationToken;

use super::{dlq, password};
use crate::{
    args::Redrive,
    backend::{Backend, Watch},
    ctrl_c,
    exit::Exit,
    human,
    problem::Problem,
    progress::Progress,
    settings::Context,
    summary,
};

/// Time for settling and publishing after a job's own time.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Redrive) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let screen = &context.screen;
    let dead_letters = dlq::chosen(backend.app(), &args.which).await?;
    if dead_letters.is_empty() {
        screen.note("no dead letter to redrive");
        return Ok(Exit::Complete);
    }
    let password = args.password_stdin.then(password::from_stdin).transpose()?;
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    backend.register().await?;
    let work = async {
        let mut exit = Exit::Complete;
        let mut sent: BTreeMap<JobId, Sent> = BTreeMap::new();
        for (index, dead_letter) in dead_letters.iter().enumerate() {
            if index > 0 {
                tokio::select! {
                    () = backend.app().store.clock.sleep(pause) => {}
                    () = cancel.cancelled() => {}
                }
            }
            if cancel.is_cancelled() {
                break;
            }
            let redriven = async {
                let watch = watch(&backend, dead_letter).await?;
                Ok::<_, Problem>((
                    redrive(&backend.app().recovery, &dead_letter.id, "cli", password.clone()).await?,
                    watch,
                ))
            };
            match redriven.await {
                Err(problem) => {
                    exit = exit.max(Exit::Failed);
                    screen.error(&format!("{}: {problem}", dead_letter.id));
                }
                // Delivered by this process; a failed delivery is retried by the next worker.
                Ok((Redriven::Webhook(job), _)) => {
                    deliver::deliver(&backend.app().publisher).await?;
                    let about = job.map(|job| format!(" of job {job}")).unwrap_or_default();
                    screen.print_line(&format!("webhook{about} sent again"))?;
                }
                Ok((Redriven::Job(job) | Redriven::Page(job), watch)) => {
                    let job = &job;
                    if let Some(found) = jobs::find(&backend.app().store, job).await? {
                        progress.start(job, &found.value.received.document.name);
                    }
                    // The first watch of a job precedes all of its pages.
                    let sent = sent.entry(job.clone()).or_insert(Sent { watch, pages: Vec::new() });
                    if let Subject::Page { page, .. } = &dead_letter.subject {
                        sent.pages.push(*page);
                    }
                }
            }
        }
        screen.note(&format!("redrove {}", human::count(sent.len(), "job", "jobs")));
        for (id, sent) in sent {
            match outcome(&backend, &id, sent, &progress, &cancel).await {
                Err(problem) => {
                    exit = exit.max(Exit::Failed);
                    screen.error(&problem.to_string());
                }
                Ok(job) => {
                    exit = exit.max(Exit::of(&job));
                    progress.finish(&id, None);
                    let name = &job.received.document.name;
                    screen.print_line(&format!("{name}: {} (job {id})", summary::headline(&job)))?;
                    if let Some(failure) = &job.failure {
                        screen.error(&format!("{name}: {}", failure.reason));
                    }
                }
            }
        }
        Ok(exit)
    };
    let exit = backend.run_with(screen, &progress, &cancel, work).await?;
    Ok(if cancel.is_cancelled() { Exit::Cancelled } else { exit })
}

/// The pages of one job that were sent again.
struct Sent<'a> {
    /// `None` for a document that restarts as a whole.
    watch: Option<Watch<'a>>,
    pages: Vec<PageNumber>,
}

/// A page's message needs a worker of its job.
async fn watch<'a>(backend: &'a Backend, dead_letter: &DeadLetter) -> Result<Option<Watch<'a>>, Problem> {
    match &dead_letter.subject {
        Subject::Page { job, .. } => {
            Ok(Some(backend.watch(&jobs::load(&backend.app().store, job).await?.value).await?))
        }
        Subject::Job { .. } | Subject::Webhook { .. } | Subject::Message => Ok(None),
    }
}

async fn outcome(
    backend: &Backend,
    id: &JobId,
    sent: Sent<'_>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Job, Problem> {
    let Some(watch) = sent.watch else {
        return backend.finish(id, true, progress, cancel).await;
    };
    let job = jobs::load(&backend.app().store, id).await?.value;
    let limit = job.received.options.job_timeout() + PUBLISH_TIMEOUT;
    backend.settle(watch, &sent.pages, limit, progress, cancel).await?;
    Ok(healing::publish(&backend.app().finisher, id).await?)
}
