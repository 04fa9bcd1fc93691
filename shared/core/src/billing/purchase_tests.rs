use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

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

/// What becomes of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Works,
    Refused,
    Unknown,
}

/// A purchase and all that was done for it, as `usecases::purchase` does it.
struct Run {
    purchase: Purchase,
    now: Timestamp,
    log: Vec<String>,
}

impl Run {
    fn new(strategy: Strategy) -> Self {
        Self { purchase: Purchase::new(id(), order(strategy), start()), now: start(), log: vec![] }
    }

    fn note(&mut self, events: &[PurchaseEvent]) {
        for event in events {
            self.purchase = Purchase::apply(Some(&self.purchase), &id(), event, self.now).unwrap();
        }
    }

    /// Goes on until it rests; `fate` says what becomes of each try.
    fn rest(&mut self, mut fate: impl FnMut(Task) -> Fate) -> State {
        for _ in 0..1000 {
            let now = self.purchase.due;
            self.now = now;
            let task = self.purchase.task();
            let Some(starting) = self.purchase.starting(task, now) else {
                match self.purchase.compensated() {
                    Some(end) => self.note(&[end]),
                    None => return self.purchase.state,
                }
                continue;
            };
            self.note(&[starting]);
            match (task, fate(task)) {
                (Task::Take(step), Fate::Works) => {
                    self.log.push(step.name().to_owned());
                    let payment = (step == Step::TakePayment).then(|| "pay".to_owned());
                    self.note(&self.purchase.taken(step, payment));
                }
                (Task::Take(step), fate) => {
                    let why = "it was made to fail".to_owned();
                    let why = match fate {
                        Fate::Refused => NotTaken::Refused(why),
                        _ => NotTaken::Unknown(why),
                    };
                    self.note(&self.purchase.not_taken(step, why, now, &PAUSES));
                }
                (Task::Undo(step), Fate::Works) => {
                    self.log.push(format!("-{}", step.name()));
                    self.note(&self.purchase.undone(step));
                }
                (Task::Undo(step), _) => {
                    let failed = self.purchase.not_undone(step, "it was made to fail".into(), now, &PAUSES);
                    self.note(&[failed]);
                }
                (Task::Rest, _) => unreachable!("resting is not started"),
            }
        }
        panic!("it never rests: {:?}", self.purchase);
    }
}

fn failing(step: Step, fate: Fate) -> impl FnMut(Task) -> Fate {
    move |task| if task == Task::Take(step) { fate } else { Fate::Works }
}

#[test]
fn four_steps_and_it_is_done() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.rest(|_| Fate::Works), State::Completed);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "enter"]);
    assert_eq!(run.purchase.payment.as_deref(), Some("pay"));
    assert!(run.purchase.ended_at.is_some());
}

#[test]
fn what_was_done_is_undone_in_reverse() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.rest(failing(Step::Enter, Fate::Refused)), State::Compensated);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate", "-take_payment", "-reserve"]);
}

#[test]
fn a_payment_that_nobody_knows_of_is_given_back_and_a_declined_one_is_not() {
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.rest(failing(Step::TakePayment, Fate::Unknown)), State::Compensated);
    assert_eq!(run.log, ["reserve", "-take_payment", "-reserve"]);
    assert_eq!(run.purchase.due, start() + Duration::from_secs(21), "after pauses of 1 s, 4 s and 16 s");
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.rest(failing(Step::TakePayment, Fate::Refused)), State::Compensated);
    assert_eq!(run.log, ["reserve", "-reserve"]);
}

