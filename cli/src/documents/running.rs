//! The jobs of one command that have not ended: their progress, and publishing them now.

use std::time::Duration;

use everypage_core::{finish::provisional::count_pages, ids::JobId, job::jobs};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use crate::{
    backend::{Backend, PublishNow},
    page_counts::JobPages,
    problem::Problem,
    progress::Progress,
    screen::Screen,
};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Each poll reads the record of every page, so large documents are polled less often: a second apart for
/// each of these.
const PAGES_PER_SECOND: usize = 500;

#[derive(Clone)]
struct RunningJob {
    id: JobId,
    name: String,
    /// Whether this command created the job.
    created: bool,
}

#[derive(Default)]
pub struct Running(Mutex<Vec<RunningJob>>);

impl Running {
    fn jobs(&self) -> MutexGuard<'_, Vec<RunningJob>> {
        self.0.lock()
    }

    pub fn add(&self, id: &JobId, name: &str, created: bool) {
        self.jobs().push(RunningJob { id: id.clone(), name: name.to_owned(), created });
    }

    pub fn remove(&self, id: &JobId) {
        self.jobs().retain(|job| job.id != *id);
    }

    /// Shows how far the pages of the jobs are; never returns.
    pub async fn watch(&self, backend: &Backend, progress: &Progress) {
        let app = backend.app();
        loop {
            let running = self.jobs().clone();
            let mut total = 0;
            for job in running {
                // A poll that fails shows nothing new; the work itself reports what is wrong.
                if let Ok(Some(pages)) = pages(backend, &job.id).await {
                    total += pages.total;
                    progress.count(&job.id, pages, app.store.clock.now());
                }
            }
            let pause = Duration::from_secs((total / PAGES_PER_SECOND) as u64);
            app.store.clock.sleep(POLL_INTERVAL.max(pause)).await;
        }
    }

    /// Publishes the jobs with what is read by then whenever the user asks for it; never returns.
    pub async fn publish_when_asked(
        &self,
        backend: &Backend,
        screen: &Screen,
        mut asked: mpsc::Receiver<()>,
    ) {
        while asked.recv().await.is_some() {
            let running = self.jobs().clone();
            for RunningJob { id, name, created } in running {
                match backend.publish_now(&id, created).await {
                    Ok(PublishNow::Ended) => screen.note(&format!("{name}: publishing the result now")),
                    Ok(PublishNow::NotRead) => {
                        screen.note(&format!("{name}: nothing to publish yet, the PDF is being read"));
                    }
                    Ok(PublishNow::NotOurs) => screen.note(&format!(
                        "{name}: another process works on job {id}; `jobs result {id} --provisional` prints \
                         what is there"
                    )),
                    Err(problem) => screen.warn(&format!("{name}: not ended: {problem}")),
                }
            }
        }
        std::future::pending().await
    }
}

async fn pages(backend: &Backend, id: &JobId) -> Result<Option<JobPages>, Problem> {
    let store = &backend.app().store;
    let job = jobs::load(store, id).await?.value;
    if job.survey.is_none() {
        return Ok(None);
    }
    Ok(JobPages::new(&job, count_pages(store, &job).await?))
}
