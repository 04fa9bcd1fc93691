//! The life cycle of a job: its states and the legal transitions.
//!
//! ```text
//! RECEIVED → ACKED → UNDERSTOOD → PROPOSED → APPROVED → EXECUTED → AUDITED
//!                                    │ ├→ MODIFIED → APPROVED
//!                                    │ └→ REJECTED
//!     any state before EXECUTED → CANCELLED       any open state → FAILED → (redriven) ACKED
//! ```
//!
//! A job is the fold of its events: [`Job::apply`] is used both when an event is stored and when the
//! trail is replayed, so the two can't differ.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Failure, Halt, JobEvent, Plan, Received, ResultRef, State, Status, Survey};
use crate::{
    digest::sha256,
    event::{Actor, Aggregate, Event, Head, Metadata, decode},
    ids::{CorrelationId, JobId, Priority},
    ports::flow::FlowStart,
    time::until,
    trace::TraceContext,
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error("a job in state {from} can't change to {to}")]
    Transition { from: State, to: State },
    #[error("{event} is not allowed for a job in state {from}")]
    Event { from: State, event: &'static str },
    #[error("the job's deadline has passed or it was cancelled: its plan can no longer be decided on")]
    TooLate,
    #[error("the first event of a job must be job.received")]
    NotReceived,
    #[error("the job already has a job.received event")]
    ReceivedTwice,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub state: State,
    #[serde(flatten)]
    pub received: Received,
    pub correlation_id: CorrelationId,
    pub received_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_at: Option<Timestamp>,
    /// Its place in line, while it waits for admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// When work on it started, if it waited before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_at: Option<Timestamp>,
    /// When the result is published, whether or not all pages were read. While it waits, a limit: unless its
    /// caller gave the deadline, its time runs from admission.
    pub deadline: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<Survey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Set when the workers have to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Credits reserved in the tenant's account.
    #[serde(default, skip_serializing_if = "super::event::is_zero")]
    pub reserved_credits: u32,
    #[serde(default)]
    pub redrives: u32,
    /// When its document, text and results were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_removed_at: Option<Timestamp>,
    pub head: Head,
}

