//! Buying credits: the payment and the credits are both made or both undone, under any fault.

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
    billing::{
        account::{Account, AccountEvent, Cause, MAX_CREDITS},
        accounts,
        buy::{self, PurchaseError, PurchaseRequest},
        purchase::Purchase,
        purchases,
    },
    event::{Aggregate, verify},
    events::trail,
    finish::verify::verify_account,
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    notices::send,
    notify::relay,
    ports::{
        clock::Clock,
        records::{Batch, Change, Key, Records, When},
    },
    recover::sweep::sweep,
    sagas::{
        decide::Decision,
        progress::{State, StepState},
        run,
    },
    secret::Secret,
    time::within,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    memory::PaymentBehaviour,
};
use everypage_tests::harness::Harness;

const SHOP: [(&str, &str); 3] =
    [("CREDITS", "prepaid"), ("PAYMENT_URL", "http://pay.example"), ("CREDIT_PRICE_USD", "0.0525")];
/// The price of 100 credits at 0.0525 USD.
const PRICE: MicroUsd = MicroUsd(5_250_000);
const LONG: Duration = Duration::from_secs(7200);

fn shop(strategy: &str) -> Harness {
    Harness::new(&[SHOP[0], SHOP[1], SHOP[2], ("PURCHASE_STRATEGY", strategy)])
}

fn tenant() -> TenantId {
    TenantId::new("acme")
}

fn order(key: Option<&str>) -> PurchaseRequest {
    PurchaseRequest {
        tenant: tenant(),
        by: "ann".into(),
        credits: 100,
        method: Some(Secret::new("card of ann")),
        idempotency_key: key.map(str::to_owned),
    }
}

async fn buy(app: &App) -> Purchase {
    let (started, existed) = buy::start(&app.billing, order(None)).await.unwrap();
    assert!(!existed);
    buy::drive(&app.billing, &started.id, LONG).await.unwrap()
}

/// The account, which must verify.
async fn account(app: &App) -> Account {
    assert_eq!(verify_account(&app.store, &tenant()).await.unwrap(), Vec::<String>::new());
    accounts::load(&app.store, &tenant()).await.unwrap().value
}

async fn verified_trail(app: &App, purchase: &Purchase) -> Vec<String> {
    let events = trail::read(&app.store, &Aggregate::Purchase(purchase.id.clone())).await.unwrap();
    verify(&events, &purchase.head).unwrap();
    assert_eq!(Purchase::replay(&events).unwrap().as_ref(), Some(purchase));
    events.into_iter().map(|event| event.kind).collect()
}

fn only_balance(balance: u64) -> (u64, u64, u64, u64) {
    (balance, 0, 0, 0)
}

fn amounts(account: &Account) -> (u64, u64, u64, u64) {
    (account.balance, account.reserved, account.ordered, account.allocated)
}

#[tokio::test(start_paused = true)]
async fn paid_credits_are_in_the_ledger() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.progress.state, State::Completed);
    assert_eq!((harness.payments.income(), harness.payments.charges()[0].credits), (PRICE, 100));
    assert_eq!(harness.payments.charges()[0].method, Some(Secret::new("card of ann")));
    assert_eq!(amounts(&account(app).await), only_balance(100));
    let line = &accounts::ledger(&app.store, &tenant()).await.unwrap()[0];
    assert_eq!((line.amount, &line.cause), (100, &Cause::Purchase { purchase: bought.id.clone() }));
    let kinds = verified_trail(app, &bought).await;
    assert_eq!(kinds.first().unwrap(), "saga.started");
    assert_eq!(kinds[kinds.len() - 2..], ["saga.step_done", "saga.completed"]);
    assert!(kinds.contains(&"payment.completed".to_owned()));
    // The payment method is deleted, and is in no event.
    let method = Key::new(format!("purchase#{}", bought.id), "method");
    assert_eq!(harness.records.get(&method).await.unwrap(), None);
    relay::relay(&app.publisher, &app.store.node).await.unwrap();
    let published = serde_json::to_string(&harness.bus.events()).unwrap();
    assert!(published.contains("credit.added") && !published.contains("card of ann"), "{published}");
}

