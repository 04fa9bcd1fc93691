//! Buying credits: money and credits go together, whatever fails on the way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    domain::{
        account::{Account, AccountEvent, Cause},
        event::{Aggregate, verify},
        ids::{PurchaseId, TenantId},
        outcome::MicroUsd,
        purchase::{Decision, Purchase, State, StepState},
        secret::Secret,
    },
    ports::{
        clock::Clock,
        records::{Batch, Change, Key, Records, When},
    },
    store::{accounts, listing, purchases, trail},
    usecases::{
        purchase::{self, PurchaseError, Wish},
        relay,
        sweep::sweep,
        verify::verify_account,
    },
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    memory::PaymentBehaviour,
};
use everypage_tests::harness::Harness;

const SHOP: [(&str, &str); 3] =
    [("CREDITS", "prepaid"), ("PAYMENT_URL", "http://pay.example"), ("CREDIT_PRICE_USD", "0.0525")];
/// Of 100 credits at 0.0525 USD.
const PRICE: MicroUsd = MicroUsd(5_250_000);
const LONG: Duration = Duration::from_secs(7200);

fn shop(strategy: &str) -> Harness {
    Harness::new(&[SHOP[0], SHOP[1], SHOP[2], ("PURCHASE_STRATEGY", strategy)])
}

fn tenant() -> TenantId {
    TenantId::new("acme")
}

fn wish(key: Option<&str>) -> Wish {
    Wish {
        tenant: tenant(),
        by: "ann".into(),
        credits: 100,
        method: Some(Secret::new("card of ann")),
        idempotency_key: key.map(str::to_owned),
    }
}

async fn buy(app: &App) -> Purchase {
    let (begun, existed) = purchase::begin(app, wish(None)).await.unwrap();
    assert!(!existed);
    purchase::drive(app, &begun.id, LONG).await.unwrap()
}

/// The account, with its books in order.
async fn account(app: &App) -> Account {
    assert_eq!(verify_account(app, &tenant()).await.unwrap(), Vec::<String>::new());
    accounts::load(app, &tenant()).await.unwrap().value
}

async fn trail_is_whole(app: &App, purchase: &Purchase) -> Vec<String> {
    let events = trail::read(app, &Aggregate::Purchase(purchase.id.clone())).await.unwrap();
    verify(&events, &purchase.head).unwrap();
    assert_eq!(Purchase::replay(&events).unwrap().as_ref(), Some(purchase));
    events.into_iter().map(|event| event.kind).collect()
}

fn nothing_but(balance: u64) -> (u64, u64, u64, u64) {
    (balance, 0, 0, 0)
}

fn places(account: &Account) -> (u64, u64, u64, u64) {
    (account.balance, account.reserved, account.ordered, account.allocated)
}

