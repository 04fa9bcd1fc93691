//! Drives jobs from step to step and pages through workers, as Step Functions and the event source
//! mapping do on AWS.
//!
//! The driver holds no state that is not stored: every step reads the job's state and continues
//! from there, so dropping the driver anywhere and starting another is always safe.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use everypage_core::{
    app::App,
    dead_letters::fail::fail,
    finish::{finalize::finalize, heal, result::Cause},
    ids::JobId,
    job::{Failure, Halt, Job, PageRange, State, StepCode, StepError, jobs},
    plan::propose,
    ports::queue::Delivery,
    prepare,
    read::{
        countdowns,
        dispatch::{Disposition, dispatch},
        send::{self, RangeGroup},
    },
    time::until,
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, error, error_span, field::Empty, warn};

use crate::{flow::LocalFlow, recognize::recognize_pages};

/// How often a job is polled for changes by another process (a cancel, an approval).
const JOB_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often workers poll for messages that became visible again; new ones wake them.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// After this many polls the countdown is read again: another process may have settled the last page.
const POLLS_PER_RECOUNT: u32 = 15;
/// Workers at least and at most, where their number follows the in-flight limits.
const MIN_WORKERS: usize = 4;
const MAX_WORKERS: usize = 600;
/// Pause before the end of a job that could not be stored is retried, without limit.
const STORE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

pub struct Driver {
    app: Arc<App>,
    flow: Arc<LocalFlow>,
    parallel_ranges: usize,
    /// Wakes the workers: messages were sent, or a page is done.
    sent: Arc<Notify>,
}

/// A page that is being read, counted for as long as it is.
struct Busy {
    pages: Arc<AtomicUsize>,
    wake: Arc<Notify>,
}

