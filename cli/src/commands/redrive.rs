//! `everypage dlq redrive`: dead letters back to work, and what becomes of them.

use std::{collections::BTreeMap, time::Duration};

use everypage_core::{
    domain::ids::JobId,
    store::{
        dead::{DeadLetter, Subject},
        jobs,
    },
    usecases::{
        heal as healing,
        redrive::{Redriven, redrive},
    },
};
use everypage_local::Engine;

use super::{dlq, heal, password};
use crate::{
    args::Redrive,
    drive::{self, Stop},
    exit::Exit,
    human,
    problem::Problem,
    progress::Progress,
    settings::Context,
    summary,
};

/// What settling and publishing may take after a job's own time.
const AFTERWARDS: Duration = Duration::from_secs(10);

pub async fn run(context: &Context, args: Redrive) -> Result<Exit, Problem> {
    let engine = super::open(context).await?;
    let screen = &context.screen;
    let letters = dlq::chosen(&engine.app, &args.which).await?;
    if letters.is_empty() {
        screen.note("there is no dead letter to redrive");
        return Ok(Exit::Complete);
    }
    let password = args.password_stdin.then(password::from_stdin).transpose()?;
    let stop = Stop::on_ctrl_c(screen);
    let progress = Progress::follow(&engine.bus, screen, context.verbose);
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    let work = async {
        let mut exit = Exit::Complete;
        let mut sent: BTreeMap<JobId, Redriven> = BTreeMap::new();
        for (index, letter) in letters.iter().enumerate() {
            if index > 0 {
                tokio::select! {
                    () = engine.app.clock.sleep(pause) => {}
                    () = stop.requested() => {}
                }
            }
            if stop.is_requested() {
                break;
            }
            let redriven = async {
                prepare(&engine, letter).await?;
                Ok::<_, Problem>(redrive(&engine.app, &letter.id, "cli", password.clone()).await?)
            };
            match redriven.await {
                Err(problem) => {
                    exit = exit.max(Exit::Failed);
                    screen.error(&format!("{}: {problem}", letter.id));
                }
                Ok(redriven) => {
                    let (Redriven::Job(job) | Redriven::Page(job)) = &redriven;
                    if let Some(kept) = jobs::find(&engine.app, job).await? {
                        progress.begin(job, &kept.value.received.document.name);
                    }
                    sent.insert(job.clone(), redriven);
                }
            }
        }
        screen.note(&format!("redrove {}", human::count(sent.len(), "job", "jobs")));
        for (id, redriven) in sent {
            match outcome(&engine, &id, &redriven, &stop).await {
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
    let exit = drive::beside(&engine, screen, &progress, &stop, work).await?;
    Ok(if stop.is_requested() { Exit::Cancelled } else { exit })
}

/// A page's message must find somebody who works on its job.
async fn prepare(engine: &Engine, letter: &DeadLetter) -> Result<(), Problem> {
    match &letter.subject {
        Subject::Page { job, .. } => heal::take_on(engine, &jobs::load(&engine.app, job).await?.value).await,
        Subject::Job { .. } | Subject::Message => Ok(()),
    }
}

async fn outcome(
    engine: &Engine,
    id: &JobId,
    redriven: &Redriven,
    stop: &Stop,
) -> Result<everypage_core::domain::job::Job, Problem> {
    match redriven {
        Redriven::Job(_) => drive::finish(engine, id, stop).await,
        Redriven::Page(_) => {
            let job = jobs::load(&engine.app, id).await?.value;
            let limit = job.received.options.job_timeout() + AFTERWARDS;
            tokio::select! {
                settled = heal::settle(engine, &job, limit) => settled?,
                () = stop.requested() => {}
            }
            Ok(healing::publish(&engine.app, id).await?)
        }
    }
}
