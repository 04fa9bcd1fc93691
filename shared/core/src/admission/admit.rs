//! Admits documents: gives them seats while there are free ones, and starts their flows.
//!
//! An admission is one transaction: the event, the job, its seat, and the turn. The turn was read before the seats
//! were counted, so of two processes that count at the same time only one writes, and no more seats are taken than
//! there are. A document that is due is admitted out of turn, whatever the room.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use tracing::warn;

use crate::{
    admission::{
        Admission,
        decide::{Turn, Waiting, due_at},
        line, seats,
    },
    event::Actor,
    ids::JobId,
    job::{
        Job, JobEvent,
        jobs::{self, JobError},
    },
    ports::{Fault, records::Change},
    records::Versioned,
    time::after,
};

/// Jobs that are read from the head of the line, or found due, at a time.
const BATCH: usize = 32;
/// How often another process may be first, before the line is left to it.
const MAX_REFUSED: u32 = 20;
/// How often a long-lived process looks after the line. What accepts or ends a document admits at once; this
/// is for jobs that are due, and for what a process that died has left.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After this many looks, it also looks for seats that were not given back.
const LOOKS_PER_RECOVERY: u32 = 15;

/// What became of one job that was to be admitted.
enum Seating {
    Seated(Box<Job>),
    /// It does not wait any more.
    Gone,
    /// Another process changed the job, its group of seats or the turn.
    Refused,
}

impl Admission {
    /// Admits documents while there is room, in turn, and starts their flows; returns them. `newcomer` is a job
    /// that just came into line: the index may not list it yet.
    pub async fn admit(&self, newcomer: Option<&Job>) -> Result<Vec<Job>, Fault> {
        if !self.settings.run_dispatcher {
            // It drives no jobs: their time would run without any work on them.
            return Ok(vec![]);
        }
        let _one_at_a_time = self.turn.lock().await;
        let mut admitted = Vec::new();
        let all = self.admit_all(newcomer, &mut admitted).await;
        // Also after a fault: they have their seats.
        join_all(admitted.iter().map(|job| self.start(job))).await;
        all.map(|()| admitted)
    }

    /// What a flow that could not be started misses is done by the sweep, and on one machine by the next look for
    /// jobs without a driver.
    async fn start(&self, job: &Job) {
        if let Err(fault) = self.flow.start(&job.flow_start()).await {
            warn!(%fault, job = %job.id, "flow not started yet");
        }
    }