#[tokio::test(start_paused = true)]
async fn credits_that_are_paid_are_in_the_ledger() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.state, State::Completed);
    assert_eq!((harness.payments.income(), harness.payments.charges()[0].credits), (PRICE, 100));
    assert_eq!(harness.payments.charges()[0].method, Some(Secret::new("card of ann")));
    assert_eq!(places(&account(app).await), nothing_but(100));
    let line = &accounts::ledger(app, &tenant()).await.unwrap()[0];
    assert_eq!((line.amount, &line.cause), (100, &Cause::Purchase { purchase: bought.id.clone() }));
    let kinds = trail_is_whole(app, &bought).await;
    assert_eq!(kinds.first().unwrap(), "saga.started");
    assert_eq!(kinds[kinds.len() - 2..], ["saga.step_done", "saga.completed"]);
    assert!(kinds.contains(&"payment.completed".to_owned()));
    // How it was paid is forgotten, and is in no event.
    let method = Key::new(format!("purchase#{}", bought.id), "method");
    assert_eq!(harness.records.get(&method).await.unwrap(), None);
    relay::relay(app, &app.node).await.unwrap();
    let told = serde_json::to_string(&harness.bus.events()).unwrap();
    assert!(told.contains("credit.added") && !told.contains("card of ann"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_same_wish_twice_is_one_purchase() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (first, _) = purchase::begin(app, wish(Some("order 1"))).await.unwrap();
    purchase::drive(app, &first.id, LONG).await.unwrap();
    let (second, existed) = purchase::begin(app, wish(Some("order 1"))).await.unwrap();
    assert_eq!((second.id, second.state, existed), (first.id, State::Completed, true));
    let other = purchase::begin(app, Wish { credits: 7, ..wish(Some("order 1")) }).await;
    assert_eq!(other, Err(PurchaseError::KeyReused { key: "order 1".into() }));
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(listing::purchases(app, &tenant(), None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_t_be_bought_is_said_before_anything_is_written() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    for credits in [0, u64::MAX] {
        let refused = purchase::begin(app, Wish { credits, ..wish(None) }).await.unwrap_err();
        assert_eq!(refused, PurchaseError::BadAmount { credits });
    }
    // A price that no number holds.
    let dear = Harness::new(&[SHOP[0], SHOP[1], ("CREDIT_PRICE_USD", "1000")]);
    let credits = 1_000_000_000_000;
    let refused = purchase::begin(&dear.start("a").app, Wish { credits, ..wish(None) }).await.unwrap_err();
    assert_eq!(refused, PurchaseError::BadAmount { credits });
    let closed = Harness::new(&[("CREDITS", "prepaid")]);
    let refused = purchase::begin(&closed.start("a").app, wish(None)).await.unwrap_err();
    assert!(refused.to_string().contains("PAYMENT_URL"), "{refused}");
    let unknown = PurchaseId::new("nobody's");
    assert!(purchase::drive(app, &unknown, LONG).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_declined_payment_leaves_nothing_behind() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::Declines]);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.state, State::Compensated);
    assert_eq!(bought.reason.as_deref(), Some("the card was declined"));
    assert_eq!(bought.steps[1].state, StepState::Refused);
    assert_eq!(places(&account(app).await), nothing_but(0));
    assert_eq!(harness.payments.calls(), 1, "a no is not asked for again, and nothing is given back");
    assert!(trail_is_whole(app, &bought).await.contains(&"payment.failed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_no_after_silence_is_not_believed_and_what_may_have_been_taken_is_given_back() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::LosesReply, PaymentBehaviour::Declines]);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!((bought.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(harness.payments.calls(), 3, "two charges and the way back");
    assert_eq!(places(&account(app).await), nothing_but(0));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_is_asked_four_times_and_then_all_is_undone() {
    let harness = shop("rollback");
    harness.payments.script_charges([
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ]);
    let app = &harness.start("a").app;
    let began = harness.clock.now();
    let bought = buy(app).await;
    assert_eq!(bought.state, State::Compensated);
    assert_eq!(harness.clock.now().duration_since(began).as_secs(), 1 + 4 + 16);
    // The first call took the money, and nobody knew.
    assert_eq!((harness.payments.income(), harness.payments.calls()), (MicroUsd(0), 5));
    assert_eq!(places(&account(app).await), nothing_but(0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_costs_nothing_twice() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::LosesReply, PaymentBehaviour::LosesReply]);
    let app = &harness.start("a").app;
    assert_eq!(buy(app).await.state, State::Completed);
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(places(&account(app).await), nothing_but(100));
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_keeps_failing_goes_to_a_person_who_can_have_it_tried_again() {
    let harness = shop("rollback");
    harness.payments.script_charges([
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ]);
    harness.payments.script_refunds([PaymentBehaviour::Unavailable; 4]);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.state, State::Manual);
    assert_eq!(bought.steps[1].state, StepState::Stuck);
    assert_eq!(bought.steps[0].state, StepState::Undone, "the others are undone all the same");
    assert_eq!(places(&account(app).await), nothing_but(0));
    assert_eq!(purchases::waiting_for_a_person(app, 10).await.unwrap().len(), 1);
    let notices = harness.notifier.notices();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].body.contains("could not be undone: take_payment"), "{}", notices[0].body);

    let again = Decision::RollBack { reason: "the service is back".into() };
    purchase::decide(app, &bought.id, "ann", again).await.unwrap();
    let bought = purchase::drive(app, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(purchases::waiting_for_a_person(app, 10).await.unwrap().len(), 0);
    trail_is_whole(app, &bought).await;
}

#[tokio::test(start_paused = true)]
async fn manual_stops_and_a_person_resumes_or_resolves() {
    let harness = shop("manual");
    let away = [PaymentBehaviour::Unavailable; 4];
    harness.payments.script_charges(away);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.state, State::Manual);
    assert_eq!(account(app).await.ordered, 100);
    purchase::decide(app, &bought.id, "ann", Decision::Resume).await.unwrap();
    let bought = purchase::drive(app, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.state, harness.payments.income()), (State::Completed, PRICE));
    assert_eq!(harness.payments.charges()[0].method, Some(Secret::new("card of ann")), "still known then");

    harness.payments.script_charges(away);
    let other = buy(app).await;
    let resolve = Decision::Resolve { note: "paid by cheque".into() };
    assert_eq!(account(app).await.ordered, 100);
    assert_eq!(purchase::decide(app, &other.id, "ann", resolve).await.unwrap().state, State::Resolved);
    assert_eq!(places(&account(app).await), nothing_but(100), "its place is given back");
    assert!(matches!(
        purchase::decide(app, &other.id, "ann", Decision::Resume).await,
        Err(PurchaseError::NotAllowed(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_was_in_doubt_stays_in_doubt_when_a_person_resumes() {
    for strategy in ["manual", "rollback"] {
        let harness = shop(strategy);
        let silence = [
            PaymentBehaviour::LosesReply,
            PaymentBehaviour::Unavailable,
            PaymentBehaviour::Unavailable,
            PaymentBehaviour::Unavailable,
        ];
        harness.payments.script_charges(silence.into_iter().chain([PaymentBehaviour::Declines]));
        harness.payments.script_refunds([PaymentBehaviour::Unavailable; 4]);
        let app = &harness.start("a").app;
        let bought = buy(app).await;
        assert_eq!((bought.state, harness.payments.income()), (State::Manual, PRICE));
        let bought = match strategy {
            "manual" => {
                purchase::decide(app, &bought.id, "ann", Decision::Resume).await.unwrap();
                let declined = purchase::drive(app, &bought.id, LONG).await.unwrap();
                assert_eq!(declined.steps[1].state, StepState::Unknown, "the first charge was taken");
                harness.payments.script_refunds([]);
                declined
            }
            _ => bought,
        };
        let back = Decision::RollBack { reason: "asked for".into() };
        purchase::decide(app, &bought.id, "ann", back).await.unwrap();
        let bought = purchase::drive(app, &bought.id, LONG).await.unwrap();
        assert_eq!(
            (bought.state, harness.payments.income()),
            (State::Compensated, MicroUsd(0)),
            "{strategy}"
        );
        assert_eq!(places(&account(app).await), nothing_but(0));
        trail_is_whole(app, &bought).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_way_back_that_is_stuck_takes_nothing_from_other_purchases() {
    let harness = shop("manual");
    let app = &harness.start("a").app;
    let spent = buy(app).await;
    let cause = Cause::Operator { by: "ann".into(), note: "spent".into() };
    accounts::change(app, &tenant(), "ann", &AccountEvent::Deducted { credits: 100, cause }).await.unwrap();
    harness.payments.script_charges([PaymentBehaviour::Unavailable; 4]);
    let waits = buy(app).await;
    assert_eq!(places(&account(app).await), (0, 0, 100, 0));
    let back = || Decision::RollBack { reason: "returned".into() };
    purchase::decide(app, &spent.id, "ann", back()).await.unwrap();
    let spent = purchase::drive(app, &spent.id, LONG).await.unwrap();
    assert_eq!((spent.state, spent.steps[3].state), (State::Manual, StepState::Stuck));
    assert_eq!(spent.steps[1].state, StepState::Undone, "the money is given back all the same");
    assert_eq!(places(&account(app).await), (0, 0, 100, 0), "the other's order is left alone");

    purchase::decide(app, &waits.id, "ann", Decision::Resume).await.unwrap();
    assert_eq!(purchase::drive(app, &waits.id, LONG).await.unwrap().state, State::Completed);
    assert_eq!(places(&account(app).await), nothing_but(100));
    // There are credits again: what was stuck goes on, in its order.
    purchase::decide(app, &spent.id, "ann", back()).await.unwrap();
    let spent = purchase::drive(app, &spent.id, LONG).await.unwrap();
    assert_eq!(spent.state, State::Compensated);
    assert_eq!(places(&account(app).await), nothing_but(0));
    assert_eq!(harness.payments.income(), PRICE);
}

#[tokio::test(start_paused = true)]
async fn what_our_own_books_refuse_was_not_done_however_often_it_was_tried() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (begun, _) = purchase::begin(app, wish(None)).await.unwrap();
    // Somebody began to reserve, and died; then the account filled up.
    let kept = purchases::find(app, &begun.id).await.unwrap().unwrap();
    let starting = kept.value.starting(kept.value.task(), app.clock.now()).unwrap();
    purchases::advance(app, &kept, &[starting], &[]).await.unwrap().unwrap();
    let cause = Cause::Operator { by: "ann".into(), note: "all of it".into() };
    let full = AccountEvent::Added { credits: everypage_core::domain::account::MOST_CREDITS, cause };
    accounts::change(app, &tenant(), "ann", &full).await.unwrap();
    let bought = purchase::drive(app, &begun.id, LONG).await.unwrap();
    assert_eq!((bought.state, bought.steps[0].state), (State::Compensated, StepState::Refused));
    assert_eq!((harness.payments.calls(), account(app).await.ordered), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_payment_service_leaves_purchases_alone() {
    let mut harness = shop("rollback");
    let (begun, _) = purchase::begin(&harness.start("a").app, wish(None)).await.unwrap();
    harness.settings = everypage_tests::harness::settings(&[]);
    let stranger = &harness.start("b").app;
    assert_eq!(sweep(stranger).await.purchases, 0);
    assert_eq!(purchase::drive(stranger, &begun.id, LONG).await.unwrap().state, State::Running);
    let looking = purchase::run(stranger);
    assert!(everypage_core::ports::clock::within(stranger.clock.as_ref(), LONG, looking).await.is_none());
    harness.settings = everypage_tests::harness::settings(&SHOP);
    let bought = purchase::drive(&harness.start("c").app, &begun.id, LONG).await.unwrap();
    assert_eq!((bought.state, harness.payments.calls()), (State::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_method_that_can_t_be_read_any_more_ends_the_purchase() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (begun, _) = purchase::begin(app, wish(None)).await.unwrap();
    let key = Key::new(format!("purchase#{}", begun.id), "method");
    let mut item = harness.records.get(&key).await.unwrap().unwrap();
    item.draft.body = "\"sealed by somebody else\"".into();
    let change = Change::Put { draft: item.draft, when: When::Version(item.version) };
    harness.records.write(&Batch { stamp: "lost key".into(), changes: vec![change] }).await.unwrap();
    let bought = purchase::drive(app, &begun.id, LONG).await.unwrap();
    assert_eq!((bought.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert!(bought.reason.as_ref().unwrap().contains("how it is paid can't be read"), "{:?}", bought.reason);
    assert_eq!(places(&account(app).await), nothing_but(0));
}

#[tokio::test(start_paused = true)]
async fn forward_goes_on_for_as_long_as_it_takes() {
    let harness = shop("forward");
    harness.payments.script_charges([PaymentBehaviour::Unavailable; 12]);
    let app = &harness.start("a").app;
    assert_eq!(buy(app).await.state, State::Completed);
    assert_eq!(places(&account(app).await), nothing_but(100));
}

#[tokio::test(start_paused = true)]
async fn a_completed_purchase_is_taken_back_while_its_credits_are_there() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    let back = || Decision::RollBack { reason: "returned".into() };
    purchase::decide(app, &bought.id, "ann", back()).await.unwrap();
    let bought = purchase::drive(app, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(places(&account(app).await), nothing_but(0));
    let amounts: Vec<i64> =
        accounts::ledger(app, &tenant()).await.unwrap().iter().map(|line| line.amount).collect();
    assert_eq!(amounts, [100, -100], "the ledger forgets nothing");

    // Spent credits can't be taken back: the balance never goes below zero, and a person decides.
    let other = buy(app).await;
    let cause = Cause::Operator { by: "ann".into(), note: "spent".into() };
    accounts::change(app, &tenant(), "ann", &AccountEvent::Deducted { credits: 1, cause }).await.unwrap();
    purchase::decide(app, &other.id, "ann", back()).await.unwrap();
    let other = purchase::drive(app, &other.id, LONG).await.unwrap();
    assert_eq!(other.state, State::Manual);
    assert_eq!(account(app).await.balance, 99);
    assert_eq!(other.steps[3].state, StepState::Stuck);
}

#[tokio::test(start_paused = true)]
async fn two_who_go_on_with_one_purchase_make_one_of_it() {
    let harness = shop("rollback");
    let (a, b) = (harness.start("a").app, harness.start("b").app);
    let (begun, _) = purchase::begin(&a, wish(None)).await.unwrap();
    let (one, other) =
        tokio::join!(purchase::drive(&a, &begun.id, LONG), purchase::drive(&b, &begun.id, LONG));
    assert_eq!((one.unwrap().state, other.unwrap().state), (State::Completed, State::Completed));
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(places(&account(&a).await), nothing_but(100));
}

#[tokio::test(start_paused = true)]
async fn a_purchase_that_was_left_half_way_is_found_by_the_sweep_and_by_serve() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (begun, _) = purchase::begin(app, wish(None)).await.unwrap();
    assert!(sweep(app).await.purchases > 0);
    assert_eq!(purchases::find(app, &begun.id).await.unwrap().unwrap().value.state, State::Completed);
    let (begun, _) = purchase::begin(app, wish(None)).await.unwrap();
    let found =
        everypage_core::ports::clock::within(app.clock.as_ref(), Duration::from_secs(30), purchase::run(app));
    assert!(found.await.is_none());
    assert_eq!(purchases::find(app, &begun.id).await.unwrap().unwrap().value.state, State::Completed);
    assert_eq!(places(&account(app).await), nothing_but(200));
}

/// A purchase as a caller makes it who asks again until it is written down.
async fn run(moods: &[PaymentBehaviour], faults: Arc<Faults>) -> Harness {
    let harness = Harness::with_faults(&SHOP, faults, false);
    harness.payments.script_charges(moods.iter().copied());
    let app = harness.start("a").app;
    let whole = async {
        for _ in 0..10 {
            if let Ok((begun, _)) = purchase::begin(&app, wish(Some("order"))).await
                && purchase::drive(&app, &begun.id, LONG).await.is_ok()
            {
                return;
            }
            app.clock.sleep(Duration::from_secs(1)).await;
        }
    };
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        () = whole => {}
    }
    harness
}

/// Money and credits have gone together, or neither has.
async fn check(harness: &Harness, what: &str) {
    harness.faults.resume();
    let app = &harness.start("b").app;
    // A step that somebody died in is left alone for a minute.
    harness.advance(Duration::from_secs(61)).await;
    let (begun, _) = purchase::begin(app, wish(Some("order"))).await.unwrap();
    let bought = purchase::drive(app, &begun.id, LONG).await.unwrap();
    let account = account(app).await;
    match bought.state {
        State::Completed => {
            assert_eq!(harness.payments.income(), PRICE, "{what}");
            assert_eq!(places(&account), nothing_but(100), "{what}");
        }
        State::Compensated => {
            assert_eq!(harness.payments.income(), MicroUsd(0), "{what}");
            assert_eq!(places(&account), nothing_but(0), "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
    trail_is_whole(app, &bought).await;
    assert_eq!(purchases::under_way(app, 10).await.unwrap().len(), 0, "{what}");
    let method = Key::new(format!("purchase#{}", bought.id), "method");
    assert_eq!(harness.records.get(&method).await.unwrap(), None, "{what}");
}

async fn walk(moods: &[PaymentBehaviour]) {
    let harness = run(moods, Faults::none()).await;
    let calls = harness.faults.calls();
    assert!(calls > 20, "{calls}");
    check(&harness, "no fault").await;
    for at in 0..calls {
        for (times, mode) in [(1, Mode::Refuse), (1, Mode::LoseReply), (3, Mode::Refuse), (5, Mode::Refuse)] {
            let harness = run(moods, Faults::at(at, times, mode)).await;
            check(&harness, &format!("{mode:?} × {times} of call {at} ({:?})", harness.faults.failed_call()))
                .await;
        }
        let harness = run(moods, Faults::stop_at(at)).await;
        check(&harness, &format!("killed at call {at} ({:?})", harness.faults.failed_call())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_or_dies_on_the_way_forward() {
    walk(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_or_dies_on_the_way_back() {
    walk(&[
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ])
    .await;
    walk(&[PaymentBehaviour::Declines]).await;
}

/// Somebody else changes the account whenever it was read.
struct Busy {
    other: Arc<App>,
    times: AtomicUsize,
}

#[async_trait]
impl FaultInjector for Busy {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.write" && self.times.fetch_add(1, Ordering::SeqCst) < 6 {
            let cause = Cause::Operator { by: "ann".into(), note: String::new() };
            let granted = AccountEvent::Added { credits: 1, cause };
            accounts::change(&self.other, &tenant(), "ann", &granted).await.unwrap();
        }
        Injection::None
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_purchase_does_not_wait_because_others_are_at_the_account() {
    let harness = shop("rollback");
    let other = harness.start("other");
    let busy = Arc::new(Busy { other: other.app.clone(), times: AtomicUsize::default() });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, busy)));
    let began = harness.clock.now();
    let bought = buy(&process.app).await;
    assert_eq!(bought.state, State::Completed);
    assert_eq!(harness.clock.now(), began, "no step was left for later");
}
