//! Drives jobs from step to step and pages through workers: what Step Functions and the event
//! source mapping do on AWS.
//!
//! The driver holds nothing that can't be found again: every step reads where the job stands and
//! goes on from there, so dropping it anywhere and starting another is always safe.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use everypage_core::{
    app::{App, Stop},
    domain::{
        ids::{JobId, PageNumber},
        job::{Failure, Halt, Job, PageRange, State},
        result::Cause,
    },
    ports::{
        Fault,
        clock::until,
        queue::{Delivery, Outgoing},
    },
    store::{jobs, pages},
    usecases::{
        StepError,
        dispatch::{Disposition, dispatch},
        fail::fail,
        finalize::finalize,
        heal, plan, prepare,
    },
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::{Instrument, Span, error, error_span, field::Empty, warn};

use crate::flow::LocalFlow;

/// How often a job is looked at for what another process did to it (a cancel, an approval).
const LOOK: Duration = Duration::from_secs(1);
/// How often workers look for messages that came back; new ones are announced.
const POLL: Duration = Duration::from_millis(250);
/// How often the list of settled pages is read again, in case an announcement was lost.
const RECOUNT: u32 = 15;
/// Messages of one send.
const SEND: usize = 100;
/// A job whose end can't even be written down is tried again after this, for ever.
const STORE_DOWN: Duration = Duration::from_secs(5);

pub struct Driver {
    app: Arc<App>,
    flow: Arc<LocalFlow>,
    parallel_ranges: usize,
    /// Wakes the workers: messages were sent.
    sent: tokio::sync::Notify,
}

impl Driver {
    pub fn new(app: Arc<App>, flow: Arc<LocalFlow>, parallel_ranges: usize) -> Self {
        Self { app, flow, parallel_ranges: parallel_ranges.max(1), sent: tokio::sync::Notify::new() }
    }

    /// Takes messages off the queue and works on as many at once as configured, for ever.
    pub async fn work(&self) {
        self.work_until(&Stop::default()).await;
    }

    /// The same until `stop` is asked for, and then until what is in hand is done.
    pub async fn work_until(&self, stop: &Stop) {
        let permits = Arc::new(Semaphore::new(self.app.settings.worker_concurrency));
        let mut workers = JoinSet::new();
        loop {
            while workers.try_join_next().is_some() {}
            let permit = tokio::select! {
                biased;
                () = stop.asked() => break,
                permit = permits.clone().acquire_owned() => permit,
            };
            let Ok(permit) = permit else { return };
            let free = 1 + permits.available_permits();
            let received = self.app.queue.receive(free, self.app.settings.page_visibility).await;
            let deliveries = received.unwrap_or_else(|fault| {
                warn!(%fault, "queue not read");
                vec![]
            });
            if deliveries.is_empty() {
                drop(permit);
                let app = &self.app;
                tokio::select! {
                    biased;
                    () = stop.asked() => break,
                    () = self.sent.notified() => {}
                    () = app.clock.sleep(POLL) => {}
                }
                continue;
            }
            let mut permit = Some(permit);
            for delivery in deliveries {
                // The first delivery has its permit; the others' were counted as free a moment ago.
                let permit = match permit.take() {
                    Some(permit) => permit,
                    None => match permits.clone().acquire_owned().await {
                        Ok(permit) => permit,
                        Err(_) => return,
                    },
                };
                let app = self.app.clone();
                // A panic in there is a bug, costs one delivery and nothing else: the message comes
                // back when its visibility has run out.
                workers.spawn(async move {
                    let disposition = dispatch(&app, &delivery).await;
                    // The next page need not wait until this one's message is off the queue.
                    drop(permit);
                    put_away(&app, &delivery, disposition).await;
                });
            }
        }
        while workers.join_next().await.is_some() {}
    }

    /// More messages are there than the workers have been told of.
    pub fn announce(&self) {
        self.sent.notify_one();
    }