#[tokio::test(start_paused = true)]
async fn the_same_order_twice_is_one_purchase() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (first, _) = buy::start(&app.billing, order(Some("order 1"))).await.unwrap();
    buy::drive(&app.billing, &first.id, LONG).await.unwrap();
    let (second, existed) = buy::start(&app.billing, order(Some("order 1"))).await.unwrap();
    assert_eq!((second.id, second.progress.state, existed), (first.id, State::Completed, true));
    let other = buy::start(&app.billing, PurchaseRequest { credits: 7, ..order(Some("order 1")) }).await;
    assert_eq!(other, Err(PurchaseError::KeyReused { key: "order 1".into() }));
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(purchases::list_page(&app.store, &tenant(), None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_order_is_refused_before_anything_is_stored() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    for credits in [0, u64::MAX] {
        let refused = buy::start(&app.billing, PurchaseRequest { credits, ..order(None) }).await.unwrap_err();
        assert_eq!(refused, PurchaseError::BadAmount { credits });
    }
    // A price that overflows.
    let overflowing = Harness::new(&[SHOP[0], SHOP[1], ("CREDIT_PRICE_USD", "1000")]);
    let credits = 1_000_000_000_000;
    let refused = buy::start(&overflowing.start("a").app.billing, PurchaseRequest { credits, ..order(None) })
        .await
        .unwrap_err();
    assert_eq!(refused, PurchaseError::BadAmount { credits });
    let closed = Harness::new(&[("CREDITS", "prepaid")]);
    let refused = buy::start(&closed.start("a").app.billing, order(None)).await.unwrap_err();
    assert!(refused.to_string().contains("PAYMENT_URL"), "{refused}");
    let unknown = PurchaseId::new("unknown");
    assert!(buy::drive(&app.billing, &unknown, LONG).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_declined_payment_leaves_nothing_reserved() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::Declines]);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.progress.state, State::Compensated);
    assert_eq!(bought.progress.reason.as_deref(), Some("the card was declined"));
    assert_eq!(bought.progress.steps[1].state, StepState::Refused);
    assert_eq!(amounts(&account(app).await), only_balance(0));
    assert_eq!(harness.payments.calls(), 1, "a declined charge is neither retried nor refunded");
    assert!(verified_trail(app, &bought).await.contains(&"payment.failed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_decline_after_a_lost_reply_is_refunded() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::LosesReply, PaymentBehaviour::Declines]);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!((bought.progress.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(harness.payments.calls(), 3, "two charges and a refund");
    assert_eq!(amounts(&account(app).await), only_balance(0));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_payment_service_is_tried_four_times_and_then_the_purchase_is_rolled_back() {
    let harness = shop("rollback");
    harness.payments.script_charges([
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ]);
    let app = &harness.start("a").app;
    let started = harness.clock.now();
    let bought = buy(app).await;
    assert_eq!(bought.progress.state, State::Compensated);
    assert_eq!(harness.clock.now().duration_since(started).as_secs(), 1 + 4 + 16);
    // The first call took the money, but its reply was lost.
    assert_eq!((harness.payments.income(), harness.payments.calls()), (MicroUsd(0), 5));
    assert_eq!(amounts(&account(app).await), only_balance(0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_charges_once() {
    let harness = shop("rollback");
    harness.payments.script_charges([PaymentBehaviour::LosesReply, PaymentBehaviour::LosesReply]);
    let app = &harness.start("a").app;
    assert_eq!(buy(app).await.progress.state, State::Completed);
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(amounts(&account(app).await), only_balance(100));
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_keeps_failing_waits_for_an_operator_who_can_retry_it() {
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
    assert_eq!(bought.progress.state, State::Manual);
    assert_eq!(bought.progress.steps[1].state, StepState::Stuck);
    assert_eq!(bought.progress.steps[0].state, StepState::Undone, "the other steps are undone");
    assert_eq!(amounts(&account(app).await), only_balance(0));
    assert_eq!(purchases::list_manual(&app.store, 10).await.unwrap().len(), 1);
    send::send_due(&app.notices).await.unwrap();
    let notices = harness.notifier.notices();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].body.contains("could not be undone: take_payment"), "{}", notices[0].body);

    let again = Decision::RollBack { reason: "the service is back".into() };
    buy::decide(&app.store, &bought.id, "ann", again).await.unwrap();
    let bought = buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.progress.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(purchases::list_manual(&app.store, 10).await.unwrap().len(), 0);
    verified_trail(app, &bought).await;
}

#[tokio::test(start_paused = true)]
async fn a_manual_purchase_stops_until_an_operator_resumes_or_resolves_it() {
    let harness = shop("manual");
    let unavailable = [PaymentBehaviour::Unavailable; 4];
    harness.payments.script_charges(unavailable);
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    assert_eq!(bought.progress.state, State::Manual);
    assert_eq!(account(app).await.ordered, 100);
    buy::decide(&app.store, &bought.id, "ann", Decision::Resume).await.unwrap();
    let bought = buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.progress.state, harness.payments.income()), (State::Completed, PRICE));
    assert_eq!(
        harness.payments.charges()[0].method,
        Some(Secret::new("card of ann")),
        "the method is still stored then"
    );

    harness.payments.script_charges(unavailable);
    let other = buy(app).await;
    let resolve = Decision::Resolve { note: "paid by cheque".into() };
    assert_eq!(account(app).await.ordered, 100);
    assert_eq!(
        buy::decide(&app.store, &other.id, "ann", resolve).await.unwrap().progress.state,
        State::Resolved
    );
    assert_eq!(amounts(&account(app).await), only_balance(100), "its pending credits are released");
    assert!(matches!(
        buy::decide(&app.store, &other.id, "ann", Decision::Resume).await,
        Err(PurchaseError::NotAllowed(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_payment_in_doubt_stays_in_doubt_when_an_operator_resumes() {
    for strategy in ["manual", "rollback"] {
        let harness = shop(strategy);
        let no_reply = [
            PaymentBehaviour::LosesReply,
            PaymentBehaviour::Unavailable,
            PaymentBehaviour::Unavailable,
            PaymentBehaviour::Unavailable,
        ];
        harness.payments.script_charges(no_reply.into_iter().chain([PaymentBehaviour::Declines]));
        harness.payments.script_refunds([PaymentBehaviour::Unavailable; 4]);
        let app = &harness.start("a").app;
        let bought = buy(app).await;
        assert_eq!((bought.progress.state, harness.payments.income()), (State::Manual, PRICE));
        let bought = match strategy {
            "manual" => {
                buy::decide(&app.store, &bought.id, "ann", Decision::Resume).await.unwrap();
                let declined = buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
                assert_eq!(
                    declined.progress.steps[1].state,
                    StepState::Unknown,
                    "the first charge was taken"
                );
                harness.payments.script_refunds([]);
                declined
            }
            _ => bought,
        };
        let back = Decision::RollBack { reason: "requested".into() };
        buy::decide(&app.store, &bought.id, "ann", back).await.unwrap();
        let bought = buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
        assert_eq!(
            (bought.progress.state, harness.payments.income()),
            (State::Compensated, MicroUsd(0)),
            "{strategy}"
        );
        assert_eq!(amounts(&account(app).await), only_balance(0));
        verified_trail(app, &bought).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollback_takes_nothing_from_other_purchases() {
    let harness = shop("manual");
    let app = &harness.start("a").app;
    let spent = buy(app).await;
    let cause = Cause::Operator { by: "ann".into(), note: "spent".into() };
    accounts::change(&app.store, &tenant(), "ann", &AccountEvent::Deducted { credits: 100, cause })
        .await
        .unwrap();
    harness.payments.script_charges([PaymentBehaviour::Unavailable; 4]);
    let waits = buy(app).await;
    assert_eq!(amounts(&account(app).await), (0, 0, 100, 0));
    let back = || Decision::RollBack { reason: "returned".into() };
    buy::decide(&app.store, &spent.id, "ann", back()).await.unwrap();
    let spent = buy::drive(&app.billing, &spent.id, LONG).await.unwrap();
    assert_eq!((spent.progress.state, spent.progress.steps[3].state), (State::Manual, StepState::Stuck));
    assert_eq!(spent.progress.steps[1].state, StepState::Undone, "the money is refunded");
    assert_eq!(
        amounts(&account(app).await),
        (0, 0, 100, 0),
        "the pending credits of the other purchase stay"
    );

    buy::decide(&app.store, &waits.id, "ann", Decision::Resume).await.unwrap();
    assert_eq!(buy::drive(&app.billing, &waits.id, LONG).await.unwrap().progress.state, State::Completed);
    assert_eq!(amounts(&account(app).await), only_balance(100));
    // There are credits again: the stuck rollback continues, in its order.
    buy::decide(&app.store, &spent.id, "ann", back()).await.unwrap();
    let spent = buy::drive(&app.billing, &spent.id, LONG).await.unwrap();
    assert_eq!(spent.progress.state, State::Compensated);
    assert_eq!(amounts(&account(app).await), only_balance(0));
    assert_eq!(harness.payments.income(), PRICE);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_the_account_refuses_counts_as_not_done() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (started, _) = buy::start(&app.billing, order(None)).await.unwrap();
    // A process started to reserve and was killed; then the account filled up.
    let stored = purchases::find(&app.store, &started.id).await.unwrap().unwrap();
    let start =
        stored.value.progress.start(stored.value.progress.next_task().unwrap(), app.store.clock.now());
    purchases::advance(&app.store, &stored, &[start.into()], &[]).await.unwrap().unwrap();
    let cause = Cause::Operator { by: "ann".into(), note: "all of it".into() };
    let full = AccountEvent::Added { credits: MAX_CREDITS, cause };
    accounts::change(&app.store, &tenant(), "ann", &full).await.unwrap();
    let bought = buy::drive(&app.billing, &started.id, LONG).await.unwrap();
    assert_eq!(
        (bought.progress.state, bought.progress.steps[0].state),
        (State::Compensated, StepState::Refused)
    );
    assert_eq!((harness.payments.calls(), account(app).await.ordered), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_payment_service_leaves_purchases_alone() {
    let mut harness = shop("rollback");
    let (started, _) = buy::start(&harness.start("a").app.billing, order(None)).await.unwrap();
    harness.settings = everypage_tests::harness::settings(&[]);
    let without_payments = &harness.start("b").app;
    assert_eq!(sweep(&without_payments.recovery).await.purchases, 0);
    assert_eq!(
        buy::drive(&without_payments.billing, &started.id, LONG).await.unwrap().progress.state,
        State::Running
    );
    let running = run::run(&without_payments.billing);
    assert!(within(without_payments.store.clock.as_ref(), LONG, running).await.is_none());
    harness.settings = everypage_tests::harness::settings(&SHOP);
    let bought = buy::drive(&harness.start("c").app.billing, &started.id, LONG).await.unwrap();
    assert_eq!((bought.progress.state, harness.payments.calls()), (State::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_payment_method_that_cannot_be_opened_ends_the_purchase() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (started, _) = buy::start(&app.billing, order(None)).await.unwrap();
    let key = Key::new(format!("purchase#{}", started.id), "method");
    let mut item = harness.records.get(&key).await.unwrap().unwrap();
    item.draft.body = "\"sealed with another key\"".into();
    let change = Change::Put { draft: item.draft, when: When::Version(item.version) };
    harness.records.write(&Batch { stamp: "lost key".into(), changes: vec![change] }).await.unwrap();
    let bought = buy::drive(&app.billing, &started.id, LONG).await.unwrap();
    assert_eq!((bought.progress.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert!(
        bought.progress.reason.as_ref().unwrap().contains("the payment method can't be read"),
        "{:?}",
        bought.progress.reason
    );
    assert_eq!(amounts(&account(app).await), only_balance(0));
}

#[tokio::test(start_paused = true)]
async fn the_forward_strategy_retries_until_it_succeeds() {
    let harness = shop("forward");
    harness.payments.script_charges([PaymentBehaviour::Unavailable; 12]);
    let app = &harness.start("a").app;
    assert_eq!(buy(app).await.progress.state, State::Completed);
    assert_eq!(amounts(&account(app).await), only_balance(100));
}

#[tokio::test(start_paused = true)]
async fn a_completed_purchase_is_rolled_back_only_while_its_credits_are_unspent() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let bought = buy(app).await;
    let back = || Decision::RollBack { reason: "returned".into() };
    buy::decide(&app.store, &bought.id, "ann", back()).await.unwrap();
    let bought = buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
    assert_eq!((bought.progress.state, harness.payments.income()), (State::Compensated, MicroUsd(0)));
    assert_eq!(amounts(&account(app).await), only_balance(0));
    let amounts: Vec<i64> =
        accounts::ledger(&app.store, &tenant()).await.unwrap().iter().map(|line| line.amount).collect();
    assert_eq!(amounts, [100, -100], "the ledger keeps both lines");

    // Spent credits can't be rolled back: the balance never goes below zero, and an operator decides.
    let other = buy(app).await;
    let cause = Cause::Operator { by: "ann".into(), note: "spent".into() };
    accounts::change(&app.store, &tenant(), "ann", &AccountEvent::Deducted { credits: 1, cause })
        .await
        .unwrap();
    buy::decide(&app.store, &other.id, "ann", back()).await.unwrap();
    let other = buy::drive(&app.billing, &other.id, LONG).await.unwrap();
    assert_eq!(other.progress.state, State::Manual);
    assert_eq!(account(app).await.balance, 99);
    assert_eq!(other.progress.steps[3].state, StepState::Stuck);
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_drive_one_purchase_complete_it_once() {
    let harness = shop("rollback");
    let (a, b) = (harness.start("a").app, harness.start("b").app);
    let (started, _) = buy::start(&a.billing, order(None)).await.unwrap();
    let (one, other) =
        tokio::join!(buy::drive(&a.billing, &started.id, LONG), buy::drive(&b.billing, &started.id, LONG));
    assert_eq!(
        (one.unwrap().progress.state, other.unwrap().progress.state),
        (State::Completed, State::Completed)
    );
    assert_eq!(harness.payments.income(), PRICE);
    assert_eq!(amounts(&account(&a).await), only_balance(100));
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_purchase_is_completed_by_the_sweep_and_by_serve() {
    let harness = shop("rollback");
    let app = &harness.start("a").app;
    let (started, _) = buy::start(&app.billing, order(None)).await.unwrap();
    assert!(sweep(&app.recovery).await.purchases > 0);
    assert_eq!(
        purchases::find(&app.store, &started.id).await.unwrap().unwrap().value.progress.state,
        State::Completed
    );
    let (started, _) = buy::start(&app.billing, order(None)).await.unwrap();
    let found = within(app.store.clock.as_ref(), Duration::from_secs(30), run::run(&app.billing));
    assert!(found.await.is_none());
    assert_eq!(
        purchases::find(&app.store, &started.id).await.unwrap().unwrap().value.progress.state,
        State::Completed
    );
    assert_eq!(amounts(&account(app).await), only_balance(200));
}

/// A purchase by a client that retries until it is stored.
async fn try_to_buy(behaviours: &[PaymentBehaviour], faults: Arc<Faults>) -> Harness {
    let harness = Harness::with_faults(&SHOP, faults, false);
    harness.payments.script_charges(behaviours.iter().copied());
    let app = harness.start("a").app;
    let whole = async {
        for _ in 0..10 {
            if let Ok((started, _)) = buy::start(&app.billing, order(Some("order"))).await
                && buy::drive(&app.billing, &started.id, LONG).await.is_ok()
            {
                return;
            }
            app.store.clock.sleep(Duration::from_secs(1)).await;
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

/// Checks that the payment and the credits are both made or both undone.
async fn check(harness: &Harness, what: &str) {
    harness.faults.resume();
    let app = &harness.start("b").app;
    // A step whose process was killed is not retried for a minute.
    harness.advance(Duration::from_secs(61)).await;
    let (started, _) = buy::start(&app.billing, order(Some("order"))).await.unwrap();
    let bought = buy::drive(&app.billing, &started.id, LONG).await.unwrap();
    let account = account(app).await;
    match bought.progress.state {
        State::Completed => {
            assert_eq!(harness.payments.income(), PRICE, "{what}");
            assert_eq!(amounts(&account), only_balance(100), "{what}");
        }
        State::Compensated => {
            assert_eq!(harness.payments.income(), MicroUsd(0), "{what}");
            assert_eq!(amounts(&account), only_balance(0), "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
    verified_trail(app, &bought).await;
    assert_eq!(purchases::list_active(&app.store, 10).await.unwrap().len(), 0, "{what}");
    let method = Key::new(format!("purchase#{}", bought.id), "method");
    assert_eq!(harness.records.get(&method).await.unwrap(), None, "{what}");
}

async fn walk(behaviours: &[PaymentBehaviour]) {
    let harness = try_to_buy(behaviours, Faults::none()).await;
    let calls = harness.faults.calls();
    assert!(calls > 20, "{calls}");
    check(&harness, "no fault").await;
    for at in 0..calls {
        for (times, mode) in [(1, Mode::Refuse), (1, Mode::LoseReply), (3, Mode::Refuse), (5, Mode::Refuse)] {
            let harness = try_to_buy(behaviours, Faults::at(at, times, mode)).await;
            check(&harness, &format!("{mode:?} × {times} of call {at} ({:?})", harness.faults.failed_call()))
                .await;
        }
        let harness = try_to_buy(behaviours, Faults::stop_at(at)).await;
        check(&harness, &format!("killed at call {at} ({:?})", harness.faults.failed_call())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_purchase_survives_any_fault_or_kill() {
    walk(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_survives_any_fault_or_kill() {
    walk(&[
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ])
    .await;
    walk(&[PaymentBehaviour::Declines]).await;
}

/// Another process changes the account before each of the first writes.
struct ContendedAccount {
    other: Arc<App>,
    times: AtomicUsize,
}

#[async_trait]
impl FaultInjector for ContendedAccount {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.write" && self.times.fetch_add(1, Ordering::SeqCst) < 6 {
            let cause = Cause::Operator { by: "ann".into(), note: String::new() };
            let granted = AccountEvent::Added { credits: 1, cause };
            accounts::change(&self.other.store, &tenant(), "ann", &granted).await.unwrap();
        }
        Injection::None
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_purchase_does_not_wait_when_the_account_is_contended() {
    let harness = shop("rollback");
    let other = harness.start("other");
    let injector = Arc::new(ContendedAccount { other: other.app.clone(), times: AtomicUsize::default() });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, injector)));
    let started = harness.clock.now();
    let bought = buy(&process.app).await;
    assert_eq!(bought.progress.state, State::Completed);
    assert_eq!(harness.clock.now(), started, "no step was postponed");
}
