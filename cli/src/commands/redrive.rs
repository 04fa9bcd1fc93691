//! `everypage dlq redrive`: dead letters back to work, and what becomes of them.

use std::{collections::BTreeMap, time::Duration};

use everypage_core::{
    domain::{
        ids::{JobId, PageNumber},
        job::Job,
    },
    store::{
        dead::{DeadLetter, Subject},
        jobs,
    },
    usecases::{
        heal as healing,
        redrive::{Redriven, redrive},
        webhooks,
    },
};

use super::{dlq, password};
use crate::{
    args::Redrive,
    engine::{Engine, Watch},
    exit::Exit,
    human,
    problem::Problem,
    progress::Progress,
    settings::Context,
    stop::Stop,
    summary,
};

/// What settling and publishing may take after a job's own time.
const AFTERWARDS: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Redrive) -> Result<Exit, Problem> {
    let engine = Engine::open(context).await?;
    let screen = &context.screen;
    let letters = dlq::chosen(engine.app(), &args.which).await?;
    if letters.is_empty() {
        screen.note("there is no dead letter to redrive");
        return Ok(Exit::Complete);
    }
    let password = args.password_stdin.then(password::from_stdin).transpose()?;
    let stop = Stop::on_ctrl_c(screen, engine.later());
    let progress = engine.progress(context);
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    engine.enlist().await?;
    let work = async {
        let mut exit = Exit::Complete;
        let mut sent: BTreeMap<JobId, Sent> = BTreeMap::new();
        for (index, letter) in letters.iter().enumerate() {
            if index > 0 {
                tokio::select! {
                    () = engine.app().clock.sleep(pause) => {}
                    () = stop.requested() => {}
                }
            }
            if stop.is_requested() {
                break;
            }
            let redriven = async {
                let watch = watch(&engine, letter).await?;
                Ok::<_, Problem>((redrive(engine.app(), &letter.id, "cli", password.clone()).await?, watch))
            };
            match redriven.await {
                Err(problem) => {
                    exit = exit.max(Exit::Failed);
                    screen.error(&format!("{}: {problem}", letter.id));
                }
                // Sent here and now; what is not delivered is tried again by whoever works next.
                Ok((Redriven::Webhook(job), _)) => {
                    webhooks::deliver(engine.app()).await?;
                    screen.print_line(&format!("webhook of job {job} sent once more"))?;
                }
                Ok((Redriven::Job(job) | Redriven::Page(job), watch)) => {
                    let job = &job;
                    if let Some(kept) = jobs::find(engine.app(), job).await? {
                        progress.begin(job, &kept.value.received.document.name);
                    }
                    // The first look at a job is the one from before all of its pages.
                    let sent = sent.entry(job.clone()).or_insert(Sent { watch, pages: Vec::new() });
                    if let Subject::Page { page, .. } = &letter.subject {
                        sent.pages.push(*page);
                    }
                }
            }
        }
        screen.note(&format!("redrove {}", human::count(sent.len(), "job", "jobs")));
        for (id, sent) in sent {
            match outcome(&engine, &id, sent, &progress, &stop).await {
                Err(problem) => {
                    exit = exit.max(Exit::Failed);
                    screen.error(&problem.to_string());
                }
                Ok(job) => {
                    exit = exit.max(Exit::of(&job));
                    progress.forget(&id);
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
    let exit = engine.beside(screen, &progress, &stop, work).await?;
    Ok(if stop.is_requested() { Exit::Cancelled } else { exit })
}

/// What is on its way again of one job.
struct Sent<'a> {
    /// `None` for a document that starts again as a whole.
    watch: Option<Watch<'a>>,
    pages: Vec<PageNumber>,
}

/// A page's message must find somebody who works on its job.
async fn watch<'a>(engine: &'a Engine, letter: &DeadLetter) -> Result<Option<Watch<'a>>, Problem> {
    match &letter.subject {
        Subject::Page { job, .. } => {
            Ok(Some(engine.watch(&jobs::load(engine.app(), job).await?.value).await?))
        }
        Subject::Job { .. } | Subject::Webhook { .. } | Subject::Message => Ok(None),
    }
}

async fn outcome(
    engine: &Engine,
    id: &JobId,
    sent: Sent<'_>,
    progress: &Progress,
    stop: &Stop,
) -> Result<Job, Problem> {
    let Some(watch) = sent.watch else {
        return engine.finish(id, true, progress, stop).await;
    };
    let job = jobs::load(engine.app(), id).await?.value;
    let limit = job.received.options.job_timeout() + AFTERWARDS;
    engine.settle(watch, &sent.pages, limit, progress, stop).await?;
    Ok(healing::publish(engine.app(), id).await?)
}
