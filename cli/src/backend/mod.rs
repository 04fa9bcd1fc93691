//! Where jobs run: this machine, or a stack on AWS.
//!
//! Commands are the same for both. What differs is behind [`Backend`].

#[cfg(feature = "aws")]
mod aws;
#[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "only stacks are polled"))]
mod event_poller;
mod local;

use std::{path::PathBuf, sync::Arc, time::Duration};

use everypage_core::{
    app::App,
    finish::{finalize::finalize, result::Cause},
    ids::{JobId, PageNumber},
    intake::{
        options::OptionOverrides,
        submit::{Submission, Submitted, submit},
    },
    job::{Job, end_now::end_now},
};
use everypage_local::{DrivenBy, LocalBackend};
use tokio_util::sync::CancellationToken;

use self::event_poller::EventPoller;
use crate::{
    human,
    problem::Problem,
    progress::Progress,
    s3_address::S3Address,
    screen::Screen,
    settings::{Address, Context, open_local},
};

#[derive(Clone)]
pub enum Backend {
    Local(Arc<LocalBackend>),
    #[cfg(feature = "aws")]
    Aws(Arc<everypage_aws::Stack>),
}

/// A document for either backend.
pub struct Request {
    pub submission: Submission,
    /// The caller's options: a stack applies them to its own settings, not to this machine's.
    #[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "sent to a stack"))]
    pub overrides: OptionOverrides,
}

/// The answer to a user who wants the result now.
pub enum PublishNow {
    Ended,
    /// The text of the document is not read yet.
    NotRead,
    /// Another command works on the job.
    NotOurs,
}

/// A job whose pages are about to be sent again.
pub struct Watch<'a> {
    job: JobId,
    /// For a backend that does not publish its events to this process.
    poller: Option<EventPoller<'a>>,
}

impl Backend {
    pub async fn open(context: &Context) -> Result<Self, Problem> {
        let (settings, traces) = (context.settings()?, context.traces.clone());
        match &context.address {
            Address::Local => Ok(Self::Local(Arc::new(open_local(settings, context.data()?, traces).await?))),
            #[cfg(feature = "aws")]
            Address::Aws(stack) => {
                Ok(Self::Aws(Arc::new(crate::settings::connect(settings, stack, traces).await?)))
            }
            #[cfg(not(feature = "aws"))]
            Address::Aws(_) => Err(Problem::without_aws()),
        }
    }

    pub fn app(&self) -> &Arc<App> {
        match self {
            Self::Local(local) => &local.app,
            #[cfg(feature = "aws")]
            Self::Aws(stack) => &stack.app,
        }
    }

