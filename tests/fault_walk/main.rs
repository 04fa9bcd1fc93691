//! Every port call of the whole flow in turn: refused, refused three times, or done with its reply lost;
//! the process killed there; every message delivered twice. In good weather and in bad.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scenarios;

use std::{collections::BTreeSet, time::Duration};

use everypage_core::{
    admission::line, dead_letters, event::Aggregate, events::trail, ids::JobId, job::State, job::jobs,
    notify::relay, ports::clock::Clock,
};
use everypage_testkit::faulty::{Faults, Mode};
use everypage_tests::{
    harness::{Process, seconds},
    invariants,
};
use scenarios::{Run, Scenario};

/// Submits until the document is accepted, like a client that retries.
async fn submit(run: &Run, process: &Process) -> JobId {
    for _ in 0..10 {
        match process.submit_with(&run.document(), |_| {}, Some("secret word"), None).await {
            Ok(submitted) => return submitted.job.id,
            Err(_) => process.app.store.clock.sleep(Duration::from_secs(1)).await,
        }
    }
    panic!("never accepted");
}

async fn finish(run: &Run) -> (Process, JobId) {
    let process = run.start("a");
    let id = submit(run, &process).await;
    process.finish(&id).await;
    (process, id)
}

/// What must hold of every run, if the answers of `lost` calls could not be stored.
async fn check(run: &Run, process: &Process, id: &JobId, lost: usize, what: &str) {
    println!("{}: {what}", run.scenario.name);
    let (harness, pages) = (&run.harness, run.scenario.pages);
    let job = process.job(id).await;
    assert_eq!(job.state, State::Audited, "{what}: {:?}", job.failure);
    assert!(job.finished_at.unwrap() <= job.deadline + Duration::from_secs(1), "{what}: after its deadline");
    invariants::result_is_whole(&process.app, &job, pages).await;
    // The weather clears long before the deadline: a model reads every page that was sent to one.
    invariants::read_and_recorded(&process.result(&job).await, &harness.vision, pages - 1, lost);
    invariants::answered_once(&harness.vision, lost + run.scenario.extra_answers);
    assert_eq!(dead_letters::waiting(&process.app.store, 10).await.unwrap().len(), 0, "{what}: dead letters");
    // The remaining messages are settled, and then no lease is held.
    process.work_for(Duration::from_secs(400)).await;
    assert!(harness.queue.is_empty(), "{what}: messages are left");
    // As a process that lives long does: the seat of a process that was killed in between.
    process.app.admission.recover().await.unwrap();
    let job = process.job(id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let _ = relay::relay(&process.app.publisher, &process.app.store.node).await;
    let _ = relay::relay(&process.app.publisher, "a").await;
    let trail = trail::read(&process.app.store, &Aggregate::Job(id.clone())).await.unwrap();
    invariants::published_in_order(&harness.bus.events(), &trail);
    assert_eq!(jobs::open(&process.app.store).await.unwrap().len(), 0, "{what}: jobs are still open");
    assert_eq!(line::waiting(&process.app.store).await.unwrap(), [], "{what}: jobs still wait");
}

/// The number of port calls of a run without faults, which takes every step that the scenario is for.
async fn calls(scenario: &'static Scenario, twice: bool) -> usize {
    let run = Run::new(scenario, Faults::none(), twice);
    let (process, id) = finish(&run).await;
    let calls = run.harness.faults.calls();
    assert!(calls > 50, "only {calls} port calls: is the whole flow covered?");
    let mut reached = run.records.stored();
    reached.extend(run.harness.faults.called().into_iter().map(str::to_owned));
    for step in scenario.reaches {
        assert!(reached.contains(*step), "{}: {step:?} is not among {reached:?}", scenario.name);
    }
    check(&run, &process, &id, 0, "no fault").await;
    invariants::nothing_is_held(&run.harness.records, run.harness.clock.now());
    calls
}

async fn walk(scenario: &'static Scenario, times: usize, mode: Mode, twice: bool) {
    let calls = calls(scenario, twice).await;
    let mut failed_calls = BTreeSet::new();
    for at in 0..calls {
        let run = Run::new(scenario, Faults::at(at, times, mode), twice);
        let (process, id) = finish(&run).await;
        let failed_call = run.harness.faults.failed_call();
        let what = format!("{mode:?} of call {at} ({failed_call:?}), {times} times");
        failed_calls.extend(failed_call);
        check(&run, &process, &id, 0, &what).await;
        invariants::nothing_is_held(&run.harness.records, run.harness.clock.now());
    }
    println!("{}: {calls} calls walked, {mode:?} × {times}: {failed_calls:?}", scenario.name);
    assert!(failed_calls.len() >= 10, "{failed_calls:?}");
}

/// The process is killed between any two port calls, and its memory is lost.
async fn kill(scenario: &'static Scenario) {
    for at in 0..calls(scenario, false).await {
        // A call that never returns is a process that stops there.
        let run = Run::new(scenario, Faults::stop_at(at), false);
        let first = run.start("a");
        let killed = async {
            let id = submit(&run, &first).await;
            first.finish(&id).await;
        };
        let stopped = run.harness.faults.stopped();
        tokio::select! { () = killed => {}, () = stopped => {} }
        drop(first);
        run.harness.faults.resume();

        let second = run.start("b");
        let what = format!("killed at call {at}");
        // Whether or not the client got a reply, submitting again gives the same job.
        let id = submit(&run, &second).await;
        second.finish(&id).await;
        assert!(seconds(run.harness.clock.as_ref()) < 302.0, "{what}");
        // Pages in flight at the kill may be called for once more; stored ones are not.
        check(&run, &second, &id, scenario.workers as usize, &what).await;
        invariants::nothing_is_held(&run.harness.records, run.harness.clock.now());
    }
}

macro_rules! walks {
    ($($module:ident: $scenario:ident),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[tokio::test(start_paused = true)]
            async fn survives_any_refused_call() {
                walk(&scenarios::$scenario, 1, Mode::Refuse, false).await;
            }

            #[tokio::test(start_paused = true)]
            async fn survives_any_lost_reply() {
                walk(&scenarios::$scenario, 1, Mode::LoseReply, false).await;
            }

            #[tokio::test(start_paused = true)]
            async fn survives_any_three_refused_calls_in_a_row() {
                walk(&scenarios::$scenario, 3, Mode::Refuse, false).await;
            }

            #[tokio::test(start_paused = true)]
            async fn survives_double_delivery_with_any_lost_reply() {
                walk(&scenarios::$scenario, 1, Mode::LoseReply, true).await;
            }

            #[tokio::test(start_paused = true)]
            async fn survives_a_kill_at_any_call() {
                kill(&scenarios::$scenario).await;
            }
        }
    )*};
}

walks! {
    failover: FAILOVER,
    flaky: FLAKY,
    outage: OUTAGE,
    no_slot: NO_SLOT,
    hedge_wins: HEDGE_WINS,
    hedge_loses: HEDGE_LOSES,
    hangs: HANGS,
    announced: ANNOUNCED,
    leaves: LEAVES,
}