    /// Brings one job to its end, whatever happens on the way. `None` for one that was deleted.
    pub async fn drive(&self, id: &JobId) -> Option<Job> {
        // Spans of the highest level are there whatever is logged, so that every line names its job.
        let span = error_span!("job", job = %id, tenant = Empty, correlation = Empty, trace = Empty);
        async {
            self.flow.watch(id);
            let job = loop {
                match unless_it_panics(self.drive_once(id)).await {
                    Ok(job) if job.state.is_terminal() => break Some(job),
                    Ok(_) => continue,
                    Err(error) if error.code() == "unknown_job" => break None,
                    Err(error) => {
                        let failure = Failure { code: error.code().to_owned(), reason: error.to_string() };
                        warn!(reason = failure.reason, "job failed");
                        match fail(&self.app, id, failure).await {
                            Ok(job) if job.state.is_terminal() => break Some(job),
                            // Published already, and only its audit is missing: that is tried again.
                            Ok(_) => self.app.clock.sleep(STORE_DOWN).await,
                            Err(error) => {
                                error!(%error, "the job's end could not be written down, trying again");
                                self.app.clock.sleep(STORE_DOWN).await;
                            }
                        }
                    }
                }
            };
            self.flow.unwatch(id);
            match job {
                Some(job) if job.halt.is_some() => Some(self.with_latecomers(job).await),
                job => job,
            }
        }
        .instrument(span)
        .await
    }

    /// A page may have been stored after finalize's last look and told while somebody still listened:
    /// whoever read it believes it is in the result. From now on they are told that nobody listens, and
    /// bring it in themselves.
    async fn with_latecomers(&self, job: Job) -> Job {
        match self.step(|| heal::publish(&self.app, &job.id)).await {
            Ok(healed) => healed,
            Err(error) => {
                warn!(%error, "late pages not looked for; heal brings them in");
                job
            }
        }
    }

    /// From where the job stands to its next stop: work done, deadline, or cancelled.
    async fn drive_once(&self, id: &JobId) -> Result<Job, StepError> {
        let job = jobs::load(&self.app, id).await?.value;
        Span::current()
            .record("tenant", job.received.tenant.as_str())
            .record("correlation", job.correlation_id.as_str())
            .record("trace", job.trace().trace_id());
        if job.state.is_terminal() {
            return Ok(job);
        }
        let cause = match job.halt {
            Some(Halt::Cancelled) => Cause::Cancelled,
            Some(Halt::Deadline) => Cause::Deadline,
            None if job.state == State::Executed => Cause::Settled,
            None => {
                let left = until(self.app.clock.now(), job.deadline);
                tokio::select! {
                    // Work that is done at the very deadline is done.
                    biased;
                    worked = self.work_through(&job) => match worked? {
                        Some(cause) => cause,
                        None => return Ok(jobs::load(&self.app, id).await?.value),
                    },
                    () = self.app.clock.sleep(left) => Cause::Deadline,
                    () = self.cancelled(id) => Cause::Cancelled,
                }
            }
        };
        // All text that there is has been stored: worth more than one try.
        self.step(|| finalize(&self.app, id, cause)).await
    }

    /// The steps of a job that nobody stops. `None` when somebody decided on it: it is to be looked at anew.
    async fn work_through(&self, job: &Job) -> Result<Option<Cause>, StepError> {
        let mut job = job.clone();
        loop {
            job = match job.state {
                State::Received | State::Acked => self.step(|| self.prepare(&job)).await?,
                State::Understood => self.step(|| plan::propose(&self.app, &job)).await?,
                // Whoever decided may have changed the deadline that all of this runs against.
                State::Proposed | State::Modified => {
                    self.decided(&job).await?;
                    return Ok(None);
                }
                State::Approved => {
                    self.step(|| self.read_pages(&job)).await?;
                    return Ok(Some(Cause::Settled));
                }
                State::Executed | State::Audited => return Ok(Some(Cause::Settled)),
                State::Rejected | State::Cancelled | State::Failed => return Ok(None),
            };
        }
    }

    /// A step that fails on our side is tried again after 1 s, 4 s and 16 s.
    async fn step<T, F: Future<Output = Result<T, StepError>>>(
        &self,
        step: impl Fn() -> F,
    ) -> Result<T, StepError> {
        for pause in &self.app.settings.retry_intervals {
            match step().await {
                Err(StepError::Fault(fault)) => {
                    warn!(%fault, "step failed, trying again");
                    self.app.clock.sleep(*pause).await;
                }
                done => return done,
            }
        }
        step().await
    }

