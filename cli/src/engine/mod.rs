//! Where jobs live and who works on them: this machine, or a stack on AWS.
//!
//! Commands are the same for both. What they do differently is behind [`Engine`].

mod aws;
mod follow;
mod local;

use std::{sync::Arc, time::Duration};

use everypage_aws::Stack;
use everypage_core::{
    app::App,
    domain::{
        ids::{JobId, PageNumber},
        job::Job,
        result::Cause,
    },
    store::nodes,
    usecases::{
        finalize::finalize,
        intake::{Submission, Submitted, submit},
        relay,
        wishes::Wishes,
    },
};

use self::follow::Follow;
use crate::{
    human,
    problem::Problem,
    progress::Progress,
    screen::Screen,
    settings::{Address, Context, connect, open_engine},
    stop::Stop,
};

#[derive(Clone)]
pub enum Engine {
    Local(Arc<everypage_local::LocalBackend>),
    Aws(Arc<Stack>),
}

/// A document for whichever engine there is.
pub struct Request {
    pub submission: Submission,
    /// What was asked for: a stack lays it over its own settings, not over ours.
    pub wishes: Wishes,
}

/// A look at a job from before its pages are sent once more.
pub struct Watch<'a> {
    job: JobId,
    /// Where nobody tells us what happens.
    follow: Option<Follow<'a>>,
}

impl Engine {
    pub async fn open(context: &Context) -> Result<Self, Problem> {
        let (settings, traces) = (context.settings()?, context.traces.clone());
        Ok(match &context.address {
            Address::Local => Self::Local(Arc::new(open_engine(settings, context.data()?, traces).await?)),
            Address::Aws(stack) => Self::Aws(Arc::new(connect(settings, stack, traces).await?)),
        })
    }

    pub fn app(&self) -> &Arc<App> {
        match self {
            Self::Local(engine) => &engine.app,
            Self::Aws(stack) => &stack.app,
        }
    }

    /// Where work goes on that a command leaves.
    pub fn later(&self) -> &'static str {
        match self {
            Self::Local(_) => "at the next start",
            Self::Aws(_) => "in the stack",
        }
    }

    /// Called before a command stores events: a stack's sweep then knows of this process, and publishes
    /// what it leaves.
    pub async fn enlist(&self) -> Result<(), Problem> {
        match self {
            Self::Local(engine) => engine.register()?,
            Self::Aws(stack) => nodes::seen(&stack.app).await?,
        }
        Ok(())
    }

    /// Publishes the events that a command stored.
    pub async fn flush(&self) -> Result<(), Problem> {
        match self {
            Self::Local(engine) => engine.flush().await?,
            Self::Aws(stack) if !stack.app.outbox.is_empty() => {
                self.enlist().await?;
                relay::relay_own(&stack.app).await?;
            }
            Self::Aws(_) => {}
        }
        Ok(())
    }

    pub fn progress(&self, context: &Context) -> Progress {
        match self {
            Self::Local(engine) => Progress::follow(&engine.bus, context),
            Self::Aws(_) => Progress::told(context),
        }
    }

    /// Does a command's work while the engine does its own.
    pub async fn beside<T>(
        &self,
        screen: &Screen,
        progress: &Progress,
        stop: &Stop,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        match self {
            Self::Local(engine) => local::beside(engine, screen, progress, stop, work).await,
            Self::Aws(_) => {
                let done = work.await;
                self.flush().await?;
                progress.end().await;
                done
            }
        }
    }

    /// Makes the job, or finds the one that the same request made.
    pub async fn accept(&self, request: Request, stop: &Stop) -> Result<Submitted, Problem> {
        match self {
            Self::Local(engine) => {
                let name = request.submission.name.clone();
                submit(&engine.app, request.submission)
                    .await
                    .map_err(|error| about(&name, &error.to_string()))
            }
            Self::Aws(stack) => aws::accept(&stack.app, request, stop).await,
        }
    }

    /// Waits for a job's end; asks for it when a stop is requested and the job is `ours`.
    pub async fn finish(
        &self,
        id: &JobId,
        ours: bool,
        progress: &Progress,
        stop: &Stop,
    ) -> Result<Job, Problem> {
        match self {
            Self::Local(engine) => local::finish(engine, id, stop).await,
            Self::Aws(stack) => aws::finish(&stack.app, id, ours, progress, stop).await,
        }
    }

    /// To be called before pages of an ended job are sent once more: somebody must take them, and
    /// what becomes of them must be told from what was before.
    pub async fn watch(&self, job: &Job) -> Result<Watch<'_>, Problem> {
        let follow = match self {
            Self::Local(engine) => {
                local::take_on(engine, job).await?;
                None
            }
            Self::Aws(stack) => Some(Follow::from_now_on(&stack.app, &job.id).await?),
        };
        Ok(Watch { job: job.id.clone(), follow })
    }

    /// Waits until pages that were sent once more are settled; a stop leaves them to the engine.
    pub async fn settle(
        &self,
        watch: Watch<'_>,
        pages: &[PageNumber],
        limit: Duration,
        progress: &Progress,
        stop: &Stop,
    ) -> Result<(), Problem> {
        let settled = async {
            match (self, watch.follow) {
                (Self::Local(engine), _) => Ok(engine.drain_within(&watch.job, limit).await?),
                (Self::Aws(stack), Some(follow)) => {
                    aws::settled(&stack.app, follow, pages, limit, progress).await
                }
                (Self::Aws(_), None) => Ok(true),
            }
        };
        let settled = tokio::select! {
            settled = settled => settled?,
            () = stop.requested() => true,
        };
        match settled {
            true => Ok(()),
            false => Err(Problem::Failed(format!(
                "pages of job {} were not settled within {}; they go on {}",
                watch.job,
                human::duration(limit),
                self.later()
            ))),
        }
    }

    /// Will somebody notice what was just decided on the job?
    pub async fn is_driven(&self, id: &JobId) -> Result<bool, Problem> {
        match self {
            Self::Local(engine) => Ok(engine.driver_of(id).await?.is_some()),
            // Its execution does, or the sweep.
            Self::Aws(_) => Ok(true),
        }
    }

    /// The end of a cancelled job, where nobody else writes it.
    pub async fn end_cancelled(&self, job: Job) -> Result<Job, Problem> {
        if job.state.is_terminal() || self.is_driven(&job.id).await? {
            return Ok(job);
        }
        Ok(finalize(self.app(), &job.id, Cause::Cancelled).await?)
    }
}

/// What is wrong with a document, without its name: that is said already.
fn about(name: &str, reason: &str) -> Problem {
    Problem::Failed(reason.strip_prefix(&format!("{name}: ")).unwrap_or(reason).to_owned())
}
