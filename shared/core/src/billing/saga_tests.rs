use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::{
    billing::purchase::Order,
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
};

fn id() -> PurchaseId {
    PurchaseId::new("p")
}

fn order(strategy: Strategy) -> Order {
    Order {
        tenant: TenantId::new("t"),
        by: "ann".into(),
        credits: 100,
        price_micro_usd: MicroUsd(5_000_000),
        strategy,
    }
}

fn start() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

/// The outcome of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    Unknown,
}

/// A purchase and the log of its steps, run as `billing::buy` runs them.
struct Run {
    purchase: Purchase,
    now: Timestamp,
    log: Vec<String>,
}

impl Run {
    fn new(strategy: Strategy) -> Self {
        Self { purchase: Purchase::new(id(), order(strategy), start()), now: start(), log: vec![] }
    }

    fn record_all(&mut self, events: &[PurchaseEvent]) {
        for event in events {
            self.purchase = Purchase::apply(Some(&self.purchase), &id(), event, self.now).unwrap();
        }
    }

    /// Runs the purchase until it stops; `fate` decides the outcome of each try.
    fn finish(&mut self, mut fate: impl FnMut(Task) -> Fate) -> State {
        for _ in 0..1000 {
            let now = self.purchase.due;
            self.now = now;
            let Some(task) = self.purchase.next_task() else {
                match self.purchase.end_compensation() {
                    Some(end) => self.record_all(&[end]),
                    None => return self.purchase.state,
                }
                continue;
            };
            self.record_all(&[self.purchase.start(task, now)]);
            match (task, fate(task)) {
                (Task::Run(step), Fate::Done) => {
                    self.log.push(step.name().to_owned());
                    let payment = (step == Step::TakePayment).then(|| "pay".to_owned());
                    self.record_all(&self.purchase.step_done(step, payment));
                }
                (Task::Run(step), fate) => {
                    let reason = "it was made to fail".to_owned();
                    let failure = match fate {
                        Fate::Refused => StepFailure::Refused(reason),
                        _ => StepFailure::Unknown(reason),
                    };
                    self.record_all(&self.purchase.step_failed(step, failure, now, &PAUSES));
                }
                (Task::Undo(step), Fate::Done) => {
                    self.log.push(format!("-{}", step.name()));
                    self.record_all(&self.purchase.undo_done(step));
                }
                (Task::Undo(step), _) => {
                    let failed = self.purchase.undo_failed(step, "it was made to fail".into(), now, &PAUSES);
                    self.record_all(&[failed]);
                }
            }
        }
        panic!("it never stops: {:?}", self.purchase);
    }
}

fn failing(step: Step, fate: Fate) -> impl FnMut(Task) -> Fate {
    move |task| if task == Task::Run(step) { fate } else { Fate::Done }
}

#[test]
fn a_purchase_completes_after_four_steps() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(|_| Fate::Done), State::Completed);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "enter"]);
    assert_eq!(run.purchase.payment.as_deref(), Some("pay"));
    assert!(run.purchase.ended_at.is_some());
}

#[test]
fn completed_steps_are_undone_in_reverse_order() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(failing(Step::Enter, Fate::Refused)), State::Compensated);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate", "-take_payment", "-reserve"]);
}

#[test]
fn an_unconfirmed_payment_is_refunded_and_a_declined_one_is_not() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Unknown)), State::Compensated);
    assert_eq!(run.log, ["reserve", "-take_payment", "-reserve"]);
    assert_eq!(run.purchase.due, start() + Duration::from_secs(21), "after pauses of 1 s, 4 s and 16 s");
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Refused)), State::Compensated);
    assert_eq!(run.log, ["reserve", "-reserve"]);
}

#[test]
fn a_step_that_cannot_be_undone_needs_an_operator_and_the_others_are_still_undone() {
    let fate = |task| match task {
        Task::Run(Step::Enter) => Fate::Refused,
        Task::Undo(Step::TakePayment) => Fate::Unknown,
        _ => Fate::Done,
    };
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(fate), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate", "-reserve"]);
    let reason = run.purchase.reason.clone().unwrap();
    assert_eq!(reason, "it was made to fail; could not be undone: take_payment");

    // The operator rolls it back again.
    let event = run.purchase.decide("ann", Decision::RollBack { reason: "service is back".into() });
    run.record_all(&[event.unwrap()]);
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log.last().unwrap(), "-take_payment");
    assert!(run.purchase.decide("ann", Decision::Resume).is_err(), "the payment was refunded");
}