    async fn prepare(&self, job: &Job) -> Result<Job, StepError> {
        let ranges = prepare::inspect(&self.app, job).await?;
        let texts: Vec<_> = ranges.iter().map(|range| prepare::read_range(&self.app, job, range)).collect();
        stream::iter(texts).buffer_unordered(self.parallel_ranges).try_collect::<()>().await?;
        let images: Vec<_> = ranges.iter().map(|range| self.images_of(job, range)).collect();
        stream::iter(images).buffer_unordered(self.parallel_ranges).collect::<()>().await;
        prepare::understand(&self.app, job).await
    }

    /// Every page has its text by now: images that can't be made cost the pages their images, not the
    /// document its end.
    async fn images_of(&self, job: &Job, range: &PageRange) {
        if let Err(error) = self.step(|| prepare::render_range(&self.app, job, range)).await {
            warn!(%error, "images not made");
        }
    }

    /// Waits for a person's word on the plan.
    async fn decided(&self, job: &Job) -> Result<(), StepError> {
        let changed = self.flow.watch(&job.id);
        loop {
            let now = jobs::load(&self.app, &job.id).await?.value;
            if now.state != State::Proposed {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = self.app.clock.sleep(LOOK) => {}
            }
        }
    }

    /// Sends every page that is not settled yet and waits until all are.
    async fn read_pages(&self, job: &Job) -> Result<(), StepError> {
        let Some(plan) = job.plan.as_ref().filter(|plan| plan.ai_pages > 0) else {
            return Ok(());
        };
        let changed = self.flow.watch(&job.id);
        let settled = self.settled(&job.id).await?;
        let mut waiting = HashSet::new();
        let mut outgoing = Vec::new();
        for mut message in plan::manifest(&self.app, plan).await? {
            if settled.contains(&message.page_id) {
                continue;
            }
            waiting.insert(message.page_id);
            message.task_token = Some(LocalFlow::token(&job.id, message.page_id));
            let name = format!("{}:a{}", message.idempotency_key, message.attempt);
            outgoing.push(Outgoing {
                name,
                job: job.id.clone(),
                lane: message.priority,
                body: message.encode(),
            });
        }
        for batch in outgoing.chunks(SEND) {
            self.app.queue.send(batch).await?;
            self.announce();
        }
        let mut looks = 0;
        while !waiting.is_empty() {
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = self.app.clock.sleep(LOOK) => looks += 1,
            }
            for page in self.flow.take_settled(&job.id) {
                waiting.remove(&page);
            }
            if looks >= RECOUNT {
                looks = 0;
                let settled = self.settled(&job.id).await?;
                waiting.retain(|page| !settled.contains(page));
            }
        }
        Ok(())
    }

    async fn settled(&self, job: &JobId) -> Result<HashSet<PageNumber>, Fault> {
        let all = pages::all(&self.app, job).await?;
        Ok(all.into_iter().filter(|(_, kept)| kept.value.outcome.is_some()).map(|(page, _)| page).collect())
    }

    /// Ends when somebody, here or in another process, asked for the job's end.
    async fn cancelled(&self, id: &JobId) {
        loop {
            tokio::select! {
                biased;
                () = self.app.interrupted(id) => {}
                () = self.app.clock.sleep(LOOK) => {}
            }
            match jobs::find(&self.app, id).await {
                Ok(Some(kept)) if kept.value.halt.is_some() => return,
                Ok(_) => {}
                Err(fault) => warn!(%fault, "job not read"),
            }
        }
    }
}

/// A panic is a defect of ours. It ends one job, for which somebody is told; nobody waits for it.
async fn unless_it_panics<T>(step: impl Future<Output = Result<T, StepError>>) -> Result<T, StepError> {
    AssertUnwindSafe(step).catch_unwind().await.unwrap_or_else(|_| {
        let reason = "a defect in Everypage stopped the job; the log says where".to_owned();
        Err(StepError::Broken { code: "defect", reason })
    })
}

/// What becomes of a message that was worked on.
async fn put_away(app: &App, delivery: &Delivery, disposition: Disposition) {
    let done = match disposition {
        Disposition::Done => app.queue.delete(&delivery.receipt).await,
        Disposition::Later(time) => app.queue.extend(&delivery.receipt, time).await,
    };
    if let Err(fault) = done {
        // It comes back; what was done is found again.
        warn!(%fault, message = delivery.id, "message not taken off the queue");
    }
}
