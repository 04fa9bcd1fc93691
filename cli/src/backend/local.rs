//! Jobs of this machine: the backend runs in the process of the command.

use std::sync::Arc;

use everypage_core::{
    ids::JobId,
    job::{Job, cancel::cancel as cancel_job, jobs},
    read::pages,
};
use everypage_local::{DrivenBy, LocalBackend};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{human, problem::Problem, progress::Progress, screen::Screen};

/// Does `work` while the backend runs, and then waits for the jobs of processes that died.
pub async fn run_with<T>(
    local: &Arc<LocalBackend>,
    screen: &Screen,
    progress: &Progress,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let resumed = local.recover_jobs().await?;
    if !resumed.is_empty() {
        screen.note(&format!("resumed {}", human::count(resumed.len(), "unfinished job", "unfinished jobs")));
    }
    for id in &resumed {
        let job = jobs::load(&local.app.store, id).await?.value;
        progress.start(id, &job.received.document.name);
        if let Some((survey, plan)) = job.survey.as_ref().zip(job.plan.as_ref()) {
            let pages = pages::all(&local.app.store, id).await?;
            let settled = pages.values().filter(|page| page.value.outcome.is_some()).count();
            let remaining = (plan.ai_pages as usize).saturating_sub(settled);
            progress.expect(id, survey.page_count() as usize, remaining);
        }
    }
    let all = async {
        let done = work.await?;
        let others = join_all(resumed.iter().map(|id| local.wait_for(id)));
        tokio::select! {
            // The next start resumes them.
            () = cancel.cancelled() => {}
            _ = others => {}
        }
        local.flush().await?;
        progress.end().await;
        Ok(done)
    };
    tokio::select! {
        biased;
        done = all => done,
        ended = local.run() => {
            ended?;
            Err(Problem::Failed("the backend stopped before the work was done".into()))
        }
    }
}

/// Waits for a job's end; on cancellation cancels the job unless another process drives it.
pub async fn finish(local: &LocalBackend, id: &JobId, cancel: &CancellationToken) -> Result<Job, Problem> {
    let job = tokio::select! {
        biased;
        job = local.wait_for(id) => job?,
        () = cancel.cancelled() => {
            // Another process runs the same request; its job is not this command's to cancel.
            if local.driver_of(id).await? != Some(DrivenBy::AnotherProcess) {
                cancel_job(&local.app.store, local.app.flow.as_ref(), &local.app.interrupts, id, "ctrl-c").await?;
                local.wait_for(id).await?
            } else {
                jobs::load(&local.app.store, id).await?.value
            }
        }
    };
    local.drain(id).await?;
    Ok(job)
}

/// Makes this process the worker of the job's messages.
pub async fn claim(local: &LocalBackend, job: &Job) -> Result<(), Problem> {
    match local.claim(&job.id).await? {
        true => Ok(()),
        false => Err(Problem::Failed(format!(
            "another process is working on job {}; retry when it has finished",
            job.id
        ))),
    }
}
