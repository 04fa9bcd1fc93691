//! Which calls may be doubled, over all processes.

use everypage_testkit::faulty::{Faults, Mode};
use everypage_tests::harness::{Harness, Process};

async fn call_and_hedge(process: &Process, calls: usize, hedges: usize) -> usize {
    for _ in 0..calls {
        process.app.reader.hedges.count_call();
    }
    let mut taken = 0;
    for _ in 0..hedges {
        taken += usize::from(process.app.reader.hedges.take().await);
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn many_small_processes_together_double_one_call_in_twenty() {
    let harness = Harness::new(&[]);
    let mut hedges = 0;
    for number in 0..20 {
        hedges += call_and_hedge(&harness.start(&format!("p{number}")), 6, 2).await;
    }
    assert_eq!(hedges, 6, "of 120 calls");
}

#[tokio::test(start_paused = true)]
async fn a_busy_process_does_not_ask_for_what_it_has_earned() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let before = harness.faults.calls();
    assert_eq!(call_and_hedge(&process, 45, 2).await, 2);
    assert_eq!(harness.faults.calls(), before, "no call to the records");
    assert_eq!(call_and_hedge(&process, 1, 9).await, 1, "what is left is rounded up once");
    assert_eq!(call_and_hedge(&harness.start("b"), 10, 1).await, 0);
}

/// A write whose reply is lost may have been done: its calls do not count twice.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_costs_a_hedge_and_gives_none() {
    let at = |at| Harness::with_faults(&[], Faults::at(at, 1, Mode::LoseReply), false);
    for call in 0..2 {
        let harness = at(call);
        let (one, other) = (harness.start("a"), harness.start("b"));
        let hedges = call_and_hedge(&one, 15, 1).await + call_and_hedge(&other, 4, 1).await;
        assert!(hedges <= 1, "{hedges} hedges of 19 calls, with call {call} lost");
    }
}