impl Job {
    /// The job after `event`. An illegal event is an error.
    pub fn apply(
        job: Option<&Job>,
        id: &JobId,
        correlation: &CorrelationId,
        event: &JobEvent,
        at: Timestamp,
    ) -> Result<Job, Illegal> {
        let Some(job) = job else {
            let JobEvent::Received(received) = event else {
                return Err(Illegal::NotReceived);
            };
            return Ok(Job {
                id: id.clone(),
                state: State::Received,
                received: received.clone(),
                correlation_id: correlation.clone(),
                received_at: at,
                acked_at: None,
                place: None,
                admitted_at: None,
                deadline: Timestamp::MAX,
                finished_at: None,
                survey: None,
                plan: None,
                halt: None,
                result: None,
                failure: None,
                reserved_credits: 0,
                redrives: 0,
                content_removed_at: None,
                head: Head::default(),
            });
        };
        let mut next = job.clone();
        if let Some(to) = event.leads_to() {
            if to == State::Received {
                return Err(Illegal::ReceivedTwice);
            }
            if !job.state.may_become(to) {
                return Err(Illegal::Transition { from: job.state, to });
            }
            // `Acked` and `Redriven` both lead to ACKED: only `Redriven` may leave FAILED.
            let redriven = matches!(event, JobEvent::Redriven { .. });
            if to == State::Acked && redriven != (job.state == State::Failed) {
                return Err(Illegal::Transition { from: job.state, to });
            }
            if to == State::Understood && job.is_waiting() {
                return Err(Illegal::Event { from: job.state, event: "job.understood" });
            }
            next.state = to;
            next.place = None;
            if to.is_terminal() || to == State::Executed {
                next.finished_at.get_or_insert(at);
            }
            if to.is_terminal() {
                next.reserved_credits = 0;
            }
        }
        match event {
            JobEvent::Received(_) => {}
            JobEvent::Acked { deadline, place } => {
                next.acked_at = Some(at);
                next.deadline = *deadline;
                next.place = *place;
            }
            JobEvent::Admitted { deadline } => {
                if !job.is_waiting() || job.halt.is_some() {
                    return Err(Illegal::Event { from: job.state, event: "job.admitted" });
                }
                next.place = None;
                next.admitted_at = Some(at);
                next.deadline = *deadline;
            }
            JobEvent::Understood(survey) => next.survey = Some(survey.clone()),
            JobEvent::Proposed(plan) => next.plan = Some(plan.clone()),
            JobEvent::Modified { plan, deadline, .. } => {
                next.plan = Some(plan.clone());
                next.deadline = *deadline;
            }
            JobEvent::Approved { credits, .. } => next.reserved_credits = *credits,
            JobEvent::Audited { .. } => {}
            JobEvent::Rejected { by, reason } => {
                next.failure =
                    Some(Failure { code: "rejected".into(), reason: format!("{reason} (by {by})") });
            }
            JobEvent::DeadlineReached {} => next.set_halt(Halt::Deadline, "job.deadline_reached")?,
            JobEvent::DeadlineMoved { deadline, .. } => {
                if job.is_over() || job.halt.is_some() {
                    return Err(Illegal::Event { from: job.state, event: "job.deadline_moved" });
                }
                next.deadline = *deadline;
            }
            JobEvent::CancelRequested { .. } => next.set_halt(Halt::Cancelled, "job.cancel_requested")?,
            JobEvent::Executed(result) => next.result = Some(result.clone()),
            JobEvent::Cancelled { result } => next.result.clone_from(result),
            JobEvent::Failed(failure) => next.failure = Some(failure.clone()),
            JobEvent::Redriven { deadline, place, .. } => {
                if job.content_removed_at.is_some() {
                    return Err(Illegal::Event { from: job.state, event: "job.redriven" });
                }
                next.redrives += 1;
                next.deadline = *deadline;
                next.place = *place;
                next.admitted_at = None;
                next.failure = None;
                next.finished_at = None;
                next.halt = None;
                next.survey = None;
                next.plan = None;
            }
            JobEvent::Healed { result, .. } => {
                if !matches!(job.state, State::Executed | State::Audited | State::Cancelled) {
                    return Err(Illegal::Event { from: job.state, event: "job.healed" });
                }
                next.result = Some(result.clone());
            }
            JobEvent::ContentRemoved { .. } => {
                if !job.state.is_terminal() || job.content_removed_at.is_some() {
                    return Err(Illegal::Event { from: job.state, event: "job.content_removed" });
                }
                next.content_removed_at = Some(at);
            }
        }
        if let JobEvent::Modified { calls: Some(calls), .. } = event {
            next.received.options.set_calls(calls.clone());
        }
        Ok(next)
    }

    fn set_halt(&mut self, halt: Halt, event: &'static str) -> Result<(), Illegal> {
        if self.is_over() || self.halt.is_some() {
            return Err(Illegal::Event { from: self.state, event });
        }
        self.halt = Some(halt);
        Ok(())
    }

    /// Rebuilds a job from its trail alone.
    pub fn replay(events: &[Event]) -> Result<Option<Job>, String> {
        let mut job: Option<Job> = None;
        for event in events {
            let Aggregate::Job(id) = &event.aggregate else {
                return Err(format!("event {} belongs to {}", event.id, event.aggregate));
            };
            let typed: JobEvent = decode(event).map_err(|error| format!("event {}: {error}", event.id))?;
            let mut next = Job::apply(job.as_ref(), id, &event.correlation_id, &typed, event.timestamp)
                .map_err(|illegal| format!("event {}: {illegal}", event.id))?;
            next.head = Head::of(event);
            job = Some(next);
        }
        Ok(job)
    }

    pub fn status(&self) -> Status {
        match self.state {
            State::Received => Status::Queued,
            State::Acked if self.is_waiting() => Status::Queued,
            State::Acked => Status::Processing,
            State::Proposed if self.awaits_approval() => Status::AwaitingApproval,
            State::Understood | State::Proposed | State::Approved | State::Modified => Status::Processing,
            State::Executed | State::Audited => Status::Success,
            State::Rejected => Status::Rejected,
            State::Cancelled => Status::Cancelled,
            State::Failed => Status::Failed,
        }
    }

    pub fn awaits_approval(&self) -> bool {
        self.state == State::Proposed && self.plan.as_ref().is_some_and(|plan| plan.approval.is_some())
    }

