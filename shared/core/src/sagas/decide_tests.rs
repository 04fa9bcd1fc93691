//! The decisions on a saga of three steps, of which the last can't be undone. What a purchase needs of them
//! is tested with it, in `billing/purchase_tests.rs`.

use serde::{Deserialize, Serialize};

use super::*;
use crate::sagas::definition::{Definition, Forward, StepSpec};

/// Packs a parcel, hands it to a carrier, and deletes the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Pack,
    Ship,
    Delete,
}

impl SagaStep for Step {
    fn definition() -> &'static Definition<Self> {
        static PARCEL: Definition<Step> = Definition {
            kind: "parcel",
            noun: "a parcel",
            steps: &[
                StepSpec { step: Step::Pack, undone: Some("unpacked"), is_kept: false, is_external: false },
                StepSpec { step: Step::Ship, undone: Some("returned"), is_kept: true, is_external: true },
                StepSpec { step: Step::Delete, undone: None, is_kept: false, is_external: false },
            ],
            step_timeout: Duration::from_secs(10),
            forward: Forward { max_tries: 4, pause: Duration::from_secs(100) },
            kept: "the parcel is on its way",
        };
        &PARCEL
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Ship => "ship",
            Self::Delete => "delete",
        }
    }
}

const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

/// A saga at a point in time.
struct Run {
    progress: Progress<Step>,
    now: Timestamp,
}

impl Run {
    fn new(strategy: Strategy) -> Self {
        Self { progress: Progress::new(strategy, at(0)), now: at(0) }
    }

    fn record(&mut self, events: Vec<SagaEvent<Step>>) {
        for event in events {
            self.progress.apply(&event, self.now);
        }
    }

    /// Starts the next task, when it is due.
    fn start(&mut self) -> Task<Step> {
        self.now = self.progress.due;
        let task = self.progress.next_task().unwrap();
        self.record(vec![self.progress.start(task, self.now)]);
        task
    }

    fn run(&mut self, step: Step) {
        assert_eq!(self.start(), Task::Run(step));
        self.record(self.progress.step_done(step));
    }

    fn fail(&mut self, step: Step, failure: StepFailure) {
        assert_eq!(self.start(), Task::Run(step));
        self.record(self.progress.step_failed(step, failure, self.now, &PAUSES));
    }

    fn undo(&mut self, step: Step) {
        assert_eq!(self.start(), Task::Undo(step));
        self.record(vec![SagaEvent::UndoDone { step }]);
    }

    fn end(&mut self) -> State {
        assert_eq!(self.progress.next_task(), None);
        let end = self.progress.end_compensation();
        self.record(end.into_iter().collect());
        self.progress.state
    }
}

fn refused() -> StepFailure {
    StepFailure::Refused("no".into())
}

fn not_reached() -> StepFailure {
    StepFailure::NotReached("the carrier is closed".into())
}

fn unknown() -> StepFailure {
    StepFailure::Unknown("no reply".into())
}

#[test]
fn the_last_step_completes_the_saga() {
    let mut run = Run::new(Strategy::Forward);
    for step in [Step::Pack, Step::Ship, Step::Delete] {
        assert_eq!(run.progress.state, State::Running);
        run.run(step);
    }
    assert_eq!(run.progress.state, State::Completed);
    assert_eq!(run.progress.next_task(), None);
}

#[test]
fn a_started_step_belongs_to_its_process_until_its_timeout() {
    let mut run = Run::new(Strategy::Rollback);
    run.start();
    assert_eq!(run.progress.due, at(10));
}

#[test]
fn a_step_that_continues_is_not_a_failed_one() {
    let mut run = Run::new(Strategy::Forward);
    for round in 0..50 {
        assert_eq!(run.start(), Task::Run(Step::Pack), "{round}");
        let again = after(run.now, Duration::from_secs(7));
        run.record(vec![SagaEvent::StepContinued { step: Step::Pack, again }]);
        assert_eq!((run.progress.due, run.progress.tries_of(Step::Pack)), (again, 0));
    }
    for _ in 0..3 {
        run.fail(Step::Pack, not_reached());
    }
    assert_eq!(run.progress.state, State::Running, "it has all of its tries");
    run.fail(Step::Pack, not_reached());
    assert_eq!(run.progress.state, State::Manual);
}