impl Busy {
    fn new(pages: &Arc<AtomicUsize>, wake: &Arc<Notify>) -> Self {
        pages.fetch_add(1, Ordering::Relaxed);
        Self { pages: pages.clone(), wake: wake.clone() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.pages.fetch_sub(1, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

impl Driver {
    pub fn new(app: Arc<App>, flow: Arc<LocalFlow>, parallel_ranges: usize) -> Self {
        Self { app, flow, parallel_ranges: parallel_ranges.max(1), sent: Arc::default() }
    }

    /// Receives messages and processes them in parallel, as many as the settings or the models allow; never
    /// returns.
    pub async fn work(&self) {
        self.work_until(&CancellationToken::new()).await;
    }

    /// Processes messages as [`Driver::work`] does until `stop` is signalled, then finishes those in
    /// progress and returns.
    pub async fn work_until(&self, stop: &CancellationToken) {
        let mut workers = JoinSet::new();
        // Pages that are being read; a worker whose page is done deletes its message while the next begins.
        let busy = Arc::new(AtomicUsize::new(0));
        while !stop.is_cancelled() {
            while workers.try_join_next().is_some() {}
            let free = self.concurrency().await.saturating_sub(busy.load(Ordering::Relaxed));
            let received = match free {
                0 => Ok(vec![]),
                free => self.app.queue.receive(free, self.app.settings.page_visibility).await,
            };
            let deliveries = received.unwrap_or_else(|fault| {
                warn!(%fault, "queue not read");
                vec![]
            });
            if deliveries.is_empty() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = self.sent.notified() => {}
                    () = self.app.store.clock.sleep(QUEUE_POLL_INTERVAL) => {}
                }
                continue;
            }
            for delivery in deliveries {
                let (app, done) = (self.app.clone(), Busy::new(&busy, &self.sent));
                // A panic in this task is a bug. It costs one delivery: the message becomes visible
                // again when its visibility timeout expires.
                workers.spawn(async move {
                    let disposition = dispatch(&app.reader, &delivery).await;
                    drop(done);
                    acknowledge(&app, &delivery, disposition).await;
                });
            }
        }
        while workers.join_next().await.is_some() {}
    }

    /// Pages that may be processed in parallel: as many as the settings say, else as many calls as may be in
    /// flight to all models together.
    async fn concurrency(&self) -> usize {
        match self.app.settings.worker_concurrency {
            Some(workers) => workers,
            // One request for all models, once a second.
            None => self.app.reader.max_calls().await.clamp(MIN_WORKERS, MAX_WORKERS),
        }
    }

    /// Makes the workers poll the queue now, because messages were sent.
    pub fn wake_workers(&self) {
        self.sent.notify_one();
    }

    /// Drives one job to its end, also through failures of its steps. `None` for a deleted job.
    pub async fn drive(&self, id: &JobId) -> Option<Job> {
        // Spans of the highest level exist at every log level, so that each line names its job.
        let span = error_span!("job", job = %id, tenant = Empty, correlation = Empty, trace = Empty);
        async {
            self.flow.watch(id);
            let job = loop {
                match catch_panic(self.drive_once(id)).await {
                    Ok(job) if job.state.is_terminal() => break Some(job),
                    Ok(_) => continue,
                    Err(StepError::Broken { code: StepCode::UnknownJob, .. }) => break None,
                    Err(error) => {
                        let failure = Failure { code: error.code().to_owned(), reason: error.to_string() };
                        warn!(reason = failure.reason, "job failed");
                        match fail(&self.app.dead_letters, id, failure).await {
                            Ok(job) if job.state.is_terminal() => break Some(job),
                            // Published already, and only its audit is missing: that is retried.
                            Ok(_) => self.app.store.clock.sleep(STORE_RETRY_INTERVAL).await,
                            Err(error) => {
                                error!(%error, "end of the job not stored, retrying");
                                self.app.store.clock.sleep(STORE_RETRY_INTERVAL).await;
                            }
                        }
                    }
                }
            };
            self.flow.unwatch(id);
            match job {
                Some(job) if job.halt.is_some() => Some(self.heal_late_pages(job).await),
                job => job,
            }
        }
        .instrument(span)
        .await
    }

    /// Heals the result with pages that settled after finalize had listed them and before the result was
    /// published: their workers saw an open job and do not heal it. Workers that settle a page later do.
    async fn heal_late_pages(&self, job: Job) -> Job {
        match self.step(|| heal::publish(&self.app.finisher, &job.id)).await {
            Ok(healed) => healed,
            Err(error) => {
                warn!(%error, "late pages not published; the next heal includes them");
                job
            }
        }
    }

    /// Drives the job from its stored state until its work is done, its deadline passes or it is cancelled.
    async fn drive_once(&self, id: &JobId) -> Result<Job, StepError> {
        let job = jobs::load(&self.app.store, id).await?.value;
        Span::current()
            .record("tenant", job.received.tenant.as_str())
            .record("correlation", job.correlation_id.as_str())
            .record("trace", job.trace().trace_id());
        if job.state.is_terminal() {
            return Ok(job);
        }
        if job.is_waiting() {
            return self.wait_for_admission(id).await;
        }
        let cause = match job.halt {
            Some(Halt::Cancelled) => Cause::Cancelled,
            Some(Halt::Deadline) => Cause::Deadline,
            None if job.state == State::Executed => Cause::Settled,
            None => {
                let left = until(self.app.store.clock.now(), job.deadline);
                tokio::select! {
                    // Work that completes exactly at the deadline counts as completed.
                    biased;
                    worked = self.run_steps(&job) => match worked? {
                        Some(cause) => cause,
                        None => return Ok(jobs::load(&self.app.store, id).await?.value),
                    },
                    () = self.app.store.clock.sleep(left) => Cause::Deadline,
                    () = self.cancelled(id) => Cause::Cancelled,
                }
            }
        };
        // All text is stored by now: a fault of the store must not lose it, so this is retried.
        self.step(|| finalize(&self.app.finisher, id, cause)).await
    }

    /// Runs the steps of a job until its pages are settled. `None` when a person decided on the plan:
    /// the job must be loaded again.
    async fn run_steps(&self, job: &Job) -> Result<Option<Cause>, StepError> {
        let mut job = job.clone();
        loop {
            job = match job.state {
                State::Received | State::Acked => self.step(|| self.prepare(&job)).await?,
                State::Understood => self.step(|| propose::propose(&self.app.planner, &job)).await?,
                // The decision may have changed the deadline that the caller waits for.
                State::Proposed | State::Modified => {
                    self.wait_for_decision(&job).await?;
                    return Ok(None);
                }
                State::Approved => {
                    self.read_and_recognize(&job).await?;
                    return Ok(Some(Cause::Settled));
                }
                State::Executed | State::Audited => return Ok(Some(Cause::Settled)),
                State::Rejected | State::Cancelled | State::Failed => return Ok(None),
            };
        }
    }

    /// Runs a step and retries it after each of `retry_intervals` when it ends with a fault.
    async fn step<T, F: Future<Output = Result<T, StepError>>>(
        &self,
        step: impl Fn() -> F,
    ) -> Result<T, StepError> {
        for pause in &self.app.settings.retry_intervals {
            match step().await {
                Err(StepError::Fault(fault)) => {
                    warn!(%fault, "step failed, retrying");
                    self.app.store.clock.sleep(*pause).await;
                }
                done => return done,
            }
        }
        step().await
    }

    async fn prepare(&self, job: &Job) -> Result<Job, StepError> {
        let ranges = prepare::inspect(&self.app.preparer, job).await?;
        let texts: Vec<_> =
            ranges.iter().map(|range| prepare::read_range(&self.app.preparer, job, range)).collect();
        stream::iter(texts).buffer_unordered(self.parallel_ranges).try_collect::<()>().await?;
        let images: Vec<_> = ranges.iter().map(|range| self.render_images(job, range)).collect();
        stream::iter(images).buffer_unordered(self.parallel_ranges).collect::<()>().await;
        prepare::understand(&self.app.preparer, job).await
    }

    /// Renders the images of a range. A failure leaves its pages without images and does not fail the
    /// job, because every page has its text by now.
    async fn render_images(&self, job: &Job, range: &PageRange) {
        if let Err(error) = self.step(|| prepare::render_range(&self.app.preparer, job, range)).await {
            warn!(%error, "images not rendered");
        }
    }

    /// Waits until the job is admitted, or cancelled: it was redriven while it was still driven here.
    async fn wait_for_admission(&self, id: &JobId) -> Result<Job, StepError> {
        loop {
            let job = jobs::load(&self.app.store, id).await?.value;
            if !job.is_waiting() {
                return Ok(job);
            }
            self.app.store.clock.sleep(JOB_POLL_INTERVAL).await;
        }
    }

    /// Waits for a person's decision on the plan.
    async fn wait_for_decision(&self, job: &Job) -> Result<(), StepError> {
        let changed = self.flow.watch(&job.id);
        loop {
            let now = jobs::load(&self.app.store, &job.id).await?.value;
            if now.state != State::Proposed {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = self.app.store.clock.sleep(JOB_POLL_INTERVAL) => {}
            }
        }
    }

    /// Reads the pages that go to AI, and meanwhile recognizes those without a text layer. The AI is not delayed:
    /// OCR runs at the lowest priority, and what it has not done when the AI has is done then, until the deadline.
    async fn read_and_recognize(&self, job: &Job) -> Result<(), StepError> {
        let ai_is_done = CancellationToken::new();
        let read = async {
            self.step(|| self.read_pages(job)).await?;
            ai_is_done.cancel();
            Ok(())
        };
        let recognized = async {
            recognize_pages(&self.app, job, &ai_is_done).await;
            Ok(())
        };
        futures::try_join!(read, recognized).map(|((), ())| ())
    }

    /// Sends every page that is not settled yet and waits until all are settled.
    async fn read_pages(&self, job: &Job) -> Result<(), StepError> {
        let changed = self.flow.watch(&job.id);
        let groups = send::start(&self.app.reader, job).await?;
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return Ok(()) };
        // One after the other: on one machine there is nothing to gain from sending them concurrently.
        send::send(&self.app.reader, job, RangeGroup { first: first.first, last: last.last }).await?;
        self.wake_workers();
        let mut polls = 0;
        // Read once before it waits, because the last page may have been settled before.
        while !countdowns::is_complete(&self.app.store, job).await? {
            while !self.flow.take_settled(&job.id) && polls < POLLS_PER_RECOUNT {
                tokio::select! {
                    biased;
                    () = changed.notified() => {}
                    () = self.app.store.clock.sleep(JOB_POLL_INTERVAL) => polls += 1,
                }
            }
            polls = 0;
        }
        Ok(())
    }

    /// Returns when the job's cancellation was requested, in this process or another.
    async fn cancelled(&self, id: &JobId) {
        loop {
            tokio::select! {
                biased;
                () = self.app.interrupts.interrupted(id) => {}
                () = self.app.store.clock.sleep(JOB_POLL_INTERVAL) => {}
            }
            match jobs::find(&self.app.store, id).await {
                Ok(Some(record)) if record.value.halt.is_some() => return,
                Ok(_) => {}
                Err(fault) => warn!(%fault, "job not read"),
            }
        }
    }
}

/// Turns a panic, which is a bug, into the failure of one job, with its notice to the responsible
/// person; otherwise the job would stay open.
async fn catch_panic<T>(step: impl Future<Output = Result<T, StepError>>) -> Result<T, StepError> {
    AssertUnwindSafe(step).catch_unwind().await.unwrap_or_else(|_| {
        let reason = "internal error: a bug in Everypage stopped the job; the log shows where".to_owned();
        Err(StepError::Broken { code: StepCode::Defect, reason })
    })
}

/// Deletes a processed message or delays its next delivery, according to `disposition`.
async fn acknowledge(app: &App, delivery: &Delivery, disposition: Disposition) {
    let done = match disposition {
        Disposition::Done => app.queue.delete(&delivery.receipt).await,
        Disposition::Later(time) => app.queue.put_back(&delivery.receipt, time).await,
    };
    if let Err(fault) = done {
        // It is delivered again, and its worker finds the stored outcome.
        warn!(%fault, message = delivery.id, "message not acknowledged");
    }
}