    /// The plan's priority, which a person may have modified; before there is a plan, the requested one.
    pub fn priority(&self) -> Priority {
        self.plan.as_ref().and_then(|plan| plan.priority).unwrap_or(self.received.options.priority)
    }

    /// It is accepted, and there was no room for it yet.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Acked && self.place.is_some()
    }

    /// Work on it is going on, or about to. A plan that waits for a person needs no seat, and does without one
    /// once it is approved.
    pub fn needs_seat(&self) -> bool {
        !self.state.is_terminal() && !self.is_waiting() && !self.awaits_approval()
    }

    /// Its caller gave the deadline, which counts from acceptance. After a redrive it counts from admission.
    pub fn has_given_deadline(&self) -> bool {
        self.received.options.deadline_given && self.redrives == 0
    }

    /// Its deadline; `None` while it waits and its time has not started.
    pub fn known_deadline(&self) -> Option<Timestamp> {
        let has_started = !self.is_waiting() || self.has_given_deadline();
        self.acked_at.filter(|_| has_started).map(|_| self.deadline)
    }

    /// Its result is published, or it ended without one.
    pub fn is_over(&self) -> bool {
        self.state.is_terminal() || self.state == State::Executed
    }

    /// Late pages can still be added to its result. A cancelled job is not healed.
    pub fn is_healable(&self) -> bool {
        matches!(self.state, State::Executed | State::Audited)
            && self.result.is_some()
            && self.content_removed_at.is_none()
    }

    /// Workers must stop reading its pages: it is over, halted or past its deadline.
    pub fn is_halted(&self, now: Timestamp) -> bool {
        self.halt.is_some() || self.is_over() || now >= self.deadline
    }

    /// What its flow starts with.
    pub fn flow_start(&self) -> FlowStart {
        FlowStart {
            job: self.id.clone(),
            redrives: self.redrives,
            restarts: 0,
            state: self.state,
            deadline: self.deadline,
            ocr_at: self.ocr_at(),
            trace: self.trace(),
        }
    }

    /// When pages that no model has read by then are recognized on AWS: a quarter of the job's time before its
    /// deadline, two minutes at most.
    pub fn ocr_at(&self) -> Timestamp {
        const LONGEST: Duration = Duration::from_secs(120);
        let ahead = (until(self.run_started_at(), self.deadline) / 4).min(LONGEST);
        self.deadline.checked_sub(ahead).unwrap_or(self.deadline)
    }

    /// When the current run started: at admission. A job of a version without admission started when it was
    /// accepted, or redriven.
    pub fn run_started_at(&self) -> Timestamp {
        if let Some(at) = self.admitted_at {
            return at;
        }
        match self.redrives {
            0 => self.acked_at.unwrap_or(self.received_at),
            // The redrive set a new deadline.
            _ => self.deadline.saturating_sub(self.received.options.job_timeout()).unwrap_or(self.deadline),
        }
    }

    /// Its tenant pays a credit for each page that is read by AI.
    pub fn is_prepaid(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.prepaid)
    }

    /// The trace context of its span: in the caller's trace, or in a trace of its own.
    ///
    /// It is derived from the job, not random, so that every process computes the same one. The trace id
    /// starts with the time in seconds, as X-Ray requires.
    pub fn trace(&self) -> TraceContext {
        let digest =
            |text: String| u128::from_be_bytes(sha256(text.as_bytes())[..16].try_into().unwrap_or_default());
        let own = || {
            let seconds = u128::from(self.received_at.as_second().unsigned_abs() as u32);
            (seconds << 96) | (digest(format!("trace {}", self.id)) >> 32)
        };
        let caller = self.received.traceparent;
        TraceContext {
            trace: caller.map_or_else(own, |caller| caller.trace),
            span: (digest(format!("span {}/{}", self.id, self.redrives)) as u64).max(1),
            sampled: caller.is_none_or(|caller| caller.sampled),
        }
    }

    pub fn metadata(&self, actor: Actor, environment: &str) -> Metadata {
        let trace = self.trace();
        Metadata {
            user_id: self.received.user.clone(),
            tenant: self.received.tenant.clone(),
            source: actor.to_string(),
            environment: environment.to_owned(),
            trace_id: trace.trace_id(),
            span_id: trace.span_id(),
            priority: self.priority(),
        }
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
