use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::{
    event::verify,
    sagas::{
        decide::{Decision, StepFailure, Task},
        progress::{State, StepState},
    },
    time::after,
};

impl Step {
    const ALL: [Self; 4] = [Self::Reserve, Self::TakePayment, Self::Allocate, Self::Enter];
}

fn id() -> PurchaseId {
    PurchaseId::new("p")
}

fn order() -> Order {
    Order { tenant: TenantId::new("t"), by: "ann".into(), credits: 100, price_micro_usd: MicroUsd(5_000_000) }
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
    NotReached,
    Unknown,
}

/// A purchase and the log of its steps, run as `sagas::run` runs them.
struct Run {
    purchase: Purchase,
    now: Timestamp,
    log: Vec<String>,
    /// The types of its events.
    kinds: Vec<String>,
}

impl Run {
    fn new(strategy: Strategy) -> Self {
        Self {
            purchase: Purchase::new(id(), order(), strategy, start()),
            now: start(),
            log: vec![],
            kinds: vec![],
        }
    }

    fn record_all(&mut self, events: Vec<SagaEvent<Step>>) {
        self.record_with(events, None);
    }

    fn record_with(&mut self, events: Vec<SagaEvent<Step>>, payment: Option<String>) {
        for event in self.purchase.with_payment(events, payment) {
            self.purchase = Purchase::apply(Some(&self.purchase), &id(), &event, self.now).unwrap();
            self.kinds.push(serde_json::to_value(&event).unwrap()["type"].as_str().unwrap().to_owned());
        }
    }

    fn decide(&mut self, decision: Decision) {
        let event = self.purchase.progress.decide("ann", decision).unwrap();
        self.record_all(vec![event]);
    }

    /// Runs the purchase until it stops; `fate` decides the outcome of each try.
    fn finish(&mut self, mut fate: impl FnMut(Task<Step>) -> Fate) -> State {
        for _ in 0..1000 {
            let now = self.purchase.progress.due;
            self.now = now;
            let Some(task) = self.purchase.progress.next_task() else {
                match self.purchase.progress.end_compensation() {
                    Some(end) => self.record_all(vec![end]),
                    None => return self.purchase.progress.state,
                }
                continue;
            };
            self.record_all(vec![self.purchase.progress.start(task, now)]);
            match (task, fate(task)) {
                (Task::Run(step), Fate::Done) => {
                    self.log.push(step.name().to_owned());
                    let payment = (step == Step::TakePayment).then(|| "pay".to_owned());
                    self.record_with(self.purchase.progress.step_done(step), payment);
                }
                (Task::Run(step), fate) => {
                    let reason = "it was made to fail".to_owned();
                    let failure = match fate {
                        Fate::Refused => StepFailure::Refused(reason),
                        Fate::NotReached => StepFailure::NotReached(reason),
                        _ => StepFailure::Unknown(reason),
                    };
                    self.record_all(self.purchase.progress.step_failed(step, failure, now, &PAUSES));
                }
                (Task::Undo(step), Fate::Done) => {
                    self.log.push(format!("-{}", step.name()));
                    self.record_all(vec![SagaEvent::UndoDone { step }]);
                }
                (Task::Undo(step), _) => {
                    let failed =
                        self.purchase.progress.undo_failed(step, "it was made to fail".into(), now, &PAUSES);
                    self.record_all(vec![failed]);
                }
            }
        }
        panic!("it never stops: {:?}", self.purchase);
    }
}

fn failing(step: Step, fate: Fate) -> impl FnMut(Task<Step>) -> Fate {
    move |task| if task == Task::Run(step) { fate } else { Fate::Done }
}

#[test]
fn a_purchase_completes_after_four_steps() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(|_| Fate::Done), State::Completed);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "enter"]);
    assert_eq!(run.purchase.payment.as_deref(), Some("pay"));
    assert!(run.purchase.progress.ended_at.is_some());
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
    assert_eq!(
        run.purchase.progress.due,
        start() + Duration::from_secs(21),
        "after pauses of 1 s, 4 s and 16 s"
    );
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
    let reason = run.purchase.progress.reason.clone().unwrap();
    assert_eq!(reason, "it was made to fail; could not be undone: take_payment");

    // The operator rolls it back again.
    run.decide(Decision::RollBack { reason: "service is back".into() });
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log.last().unwrap(), "-take_payment");
    assert!(run.purchase.progress.decide("ann", Decision::Resume).is_err(), "the payment was refunded");
}

#[test]
fn a_partial_rollback_keeps_the_payment_until_an_operator_decides() {
    let mut run = Run::new(Strategy::Partial);
    assert_eq!(run.finish(failing(Step::Enter, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate"]);
    run.decide(Decision::Resume);
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
    assert_eq!(run.purchase.progress.steps[1].tries, 20);
    assert_eq!(run.log, ["reserve"]);
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::Refused)), State::Compensated);
}

