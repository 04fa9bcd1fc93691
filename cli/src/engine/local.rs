//! Jobs of this machine: the engine runs beside a command, in the same process.

use std::sync::Arc;

use everypage_core::{
    domain::{ids::JobId, job::Job},
    store::{jobs, pages},
    usecases::cancel::cancel,
};
use everypage_local::{DrivenBy, LocalBackend};
use futures::future::join_all;

use crate::{human, problem::Problem, progress::Progress, screen::Screen, stop::Stop};

/// Does `work` while the engine runs, and waits for the jobs that dead processes left as well.
pub async fn beside<T>(
    engine: &Arc<LocalBackend>,
    screen: &Screen,
    progress: &Progress,
    stop: &Stop,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let resumed = engine.recover_jobs().await?;
    if !resumed.is_empty() {
        screen.note(&format!("resumed {}", human::count(resumed.len(), "unfinished job", "unfinished jobs")));
    }
    for id in &resumed {
        let job = jobs::load(&engine.app, id).await?.value;
        progress.begin(id, &job.received.document.name);
        if let Some((survey, plan)) = job.survey.as_ref().zip(job.plan.as_ref()) {
            let pages = pages::all(&engine.app, id).await?;
            let settled = pages.values().filter(|kept| kept.value.outcome.is_some()).count();
            let waiting = (plan.ai_pages as usize).saturating_sub(settled);
            progress.expect(id, survey.page_count() as usize, waiting);
        }
    }
    let all = async {
        let done = work.await?;
        let others = join_all(resumed.iter().map(|id| engine.wait_for(id)));
        tokio::select! {
            // They go on at the next start.
            () = stop.requested() => {}
            _ = others => {}
        }
        engine.flush().await?;
        progress.end().await;
        Ok(done)
    };
    tokio::select! {
        biased;
        done = all => done,
        ended = engine.run() => {
            ended?;
            Err(Problem::Failed("the engine stopped before the work was done".into()))
        }
    }
}

/// Waits for a job's end; asks for it when a stop is requested and the job is ours to stop.
pub async fn finish(engine: &LocalBackend, id: &JobId, stop: &Stop) -> Result<Job, Problem> {
    let job = tokio::select! {
        biased;
        job = engine.wait_for(id) => job?,
        () = stop.requested() => {
            // Somebody else's run of the same request is left alone.
            if engine.driver_of(id).await? != Some(DrivenBy::AnotherProcess) {
                cancel(&engine.app, id, "ctrl-c").await?;
                engine.wait_for(id).await?
            } else {
                jobs::load(&engine.app, id).await?.value
            }
        }
    };
    engine.drain(id).await?;
    Ok(job)
}

/// Makes the job's messages come to this process.
pub async fn take_on(engine: &LocalBackend, job: &Job) -> Result<(), Problem> {
    match engine.claim(&job.id).await? {
        true => Ok(()),
        false => Err(Problem::Failed(format!(
            "job {} is being worked on by another process; try again when that is done",
            job.id
        ))),
    }
}