    async fn admit_all(&self, newcomer: Option<&Job>, admitted: &mut Vec<Job>) -> Result<(), Fault> {
        // Jobs that wait no more: the index may still list them.
        let mut gone = BTreeSet::new();
        let mut refused = 0;
        while refused < MAX_REFUSED {
            let before = gone.len();
            let due = self.admit_due(newcomer, &mut gone, admitted).await?;
            let in_turn = self.admit_in_turn(newcomer, &mut gone, admitted).await?;
            if due.is_none() || in_turn.is_none() {
                refused += 1;
            } else if gone.len() == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Admits who is due. `None` when another process came in between.
    async fn admit_due(
        &self,
        newcomer: Option<&Job>,
        gone: &mut BTreeSet<JobId>,
        admitted: &mut Vec<Job>,
    ) -> Result<Option<()>, Fault> {
        let now = self.store.clock.now();
        let mut due = line::due(&self.store, now, BATCH).await?;
        due.extend(newcomer.filter(|job| is_due(job, now)).map(|job| job.id.clone()));
        due.retain(|job| !gone.contains(job));
        if due.is_empty() {
            return Ok(Some(()));
        }
        let mut groups = seats::all(&self.store).await?;
        for job in due {
            match self.seat(&job, &mut groups, None).await? {
                Seating::Seated(job) => {
                    gone.insert(job.id.clone());
                    admitted.push(*job);
                }
                Seating::Gone => {
                    // It was cancelled.
                    if let Some(change) = line::not_due(&self.store, &job).await? {
                        self.store.write(vec![change]).await?;
                    }
                    gone.insert(job);
                }
                Seating::Refused => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    /// Admits from the head of the line while seats are free. `None` when another process came in between.
    async fn admit_in_turn(
        &self,
        newcomer: Option<&Job>,
        gone: &mut BTreeSet<JobId>,
        admitted: &mut Vec<Job>,
    ) -> Result<Option<()>, Fault> {
        let limit = self.settings.max_open_jobs();
        let mut turn = line::turn(&self.store).await?;
        let mut groups = seats::all(&self.store).await?;
        if seats::taken(&groups) >= limit {
            return Ok(Some(()));
        }
        let mut waiting = line::heads(&self.store, BATCH).await?;
        if let Some(newcomer) = newcomer.and_then(Waiting::of)
            && waiting.iter().all(|one| one.job != newcomer.job)
        {
            waiting.push(newcomer);
        }
        waiting.retain(|one| !gone.contains(&one.job));
        // No more than were read: behind them may be others of the same level.
        for _ in 0..BATCH {
            let Some(next) = turn.value.next(&waiting).filter(|_| seats::taken(&groups) < limit).cloned()
            else {
                break;
            };
            let after = turn.value.after(&next, &waiting);
            let seating = self.seat(&next.job, &mut groups, Some((turn.version, &after))).await?;
            match seating {
                Seating::Seated(job) => {
                    turn = Versioned { value: after, version: turn.version + 1 };
                    admitted.push(*job);
                }
                Seating::Gone => {}
                Seating::Refused => return Ok(None),
            }
            waiting.retain(|one| one.job != next.job);
            gone.insert(next.job);
        }
        Ok(Some(()))
    }

    async fn seat(
        &self,
        id: &JobId,
        groups: &mut Vec<Versioned<seats::Group>>,
        turn: Option<(u64, &Turn)>,
    ) -> Result<Seating, Fault> {
        let Some(job) = jobs::find(&self.store, id).await? else { return Ok(Seating::Gone) };
        if !job.value.is_waiting() || job.value.halt.is_some() {
            return Ok(Seating::Gone);
        }
        let (seated, change) = seats::seated(groups, id)?;
        let mut more: Vec<Change> = vec![change];
        if let Some((version, turn)) = turn {
            more.push(line::put_turn(version, turn)?);
        }
        more.extend(line::not_due(&self.store, id).await?);
        let event = JobEvent::Admitted { deadline: deadline(&job.value, self.store.clock.now()) };
        let stored = jobs::advance_once(&self.store, Actor::Intake, &job, &[event], more).await;
        match stored.map_err(fault)? {
            Some(job) => {
                *groups = seated;
                Ok(Seating::Seated(Box::new(job.value)))
            }
            None => Ok(Seating::Refused),
        }
    }

    /// Gives back the seat of a job that needs it no longer, and admits who is next. What fails here is left to
    /// [`Admission::recover`]: the job has ended all the same.
    pub async fn leave(&self, job: &JobId) {
        let left = async {
            // A late repetition, after the job was redriven and admitted again, must not take its new seat.
            if jobs::find(&self.store, job).await?.is_some_and(|found| found.value.needs_seat()) {
                return Ok(());
            }
            if seats::free(&self.store, &BTreeSet::from([job.clone()])).await? > 0 {
                self.admit(None).await?;
            }
            Ok::<_, Fault>(())
        };
        if let Err(fault) = left.await {
            warn!(%fault, %job, "seat not given back yet");
        }
    }

    /// Frees the seats of jobs that have ended, whose process died before it gave them back, and admits who is
    /// next. Returns how many were admitted.
    pub async fn recover(&self) -> Result<usize, Fault> {
        let groups = seats::all(&self.store).await?;
        let seated: Vec<JobId> = groups.into_iter().flat_map(|group| group.value.jobs).collect();
        let mut left: BTreeSet<JobId> = seated.iter().cloned().collect();
        for some in seated.chunks(100) {
            for job in jobs::find_many(&self.store, some.iter().cloned()).await? {
                if job.needs_seat() {
                    left.remove(&job.id);
                }
            }
        }
        if !left.is_empty() {
            warn!(jobs = left.len(), "seats of jobs that need none any more are freed");
            seats::free(&self.store, &left).await?;
        }
        Ok(self.admit(None).await?.len())
    }

    /// Looks after the line, for a process that lives long; never returns.
    pub async fn run(&self) -> Infallible {
        let mut looks = 0;
        loop {
            self.store.clock.sleep(LOOK_INTERVAL).await;
            looks += 1;
            let looked = match looks % LOOKS_PER_RECOVERY {
                0 => self.recover().await.map(drop),
                _ => self.admit(None).await.map(drop),
            };
            if let Err(fault) = looked {
                warn!(%fault, "waiting jobs not admitted yet");
            }
        }
    }
}

fn is_due(job: &Job, now: Timestamp) -> bool {
    due_at(job).is_some_and(|at| at <= now)
}

/// The deadline of a job that is admitted now.
fn deadline(job: &Job, now: Timestamp) -> Timestamp {
    if job.has_given_deadline() { job.deadline } else { after(now, job.received.options.job_timeout()) }
}

fn fault(error: JobError) -> Fault {
    match error {
        JobError::Fault(fault) => fault,
        error => Fault::broken("admission", error),
    }
}
