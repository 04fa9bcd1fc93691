use proptest::prelude::*;

use super::*;

fn job() -> Cause {
    Cause::Job { job: JobId::new("j") }
}

fn purchase() -> Cause {
    Cause::Purchase { purchase: PurchaseId::new("p") }
}

fn operator() -> Cause {
    Cause::Operator { by: "ann".into(), note: "welcome".into() }
}

fn account(balance: u64) -> Account {
    Account { balance, ..Account::new(TenantId::new("t")) }
}

#[test]
fn a_job_reserves_spends_and_releases_credits() {
    let account = account(10);
    let reserved = account.apply(&AccountEvent::Reserved { credits: 7, cause: job() }).unwrap();
    assert_eq!((reserved.balance, reserved.available()), (10, 3));
    let settled =
        reserved.apply(&AccountEvent::Settled { credits: 5, job: JobId::new("j"), deducted: false }).unwrap();
    assert_eq!((settled.balance, settled.available()), (5, 3));
    let released = settled.apply(&AccountEvent::Released { credits: 2, cause: job() }).unwrap();
    assert_eq!((released.balance, released.available()), (5, 5));
}

#[test]
fn reserved_credits_are_neither_reserved_again_nor_deducted() {
    let reserved = account(10).apply(&AccountEvent::Reserved { credits: 7, cause: job() }).unwrap();
    let refused = Refused::NotEnough { needed: 4, available: 3 };
    assert_eq!(reserved.apply(&AccountEvent::Reserved { credits: 4, cause: job() }), Err(refused.clone()));
    assert_eq!(reserved.apply(&AccountEvent::Deducted { credits: 4, cause: operator() }), Err(refused));
    let message = Refused::NotEnough { needed: 4, available: 3 }.to_string();
    assert_eq!(message, "not enough credits: 4 are needed and 3 are available");
}

#[test]
fn bought_credits_reach_the_balance_with_the_ledger_and_can_be_undone() {
    let events = [
        AccountEvent::Reserved { credits: 5, cause: purchase() },
        AccountEvent::Allocated { credits: 5, purchase: PurchaseId::new("p") },
        AccountEvent::Added { credits: 5, cause: purchase() },
        AccountEvent::Deducted { credits: 5, cause: purchase() },
        AccountEvent::TakenBack { credits: 5, purchase: PurchaseId::new("p") },
        AccountEvent::Released { credits: 5, cause: purchase() },
    ];
    let mut now = account(1);
    let mut seen = Vec::new();
    for event in &events {
        now = now.apply(event).unwrap();
        seen.push((now.ordered, now.allocated, now.balance));
    }
    assert_eq!(seen, [(5, 0, 1), (0, 5, 1), (0, 0, 6), (0, 5, 1), (5, 0, 1), (0, 0, 1)]);
}

#[test]
fn an_account_never_exceeds_the_limit() {
    let full = account(MAX_CREDITS - 1);
    assert!(full.apply(&AccountEvent::Added { credits: 1, cause: operator() }).is_ok());
    for credits in [2, u64::MAX] {
        let refused = full.apply(&AccountEvent::Added { credits, cause: operator() });
        assert!(matches!(refused, Err(Refused::TooMany { .. })), "{refused:?}");
        let refused = full.apply(&AccountEvent::Reserved { credits, cause: purchase() });
        assert!(matches!(refused, Err(Refused::TooMany { .. })), "{refused:?}");
    }
}

fn any_event() -> impl Strategy<Value = AccountEvent> {
    let cause = prop_oneof![Just(job()), Just(purchase()), Just(operator())];
    (0..7u8, prop_oneof![0..20u64, Just(MAX_CREDITS), Just(u64::MAX)], cause).prop_map(
        |(kind, credits, cause)| {
            let purchase = PurchaseId::new("p");
            match kind {
                0 => AccountEvent::Reserved { credits, cause },
                1 => AccountEvent::Settled { credits, job: JobId::new("j"), deducted: false },
                2 => AccountEvent::Released { credits, cause },
                3 => AccountEvent::Allocated { credits, purchase },
                4 => AccountEvent::TakenBack { credits, purchase },
                5 => AccountEvent::Added { credits, cause },
                _ => AccountEvent::Deducted { credits, cause },
            }
        },
    )
}

proptest! {
    #[test]
    fn after_any_events_the_balance_is_the_sum_of_the_ledger_and_covers_reservations(
        events in prop::collection::vec(any_event(), 0..60)
    ) {
        let mut now = account(0);
        let mut sum = 0;
        for event in &events {
            // A refused event changes nothing; any other keeps every rule.
            if let Ok(next) = now.apply(event) {
                sum += LedgerEntry::of(&now, &next, event, jiff::Timestamp::UNIX_EPOCH)
                    .map_or(0, |line| line.amount);
                now = next;
            }
            prop_assert_eq!(now.balance as i64, sum);
            let figures = now.figures.clone().unwrap();
            prop_assert_eq!(figures.earned - figures.spent, now.balance);
            prop_assert!(now.reserved <= now.balance);
            prop_assert!(now.balance + now.ordered + now.allocated <= MAX_CREDITS);
        }
    }
}