#[test]
fn a_partial_rollback_keeps_the_payment_until_an_operator_decides() {
    let mut run = Run::new(Strategy::Partial);
    assert_eq!(run.finish(failing(Step::Enter, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate"]);
    run.record_all(&[run.purchase.decide("ann", Decision::Resume).unwrap()]);
    assert_eq!(run.finish(|_| Fate::Done), State::Completed);
    assert_eq!(run.log[4..], ["allocate", "enter"]);
    // Without a payment there is nothing to keep.
    let mut run = Run::new(Strategy::Partial);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Unknown)), State::Compensated);
}

#[test]
fn the_forward_strategy_retries_and_rolls_back_only_a_refused_step() {
    let mut tries = 0;
    let mut run = Run::new(Strategy::Forward);
    let stubborn = |task| match task {
        Task::Run(Step::TakePayment) => {
            tries += 1;
            if tries < 10 { Fate::Unknown } else { Fate::Done }
        }
        _ => Fate::Done,
    };
    assert_eq!(run.finish(stubborn), State::Completed);
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Unknown)), State::Manual);
    assert_eq!(run.purchase.steps[1].tries, 20);
    assert_eq!(run.log, ["reserve"]);
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Refused)), State::Compensated);
}

#[test]
fn the_manual_strategy_leaves_everything_to_an_operator() {
    let mut run = Run::new(Strategy::Manual);
    assert_eq!(run.finish(failing(Step::Allocate, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment"]);
    run.record_all(&[run.purchase.decide("ann", Decision::RollBack { reason: "requested".into() }).unwrap()]);
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log[2..], ["-take_payment", "-reserve"]);

    let mut run = Run::new(Strategy::Manual);
    run.finish(failing(Step::Allocate, Fate::Refused));
    run.record_all(&[run.purchase.decide("ann", Decision::Resolve { note: "cheque sent".into() }).unwrap()]);
    assert_eq!(run.finish(|_| Fate::Done), State::Resolved);
    assert_eq!(run.purchase.reason.as_deref(), Some("cheque sent"));
}

#[test]
fn a_completed_purchase_can_be_rolled_back() {
    let mut run = Run::new(Strategy::Forward);
    run.finish(|_| Fate::Done);
    let refused = run.purchase.decide("ann", Decision::Resume).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a purchase that is completed can't be resumed: it does not wait for an operator"
    );
    run.record_all(&[run.purchase.decide("ann", Decision::RollBack { reason: "returned".into() }).unwrap()]);
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log[4..], ["-enter", "-allocate", "-take_payment", "-reserve"]);
}

proptest! {
    #[test]
    fn after_any_failures_every_step_is_done_or_undone_or_an_operator_is_needed(
        strategy in prop_oneof![
            Just(Strategy::Rollback), Just(Strategy::Partial), Just(Strategy::Forward), Just(Strategy::Manual)
        ],
        fates in prop::collection::vec(
            prop_oneof![3 => Just(Fate::Done), 1 => Just(Fate::Refused), 2 => Just(Fate::Unknown)], 0..80
        ),
    ) {
        let mut run = Run::new(strategy);
        let mut fates = fates.into_iter();
        let state = run.finish(|_| fates.next().unwrap_or(Fate::Done));
        let states = run.purchase.steps.each_ref().map(|record| record.state);
        match state {
            State::Completed => prop_assert_eq!(states, [StepState::Done; 4]),
            State::Compensated => prop_assert!(states.iter().all(|state| {
                matches!(state, StepState::Waiting | StepState::Refused | StepState::Undone)
            }), "{:?}", states),
            State::Manual => prop_assert!(run.purchase.reason.is_some()),
            other => prop_assert!(false, "{:?}", other),
        }
        // Run in order, undone in reverse, each at most once.
        let done = run.log.iter().filter(|name| !name.starts_with('-')).cloned().collect::<Vec<_>>();
        let names = Step::ALL.map(Step::name);
        prop_assert_eq!(&done[..], &names[..done.len()]);
        let undone: Vec<usize> = run.log.iter()
            .filter_map(|name| names.iter().position(|step| name.strip_prefix('-') == Some(*step)))
            .collect();
        prop_assert!(undone.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", run.log);
    }
}