#[test]
fn tries_are_counted_whatever_is_known_of_their_outcome() {
    for failure in [not_reached, unknown] {
        let mut run = Run::new(Strategy::Rollback);
        let pauses = [1, 4].map(|pause| {
            run.fail(Step::Pack, failure());
            (run.progress.due, after(run.now, Duration::from_secs(pause)))
        });
        assert!(pauses.iter().all(|(due, expected)| due == expected), "{pauses:?}");
        run.fail(Step::Pack, failure());
        assert_eq!(run.progress.state, State::Compensating, "{:?}", failure());
    }
}

#[test]
fn forward_tries_end_with_an_operator() {
    let mut run = Run::new(Strategy::Forward);
    for pause in [1, 4, 100] {
        run.fail(Step::Pack, unknown());
        assert_eq!(run.progress.due, after(run.now, Duration::from_secs(pause)));
    }
    run.fail(Step::Pack, unknown());
    assert_eq!(run.progress.state, State::Manual);
    let resumed = run.progress.decide("ann", Decision::Resume).unwrap();
    run.record(vec![resumed]);
    assert_eq!(run.progress.tries_of(Step::Pack), 0);
    run.run(Step::Pack);
}

#[test]
fn what_cannot_be_undone_needs_an_operator_who_cannot_roll_it_back() {
    let mut run = Run::new(Strategy::Rollback);
    run.run(Step::Pack);
    run.run(Step::Ship);
    for _ in 0..3 {
        run.fail(Step::Delete, unknown());
    }
    assert_eq!(run.progress.state, State::Manual, "the order may be deleted");
    let back = Decision::RollBack { reason: "wrong address".into() };
    let refused = run.progress.decide("ann", back.clone()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a parcel that is manual can't be rolled back: what it has done can't be undone"
    );
    let mut run = Run::new(Strategy::Rollback);
    for step in [Step::Pack, Step::Ship, Step::Delete] {
        run.run(step);
    }
    assert!(run.progress.decide("ann", back).is_err());
}

#[test]
fn a_refused_step_rolls_back_what_was_done_before() {
    let mut run = Run::new(Strategy::Forward);
    run.run(Step::Pack);
    run.run(Step::Ship);
    run.fail(Step::Delete, refused());
    run.undo(Step::Ship);
    run.undo(Step::Pack);
    assert_eq!(run.end(), State::Compensated);
}

#[test]
fn only_an_external_step_stays_in_doubt() {
    let mut run = Run::new(Strategy::Rollback);
    run.fail(Step::Pack, unknown());
    run.fail(Step::Pack, refused());
    assert_eq!(run.progress.state_of(Step::Pack), StepState::Refused);
    let mut run = Run::new(Strategy::Rollback);
    run.run(Step::Pack);
    run.fail(Step::Ship, unknown());
    run.fail(Step::Ship, refused());
    assert_eq!(run.progress.state_of(Step::Ship), StepState::Unknown, "the first try may have had effect");
    run.undo(Step::Ship);
    run.undo(Step::Pack);
    assert_eq!(run.end(), State::Compensated);
}

#[test]
fn a_partial_rollback_keeps_what_its_definition_says() {
    let mut run = Run::new(Strategy::Partial);
    run.run(Step::Pack);
    run.run(Step::Ship);
    run.fail(Step::Delete, refused());
    run.undo(Step::Pack);
    assert_eq!(run.end(), State::Manual);
    assert_eq!(run.progress.reason.as_deref(), Some("no; the parcel is on its way"));
}

#[test]
fn an_external_step_is_undone_although_another_is_stuck_and_never_runs_again() {
    let mut run = Run::new(Strategy::Manual);
    run.run(Step::Pack);
    run.run(Step::Ship);
    run.fail(Step::Delete, refused());
    let back = run.progress.decide("ann", Decision::RollBack { reason: "wrong".into() }).unwrap();
    run.record(vec![back]);
    for _ in 0..3 {
        assert_eq!(run.start(), Task::Undo(Step::Ship));
        run.record(vec![run.progress.undo_failed(Step::Ship, "lost".into(), run.now, &PAUSES)]);
    }
    run.undo(Step::Pack);
    assert_eq!(run.end(), State::Manual);
    let refused = run.progress.decide("ann", Decision::Resume).unwrap_err();
    assert!(refused.to_string().ends_with("ship was or may have been returned"), "{refused}");
}

#[test]
fn a_step_that_is_newer_than_a_stored_record_runs_in_its_place() {
    let mut run = Run::new(Strategy::Forward);
    run.progress.steps.retain(|record| record.step != Step::Ship);
    run.run(Step::Pack);
    run.run(Step::Ship);
    run.run(Step::Delete);
    assert_eq!(run.progress.state, State::Completed);
}