#[test]
fn a_way_back_that_is_stuck_goes_to_a_person_and_the_others_are_gone_all_the_same() {
    let fate = |task| match task {
        Task::Take(Step::Enter) => Fate::Refused,
        Task::Undo(Step::TakePayment) => Fate::Unknown,
        _ => Fate::Works,
    };
    let mut run = Run::new(Strategy::Rollback);
    assert_eq!(run.rest(fate), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate", "-reserve"]);
    let reason = run.purchase.reason.clone().unwrap();
    assert_eq!(reason, "it was made to fail; could not be undone: take_payment");

    // The person has it tried once more.
    let again = run.purchase.decided("ann", Decision::RollBack { reason: "service is back".into() });
    run.note(&[again.unwrap()]);
    assert_eq!(run.rest(|_| Fate::Works), State::Compensated);
    assert_eq!(run.log.last().unwrap(), "-take_payment");
    assert!(run.purchase.decided("ann", Decision::Resume).is_err(), "the money is back");
}

#[test]
fn a_partial_way_back_keeps_the_money_until_a_person_decides() {
    let mut run = Run::new(Strategy::Partial);
    assert_eq!(run.rest(failing(Step::Enter, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment", "allocate", "-allocate"]);
    run.note(&[run.purchase.decided("ann", Decision::Resume).unwrap()]);
    assert_eq!(run.rest(|_| Fate::Works), State::Completed);
    assert_eq!(run.log[4..], ["allocate", "enter"]);
    // Without money there is nothing to keep.
    let mut run = Run::new(Strategy::Partial);
    assert_eq!(run.rest(failing(Step::TakePayment, Fate::Unknown)), State::Compensated);
}

#[test]
fn forward_tries_on_and_rolls_back_only_what_is_refused() {
    let mut tries = 0;
    let mut run = Run::new(Strategy::Forward);
    let stubborn = |task| match task {
        Task::Take(Step::TakePayment) => {
            tries += 1;
            if tries < 10 { Fate::Unknown } else { Fate::Works }
        }
        _ => Fate::Works,
    };
    assert_eq!(run.rest(stubborn), State::Completed);
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.rest(failing(Step::TakePayment, Fate::Unknown)), State::Manual);
    assert_eq!(run.purchase.steps[1].tries, 20);
    assert_eq!(run.log, ["reserve"]);
    let mut run = Run::new(Strategy::Forward);
    assert_eq!(run.rest(failing(Step::TakePayment, Fate::Refused)), State::Compensated);
}

#[test]
fn manual_leaves_everything_to_a_person() {
    let mut run = Run::new(Strategy::Manual);
    assert_eq!(run.rest(failing(Step::Allocate, Fate::Refused)), State::Manual);
    assert_eq!(run.log, ["reserve", "take_payment"]);
    run.note(&[run.purchase.decided("ann", Decision::RollBack { reason: "asked for".into() }).unwrap()]);
    assert_eq!(run.rest(|_| Fate::Works), State::Compensated);
    assert_eq!(run.log[2..], ["-take_payment", "-reserve"]);

    let mut run = Run::new(Strategy::Manual);
    run.rest(failing(Step::Allocate, Fate::Refused));
    run.note(&[run.purchase.decided("ann", Decision::Resolve { note: "cheque sent".into() }).unwrap()]);
    assert_eq!(run.rest(|_| Fate::Works), State::Resolved);
    assert_eq!(run.purchase.reason.as_deref(), Some("cheque sent"));
}

#[test]
fn a_completed_purchase_can_be_taken_back() {
    let mut run = Run::new(Strategy::Forward);
    run.rest(|_| Fate::Works);
    let refused = run.purchase.decided("ann", Decision::Resume).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a purchase that is completed can't be resumed: it does not wait for a person"
    );
    run.note(&[run.purchase.decided("ann", Decision::RollBack { reason: "returned".into() }).unwrap()]);
    assert_eq!(run.rest(|_| Fate::Works), State::Compensated);
    assert_eq!(run.log[4..], ["-enter", "-allocate", "-take_payment", "-reserve"]);
}

proptest! {
    #[test]
    fn whatever_fails_it_comes_to_rest_with_all_done_or_all_undone_or_a_person_knowing(
        strategy in prop_oneof![
            Just(Strategy::Rollback), Just(Strategy::Partial), Just(Strategy::Forward), Just(Strategy::Manual)
        ],
        fates in prop::collection::vec(
            prop_oneof![3 => Just(Fate::Works), 1 => Just(Fate::Refused), 2 => Just(Fate::Unknown)], 0..80
        ),
    ) {
        let mut run = Run::new(strategy);
        let mut fates = fates.into_iter();
        let state = run.rest(|_| fates.next().unwrap_or(Fate::Works));
        let states = run.purchase.steps.each_ref().map(|record| record.state);
        match state {
            State::Completed => prop_assert_eq!(states, [StepState::Done; 4]),
            State::Compensated => prop_assert!(states.iter().all(|state| {
                matches!(state, StepState::Waiting | StepState::Refused | StepState::Undone)
            }), "{:?}", states),
            State::Manual => prop_assert!(run.purchase.reason.is_some()),
            other => prop_assert!(false, "{:?}", other),
        }
        // Taken in order, undone in reverse, each at most once.
        let taken = run.log.iter().filter(|name| !name.starts_with('-')).cloned().collect::<Vec<_>>();
        let names = Step::ALL.map(Step::name);
        prop_assert_eq!(&taken[..], &names[..taken.len()]);
        let undone: Vec<usize> = run.log.iter()
            .filter_map(|name| names.iter().position(|step| name.strip_prefix('-') == Some(*step)))
            .collect();
        prop_assert!(undone.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", run.log);
    }
}