    /// Where unfinished work continues after the command exits.
    pub fn later(&self) -> &'static str {
        match self {
            Self::Local(_) => "at the next start",
            #[cfg(feature = "aws")]
            Self::Aws(_) => "in the stack",
        }
    }

    /// Registers this process before it stores events, so that a stack's sweep publishes the events
    /// that it could not publish itself.
    pub async fn register(&self) -> Result<(), Problem> {
        match self {
            Self::Local(local) => local.register()?,
            #[cfg(feature = "aws")]
            Self::Aws(stack) => everypage_core::events::nodes::record_heartbeat(&stack.app.store).await?,
        }
        Ok(())
    }

    /// Publishes the events that a command stored.
    pub async fn flush(&self) -> Result<(), Problem> {
        match self {
            Self::Local(local) => local.flush().await?,
            #[cfg(feature = "aws")]
            Self::Aws(stack) if !stack.app.store.outbox.is_empty() => {
                self.register().await?;
                everypage_core::notify::relay::relay_own(&stack.app.publisher).await?;
            }
            #[cfg(feature = "aws")]
            Self::Aws(_) => {}
        }
        Ok(())
    }

    pub fn progress(&self, context: &Context) -> Progress {
        match self {
            Self::Local(local) => Progress::subscribed(&local.bus, context),
            #[cfg(feature = "aws")]
            Self::Aws(_) => Progress::new(context),
        }
    }

    /// Does a command's work while the backend does its own.
    pub async fn run_with<T>(
        &self,
        screen: &Screen,
        progress: &Progress,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        match self {
            Self::Local(local) => local::run_with(local, screen, progress, cancel, work).await,
            #[cfg(feature = "aws")]
            Self::Aws(_) => {
                let done = work.await;
                self.flush().await?;
                progress.end().await;
                done
            }
        }
    }

    /// Does the backend's own work until `stop` is requested: on one machine, the jobs of this process.
    pub async fn work_until(&self, stop: &CancellationToken) -> Result<(), Problem> {
        match self {
            Self::Local(local) => Ok(local.run_until(stop).await?),
            #[cfg(feature = "aws")]
            Self::Aws(_) => {
                stop.cancelled().await;
                Ok(())
            }
        }
    }

    /// Creates the job, or finds the one that the same request created. The document is a file of this machine or,
    /// for a stack, an address in S3.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only uploads can be cancelled"))]
    pub async fn accept(&self, request: Request, cancel: &CancellationToken) -> Result<Submitted, Problem> {
        let object = S3Address::of_document(&request.submission.file).map_err(Problem::Usage)?;
        match self {
            Self::Local(_) if object.is_some() => Err(Problem::Usage(
                "it is in S3, from where a stack reads documents: use --backend aws".into(),
            )),
            Self::Local(local) => {
                let name = request.submission.name.clone();
                submit(&local.app.intake, request.submission)
                    .await
                    .map_err(|error| without_name(&name, &error.to_string()))
            }
            #[cfg(feature = "aws")]
            Self::Aws(stack) => aws::accept(stack, request, object, cancel).await,
        }
    }

    /// Replaces addresses of many objects in S3 by those of the documents that they name. One without documents
    /// stays as it is.
    #[cfg_attr(not(feature = "aws"), expect(clippy::unused_async, reason = "only a stack reads from S3"))]
    pub async fn expand(&self, files: Vec<PathBuf>) -> Result<Vec<PathBuf>, Problem> {
        match self {
            Self::Local(_) => Ok(files),
            #[cfg(feature = "aws")]
            Self::Aws(stack) => aws::expand(stack, files).await,
        }
    }

    /// Waits for a job's end; on cancellation cancels the job if this command `created` it.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only a stack needs them"))]
    pub async fn finish(
        &self,
        id: &JobId,
        created: bool,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Job, Problem> {
        match self {
            Self::Local(local) => local::finish(local, id, cancel).await,
            #[cfg(feature = "aws")]
            Self::Aws(stack) => aws::finish(&stack.app, id, created, progress, cancel).await,
        }
    }

    /// Must be called before pages of an ended job are sent again: locally it makes this process
    /// their worker, and on AWS it separates the events to come from the earlier ones.
    pub async fn watch(&self, job: &Job) -> Result<Watch<'_>, Problem> {
        let poller = match self {
            Self::Local(local) => {
                local::claim(local, job).await?;
                None
            }
            #[cfg(feature = "aws")]
            Self::Aws(stack) => Some(EventPoller::after_existing(&stack.app, &job.id).await?),
        };
        Ok(Watch { job: job.id.clone(), poller })
    }

    /// Waits until the pages that were sent again are settled; a cancellation leaves them to the
    /// backend.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only a stack needs them"))]
    pub async fn settle(
        &self,
        watch: Watch<'_>,
        pages: &[PageNumber],
        limit: Duration,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<(), Problem> {
        let settled = async {
            match (self, watch.poller) {
                (Self::Local(local), _) => Ok(local.drain_within(&watch.job, limit).await?),
                #[cfg(feature = "aws")]
                (Self::Aws(stack), Some(poller)) => {
                    aws::settled(&stack.app, poller, pages, limit, progress).await
                }
                #[cfg(feature = "aws")]
                (Self::Aws(_), None) => Ok::<_, Problem>(true),
            }
        };
        let settled: Result<bool, Problem> = tokio::select! {
            settled = settled => settled,
            () = cancel.cancelled() => Ok(true),
        };
        match settled? {
            true => Ok(()),
            false => Err(Problem::Failed(format!(
                "pages of job {} were not settled within {}; they continue {}",
                watch.job,
                human::duration(limit),
                self.later()
            ))),
        }
    }

    /// Does a process or an execution drive the job, and so act on what was just decided on it?
    pub async fn is_driven(&self, id: &JobId) -> Result<bool, Problem> {
        match self {
            Self::Local(local) => Ok(local.driver_of(id).await?.is_some()),
            // Its execution does, or the sweep.
            #[cfg(feature = "aws")]
            Self::Aws(_) => Ok(true),
        }
    }

    /// Ends the job's time now, so that it is published with what is there.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "only a stack needs it"))]
    pub async fn publish_now(&self, id: &JobId, created: bool) -> Result<PublishNow, Problem> {
        // As with Ctrl-C, the job of another command is not this command's to end.
        let is_ours = match self {
            Self::Local(local) => local.driver_of(id).await? != Some(DrivenBy::AnotherProcess),
            #[cfg(feature = "aws")]
            Self::Aws(_) => created,
        };
        if !is_ours {
            return Ok(PublishNow::NotOurs);
        }
        let app = self.app();
        let job = end_now(&app.store, app.flow.as_ref(), &app.interrupts, id, "enter").await?;
        Ok(match job.survey {
            Some(_) => PublishNow::Ended,
            None => PublishNow::NotRead,
        })
    }

    /// Ends a cancelled job that no process drives.
    pub async fn end_cancelled(&self, job: Job) -> Result<Job, Problem> {
        if job.state.is_terminal() || self.is_driven(&job.id).await? {
            return Ok(job);
        }
        Ok(finalize(&self.app().finisher, &job.id, Cause::Cancelled).await?)
    }
}

/// The reason alone: messages about a document start with its name already.
fn without_name(name: &str, reason: &str) -> Problem {
    Problem::Failed(reason.strip_prefix(&format!("{name}: ")).unwrap_or(reason).to_owned())
}