#[test]
fn the_manual_strategy_leaves_everything_to_an_operator() {
    let mut run = Run::new(Strategy::Manual);
    assert_eq!(run.finish(failing(Step::Allocate, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment"]);
    run.decide(Decision::RollBack { reason: "requested".into() });
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log[2..], ["-take_payment", "-reserve"]);

    let mut run = Run::new(Strategy::Manual);
    run.finish(failing(Step::Allocate, Fate::Refused));
    run.decide(Decision::Resolve { note: "cheque sent".into() });
    assert_eq!(run.finish(|_| Fate::Done), State::Resolved);
    assert_eq!(run.purchase.progress.reason.as_deref(), Some("cheque sent"));
}

#[test]
fn a_completed_purchase_can_be_rolled_back() {
    let mut run = Run::new(Strategy::Forward);
    run.finish(|_| Fate::Done);
    let refused = run.purchase.progress.decide("ann", Decision::Resume).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a purchase that is completed can't be resumed: it does not wait for an operator"
    );
    run.decide(Decision::RollBack { reason: "returned".into() });
    assert_eq!(run.finish(|_| Fate::Done), State::Compensated);
    assert_eq!(run.log[4..], ["-enter", "-allocate", "-take_payment", "-reserve"]);
}

#[test]
fn events_of_the_payment_are_recorded_where_they_happen() {
    let mut run = Run::new(Strategy::Rollback);
    run.finish(failing(Step::Allocate, Fate::Refused));
    let of_payment =
        |run: &Run| run.kinds.iter().filter(|kind| kind.starts_with("payment.")).cloned().collect::<Vec<_>>();
    assert_eq!(of_payment(&run), ["payment.completed", "payment.refunded"]);
    let at = run.kinds.iter().position(|kind| kind == "payment.completed").unwrap();
    assert_eq!(run.kinds[at + 1], "saga.step_done");
    let mut run = Run::new(Strategy::Rollback);
    run.finish(failing(Step::TakePayment, Fate::Unknown));
    assert_eq!(
        of_payment(&run),
        ["payment.failed"],
        "once, after the last try; nothing is known of a refund"
    );
}

#[test]
fn a_service_that_is_not_reached_is_tried_like_one_that_does_not_answer() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::NotReached)), State::Compensated);
    assert_eq!(run.log, ["reserve", "-reserve"], "nothing was taken, nothing is refunded");
    assert_eq!(run.purchase.progress.due, after(start(), Duration::from_secs(21)));
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.finish(failing(Step::TakePayment, Fate::NotReached)), State::Manual);
    assert_eq!(run.purchase.progress.steps[1].tries, 20);
}

/// Records and trails as version 0.1 wrote them.
#[test]
fn stored_purchases_keep_their_shape() {
    let stored: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/purchase_v1.json")).unwrap();
    let stored = stored.as_array().unwrap();
    assert_eq!(stored.len(), 2);
    for purchase in stored {
        let record: Purchase = serde_json::from_value(purchase["record"].clone()).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), purchase["record"]);
        let trail: Vec<Event> = serde_json::from_value(purchase["trail"].clone()).unwrap();
        for event in &trail {
            let typed: PurchaseEvent = decode(event).unwrap();
            let again = serde_json::to_value(&typed).unwrap();
            assert_eq!((&again["type"], &again["data"]), (&event.kind.as_str().into(), &event.data));
        }
        verify(&trail, &record.head).unwrap();
        assert_eq!(Purchase::replay(&trail).unwrap(), Some(record));
    }
}

proptest! {
    #[test]
    fn after_any_failures_every_step_is_done_or_undone_or_an_operator_is_needed(
        strategy in prop_oneof![
            Just(Strategy::Rollback), Just(Strategy::Partial), Just(Strategy::Forward), Just(Strategy::Manual)
        ],
        fates in prop::collection::vec(
            prop_oneof![3 => Just(Fate::Done), 1 => Just(Fate::Refused), 1 => Just(Fate::NotReached), 2 => Just(Fate::Unknown)], 0..80
        ),
    ) {
        let mut run = Run::new(strategy);
        let mut fates = fates.into_iter();
        let state = run.finish(|_| fates.next().unwrap_or(Fate::Done));
        let states = Step::ALL.map(|step| run.purchase.progress.state_of(step));
        match state {
            State::Completed => prop_assert_eq!(states, [StepState::Done; 4]),
            State::Compensated => prop_assert!(states.iter().all(|state| {
                matches!(state, StepState::Waiting | StepState::Refused | StepState::Undone)
            }), "{:?}", states),
            State::Manual => prop_assert!(run.purchase.progress.reason.is_some()),
            other => prop_assert!(false, "{:?}", other),
        }
        // Run in order, undone in reverse, each at most once.
        let done = run.log.iter().filter(|name| !name.starts_with('-')).cloned().collect::<Vec<_>>();
        let names = Step::ALL.map(SagaStep::name);
        prop_assert_eq!(&done[..], &names[..done.len()]);
        let undone: Vec<usize> = run.log.iter()
            .filter_map(|name| names.iter().position(|step| name.strip_prefix('-') == Some(*step)))
            .collect();
        prop_assert!(undone.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", run.log);
    }
}
