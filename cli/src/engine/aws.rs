//! Jobs of a stack: the document goes into its bucket, and its functions do the rest.

use std::{path::Path, time::Duration};

use everypage_core::{
    app::App,
    domain::{
        ids::{JobId, PageNumber},
        job::Job,
    },
    ports::clock::{after, until},
    store::{
        jobs, pages,
        uploads::{self, Upload},
    },
    usecases::{
        cancel::cancel,
        intake::Submitted,
        upload::{Announced, begin_from},
    },
};

use super::{Request, about, follow::Follow};
use crate::{human, problem::Problem, progress::Progress, stop::Stop};

/// How often the stack is asked what has become of something.
const LOOK: Duration = Duration::from_secs(1);
/// A slow line may need so long for a large document.
const UPLOAD: Duration = Duration::from_secs(3600);
/// Lambda tries a notification again after one minute and after two more.
const TAKEN_IN: Duration = Duration::from_secs(600);
/// The sweep ends what its flow did not, within a minute of the deadline.
const OVERDUE: Duration = Duration::from_secs(180);

/// Announces the document, uploads it, and waits until the stack has made a job of it.
pub async fn accept(app: &App, request: Request, stop: &Stop) -> Result<Submitted, Problem> {
    let submission = request.submission;
    check(&submission.file)?;
    let name = submission.name.clone();
    let announced = Announced {
        tenant: submission.tenant,
        user: submission.user,
        name: submission.name,
        options: submission.options,
        password: submission.password,
        idempotency_key: submission.idempotency_key,
        traceparent: submission.traceparent,
    };
    let upload = begin_from(app, &submission.source, announced, &request.wishes, UPLOAD).await?;
    tokio::select! {
        stored = app.blobs.put_file(&upload.key, &submission.file) => drop(stored?),
        () = stop.requested() => return Err(Problem::Cancelled("cancelled before it was uploaded".into())),
    }
    taken_in(app, &upload, &name).await
}

/// So that a mistake shows before anything is written.
fn check(file: &Path) -> Result<(), Problem> {
    let meta = std::fs::metadata(file).map_err(|error| Problem::Failed(error.to_string()))?;
    match (meta.is_file(), meta.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(Problem::Failed("it is a folder: name the PDFs in it".into())),
        _ => Err(Problem::Failed("it is not a file".into())),
    }
}

async fn taken_in(app: &App, upload: &Upload, name: &str) -> Result<Submitted, Problem> {
    let limit = after(app.clock.now(), TAKEN_IN);
    loop {
        let now = uploads::find(app, &upload.id).await?.map(|kept| kept.value);
        let now = now.ok_or_else(|| Problem::Failed("the upload's record is gone".into()))?;
        if let Some(failure) = &now.failure {
            return Err(about(name, &failure.reason));
        }
        if let Some(id) = &now.job {
            let job = jobs::load(app, id).await?.value;
            let made = now.intended.as_ref().is_some_and(|intended| intended.job == *id);
            return Ok(Submitted { job, existed: !made });
        }
        if app.clock.now() >= limit {
            return Err(Problem::Failed(format!(
                "it was uploaded as {}, but the stack has made no job of it within {}; look at the \
                 log of its intake function",
                upload.key,
                human::duration(TAKEN_IN)
            )));
        }
        app.clock.sleep(LOOK).await;
    }
}

/// Watches a job until its end; cancels it when a stop is requested and the job is ours to stop.
pub async fn finish(
    app: &App,
    id: &JobId,
    ours: bool,
    progress: &Progress,
    stop: &Stop,
) -> Result<Job, Problem> {
    let mut follow = Follow::new(app, id);
    let mut cancelled = false;
    loop {
        if stop.is_requested() && !cancelled {
            if !ours {
                return Ok(jobs::load(app, id).await?.value);
            }
            cancel(app, id, "ctrl-c").await?;
            cancelled = true;
        }
        let job = jobs::load(app, id).await?.value;
        for event in follow.news().await? {
            progress.take(&event);
        }
        if job.state.is_terminal() {
            return Ok(job);
        }
        let late = until(job.deadline, app.clock.now());
        if late > OVERDUE {
            return Err(Problem::Failed(format!(
                "job {id} is {} past its deadline and not ended; look at the stack's alarms",
                human::duration(late)
            )));
        }
        tokio::select! {
            () = app.clock.sleep(LOOK) => {}
            () = stop.requested(), if !cancelled => {}
        }
    }
}

/// Follows an ended job until these pages, sent once more, are settled; false when `limit` came first.
pub async fn settled(
    app: &App,
    mut follow: Follow<'_>,
    sent: &[PageNumber],
    limit: Duration,
    progress: &Progress,
) -> Result<bool, Problem> {
    let limit = after(app.clock.now(), limit);
    let mut waiting = Vec::new();
    for page in sent {
        let kept = pages::find(app, follow.job(), *page).await?;
        // One that has its AI text is not read again, whatever was sent.
        let read = kept.and_then(|kept| kept.value.outcome).is_some_and(|outcome| outcome.is_ai());
        if !read {
            waiting.push(*page);
        }
    }
    while !waiting.is_empty() {
        if app.clock.now() >= limit {
            return Ok(false);
        }
        app.clock.sleep(LOOK).await;
        for event in follow.news().await? {
            if let Some(page) = follow.settles(&event) {
                waiting.retain(|other| *other != page);
            }
            progress.take(&event);
        }
    }
    Ok(true)
}
