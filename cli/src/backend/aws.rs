//! Jobs of a stack: the document is uploaded to its bucket, and its functions do the rest.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use everypage_aws::{Copied, Stack};
use everypage_core::{
    app::App,
    ids::{JobId, PageNumber},
    intake::{
        announce::{UploadAnnouncement, announce_with_overrides},
        submit::Submitted,
        uploads::{self, Upload},
    },
    job::{Job, cancel::cancel as cancel_job, jobs},
    read::pages,
    time::{after, until},
};

use tokio_util::sync::CancellationToken;

use super::{Request, event_poller::EventPoller, without_name};
use crate::{human, problem::Problem, progress::Progress, s3_address::S3Address};

/// How often the stack's records are polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Enough for a large document over a slow connection.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3600);
/// Lambda retries a notification after one minute and after two more.
const INTAKE_TIMEOUT: Duration = Duration::from_secs(600);
/// The sweep ends a job that its flow did not end, within a minute of the deadline.
const MAX_OVERDUE: Duration = Duration::from_secs(180);

/// Announces the document, uploads it or has S3 copy the object, and waits until the stack has created its job.
pub async fn accept(
    stack: &Stack,
    request: Request,
    object: Option<S3Address>,
    cancel: &CancellationToken,
) -> Result<Submitted, Problem> {
    let Request { submission, overrides } = request;
    let app = &stack.app;
    if object.is_none() {
        check(&submission.file)?;
    }
    let name = submission.name.clone();
    let announced = UploadAnnouncement {
        tenant: submission.tenant,
        user: submission.user,
        name: submission.name,
        options: submission.options,
        password: submission.password,
        idempotency_key: submission.idempotency_key,
        traceparent: submission.traceparent,
    };
    let upload =
        announce_with_overrides(&app.intake, submission.source, announced, &overrides, UPLOAD_TIMEOUT)
            .await?;
    let file = &submission.file;
    let stored = async {
        match &object {
            Some(object) => copy(stack, object, &upload.key).await,
            None => Ok(app.blobs.put_file(&upload.key, file).await.map(drop)?),
        }
    };
    tokio::select! {
        stored = stored => stored?,
        () = cancel.cancelled() => return Err(Problem::Cancelled("cancelled before it was uploaded".into())),
    }
    created(app, &upload, &name).await
}

/// S3 copies the document itself, with the caller's own credentials: nothing passes through this machine.
async fn copy(stack: &Stack, object: &S3Address, key: &str) -> Result<(), Problem> {
    let limit = stack.app.settings.pdf.max_file_bytes;
    match stack.blobs.copy_from(&object.bucket, &object.key, key, limit).await? {
        Copied::Stored => Ok(()),
        Copied::Missing => Err(Problem::Failed("there is no such object, or you may not read it".into())),
        Copied::TooLarge { bytes } => Err(Problem::Failed(format!(
            "it has {bytes} bytes, more than the limit of {limit} (MAX_FILE_BYTES)"
        ))),
    }
}

pub async fn expand(stack: &Stack, files: Vec<PathBuf>) -> Result<Vec<PathBuf>, Problem> {
    let mut expanded = Vec::with_capacity(files.len());
    for file in files {
        let address = S3Address::is_meant(&file).then(|| file.to_string_lossy().parse::<S3Address>());
        let address = match address.transpose().map_err(Problem::Usage)? {
            Some(address) if address.names_many() => address,
            _ => {
                expanded.push(file);
                continue;
            }
        };
        let keys = stack.blobs.list_documents(&address.bucket, address.prefix()).await?;
        let before = expanded.len();
        let found = keys.into_iter().filter(|key| address.matches(key));
        expanded.extend(found.map(|key| PathBuf::from(address.with_key(key).to_string())));
        if expanded.len() == before {
            expanded.push(file);
        }
    }
    Ok(expanded)
}

/// Reports a wrong path before anything is written.
fn check(file: &Path) -> Result<(), Problem> {
    let meta = std::fs::metadata(file).map_err(|error| Problem::Failed(error.to_string()))?;
    match (meta.is_file(), meta.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(Problem::Failed("it is a folder: name the documents in it".into())),
        _ => Err(Problem::Failed("it is not a file".into())),
    }
}

/// Waits until the stack has created a job from the upload.
async fn created(app: &App, upload: &Upload, name: &str) -> Result<Submitted, Problem> {
    let limit = after(app.store.clock.now(), INTAKE_TIMEOUT);
    loop {
        let now = uploads::find(&app.store, &upload.id).await?.map(|upload| upload.value);
        let now = now.ok_or_else(|| Problem::Failed("the upload's record has expired".into()))?;
        if let Some(failure) = &now.failure {
            return Err(without_name(name, &failure.reason));
        }
        if let Some(id) = &now.job {
            let job = jobs::load(&app.store, id).await?.value;
            let made = now.intended.as_ref().is_some_and(|intended| intended.job == *id);
            return Ok(Submitted { job, existed: !made });
        }
        if app.store.clock.now() >= limit {
            return Err(Problem::Failed(format!(
                "it was uploaded as {}, but the stack has created no job within {}; see the log of its \
                 intake function",
                upload.key,
                human::duration(INTAKE_TIMEOUT)
            )));
        }
        app.store.clock.sleep(POLL_INTERVAL).await;
    }
}

/// Watches a job until its end; on cancellation cancels the job if this command `created` it.
pub async fn finish(
    app: &App,
    id: &JobId,
    created: bool,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Job, Problem> {
    let mut poller = EventPoller::new(app, id);
    let mut cancelled = false;
    loop {
        if cancel.is_cancelled() && !cancelled {
            if !created {
                return Ok(jobs::load(&app.store, id).await?.value);
            }
            cancel_job(&app.store, app.flow.as_ref(), &app.interrupts, id, "ctrl-c").await?;
            cancelled = true;
        }
        let job = jobs::load(&app.store, id).await?.value;
        for event in poller.poll().await? {
            progress.record(&event);
        }
        if job.state.is_terminal() {
            return Ok(job);
        }
        let late = until(job.deadline, app.store.clock.now());
        if late > MAX_OVERDUE {
            return Err(Problem::Failed(format!(
                "job {id} has not ended {} after its deadline; see the stack's alarms",
                human::duration(late)
            )));
        }
        tokio::select! {
            () = app.store.clock.sleep(POLL_INTERVAL) => {}
            () = cancel.cancelled(), if !cancelled => {}
        }
    }
}

/// Polls an ended job until the pages that were sent again are settled; false if `limit` is reached.
pub async fn settled(
    app: &App,
    mut poller: EventPoller<'_>,
    sent: &[PageNumber],
    limit: Duration,
    progress: &Progress,
) -> Result<bool, Problem> {
    let limit = after(app.store.clock.now(), limit);
    let mut waiting = Vec::new();
    for page in sent {
        let found = pages::find(&app.store, poller.job(), *page).await?;
        // A page that has its AI text is not read again.
        let read = found.and_then(|page| page.value.outcome).is_some_and(|outcome| outcome.is_ai());
        if !read {
            waiting.push(*page);
        }
    }
    while !waiting.is_empty() {
        if app.store.clock.now() >= limit {
            return Ok(false);
        }
        app.store.clock.sleep(POLL_INTERVAL).await;
        for event in poller.poll().await? {
            if let Some(page) = poller.settled_page(&event) {
                waiting.retain(|other| *other != page);
            }
            progress.record(&event);
        }
    }
    Ok(true)
}
