//! Credits as an operator uses them: granted, bought, spent and corrected.

use everypage_testkit::{fake_payment_server::FakePaymentServer, memory::PaymentBehaviour};

use crate::support::{Bench, report};

async fn shop(payment_server: &FakePaymentServer) -> Bench {
    let bench = Bench::new(&["answer"]).await;
    bench
        .with("CREDITS", "prepaid")
        .with("PAYMENT_URL", &payment_server.url())
        .with("CREDIT_PRICE_USD", "0.05")
        .with("RETRY_INTERVALS", "10ms,10ms,10ms")
}

#[tokio::test]
async fn a_document_needs_credits_and_pays_for_the_pages_read() {
    let payment_server = FakePaymentServer::start().await.unwrap();
    let bench = shop(&payment_server).await;
    let ran = bench.run(&["process", &report()]).await;
    ran.reports("not enough credits: 4 are needed and 0 are available");

    let ran = bench.run(&["account", "grant", "3", "--note", "welcome"]).await.code(0);
    ran.prints("tenant local has 3 credits, 3 available");
    bench.run(&["purchases", "buy", "7"]).await.code(0).prints("of 7 credits is completed");
    assert_eq!(payment_server.payments.income().0, 350_000);
    bench.run(&["process", &report()]).await.code(0);

    let account = bench.run(&["account", "show", "--json"]).await.code(0).json();
    assert_eq!((&account[0]["balance"], &account[0]["reserved"]), (&6.into(), &0.into()));
    let ledger = bench.run(&["account", "ledger", "--json"]).await.code(0).json();
    let amounts: Vec<_> = ledger.as_array().unwrap().iter().map(|line| line["amount"].as_i64()).collect();
    assert_eq!(amounts, [Some(-4), Some(7), Some(3)]);
    bench.run(&["account", "ledger"]).await.code(0).prints("welcome (by cli)");
    bench.run(&["account", "verify"]).await.code(0).prints("the account of tenant local is consistent");
    let ran = bench.run(&["account", "deduct", "7", "--note", "too many"]).await.code(1);
    ran.reports("7 are needed and 6 are available");
    bench.run(&["events", "verify", "--all"]).await.code(0).prints("audit trails are intact");
    bench.run(&["events", "verify", "account/local"]).await.code(0).prints("of account/local is intact");
    bench
        .run(&["events", "verify", "account/unknown"])
        .await
        .code(1)
        .reports("account/unknown has no events");
    bench.run(&["events", "verify", "accounts/local"]).await.code(2).reports("account/TENANT");
    let replayed = bench.run(&["events", "replay", "account/local"]).await.code(0).json();
    assert_eq!((&replayed["balance"], &replayed["figures"]["earned"]), (&6.into(), &10.into()));
    let listed =
        bench.run(&["events", "list", "--aggregate", "account/local", "--type", "credit.added"]).await;
    assert_eq!(listed.code(0).stdout.matches("credit.added").count(), 2);
    let mut events = bench.run(&["events", "list"]).await.code(0);
    for kind in ["credit.added", "credit.reserved", "credit.settled", "saga.completed", "payment.completed"] {
        events = events.prints(kind);
    }
}

#[tokio::test]
async fn a_stuck_purchase_needs_manual_action_and_can_be_rolled_back() {
    let payment_server = FakePaymentServer::start().await.unwrap();
    payment_server.payments.script_charges([
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ]);
    payment_server.payments.script_refunds([PaymentBehaviour::Unavailable; 4]);
    let bench = shop(&payment_server).await;
    bench.run(&["purchases", "buy", "10"]).await.code(1).prints("needs manual action");
    let waiting = bench.run(&["purchases", "waiting", "--json"]).await.code(0).json();
    let id = waiting[0]["id"].as_str().unwrap();
    bench.run(&["purchases", "show", id]).await.code(0).prints("take_payment").prints("stuck");
    bench.run(&["purchases", "resume", id]).await.code(1).reports("may have been refunded");
    let ran = bench.run(&["purchases", "rollback", id, "--reason", "the service is back"]).await;
    ran.prints("was rolled back");
    assert_eq!(payment_server.payments.income().0, 0);
    bench.run(&["purchases", "waiting"]).await.code(0).reports("no purchase needs manual action");
}

#[tokio::test]
async fn without_a_payment_service_no_credits_are_sold_and_unlimited_tenants_need_none() {
    let bench = Bench::new(&[]).await;
    bench.run(&["purchases", "buy", "10"]).await.code(2).reports("PAYMENT_URL and CREDIT_PRICE_USD");
    bench.run(&["account", "show"]).await.code(0).reports("needs no credits");
    let half = Bench::new(&[]).await.with("PAYMENT_URL", "http://127.0.0.1:9");
    half.run(&["config", "check"]).await.code(2).reports("CREDIT_PRICE_USD is not");
}
