//! Documents wait until there is room for them, in turn, and start when they are due.

use std::{collections::BTreeSet, time::Duration};

use everypage_core::{
    admission::{line, seats},
    dead_letters,
    ids::{JobId, Priority, TenantId},
    intake::submit::{Submission, submit},
    job::{Job, JobEvent, JobOptions, RequestSource, State, Status, cancel::cancel, jobs},
    keys::record,
    ports::{clock::Clock, records::Records},
    recover::{redrive::redrive, sweep::sweep},
    time::{after, until},
};
use everypage_testkit::{faulty::Faults, pdf::FakeDocument};
use everypage_tests::{
    harness::{Harness, Process, temp_file},
    invariants,
};

/// Submits a document of a tenant; no two are alike.
async fn submit_as(process: &Process, tenant: &str, n: u32, change: impl FnOnce(&mut JobOptions)) -> Job {
    let file = temp_file(FakeDocument::graphics(1 + n).bytes());
    let mut options = JobOptions::from_settings(&process.app.settings);
    options.pages = "1".parse().unwrap();
    change(&mut options);
    let submission = Submission {
        tenant: TenantId::new(tenant),
        user: None,
        source: RequestSource::Cli,
        name: format!("{n}.pdf"),
        file: file.path().to_owned(),
        password: None,
        options,
        idempotency_key: None,
        traceparent: None,
    };
    submit(&process.app.intake, submission).await.unwrap().job
}

async fn seated(process: &Process) -> BTreeSet<JobId> {
    let groups = seats::all(&process.app.store).await.unwrap();
    groups.into_iter().flat_map(|group| group.value.jobs).collect()
}

async fn open(process: &Process) -> Vec<Job> {
    jobs::open(&process.app.store).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_next_document_starts_when_one_has_ended_and_its_time_begins_then() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let first = submit_as(&process, "local", 1, |_| {}).await;
    let second = submit_as(&process, "local", 2, |_| {}).await;
    assert_eq!((first.status(), second.status()), (Status::Processing, Status::Queued));
    assert_eq!(seated(&process).await, BTreeSet::from([first.id.clone()]));
    harness.advance(Duration::from_secs(100)).await;
    invariants::succeeded(&process.finish(&first.id).await);

    let admitted = process.job(&second.id).await;
    assert_eq!(admitted.status(), Status::Processing);
    let started = admitted.admitted_at.unwrap();
    assert!(until(admitted.received_at, started) >= Duration::from_secs(100));
    assert_eq!(admitted.deadline, after(started, Duration::from_secs(300)));
    let ended = process.finish(&second.id).await;
    invariants::succeeded(&ended);
    invariants::trail_verifies(&process.app, &ended).await;
    assert_eq!(seated(&process).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_documents_of_two_tenants_all_finish_in_turn_and_never_more_than_the_limit_at_a_time() {
    const LIMIT: usize = 8;
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "8")]);
    let process = harness.start("a");
    for n in 0..150 {
        submit_as(&process, "many", n, |_| {}).await;
    }
    for n in 0..50 {
        submit_as(&process, "few", n, |_| {}).await;
    }
    let (mut of_few, mut ended) = (vec![], 0);
    while let Some(next) = open(&process).await.into_iter().min_by_key(|job| job.admitted_at) {
        assert!(open(&process).await.len() <= LIMIT);
        assert_eq!(
            seated(&process).await.len(),
            LIMIT.min(200 - ended),
            "a seat is free and a document waits"
        );
        invariants::succeeded(&process.finish(&next.id).await);
        ended += 1;
        if next.received.tenant.as_str() == "few" {
            of_few.push(ended);
        }
    }
    assert_eq!((ended, of_few.len()), (200, 50));
    assert_eq!(line::waiting(&process.app.store).await.unwrap(), []);
    // From when they came on, they had every second turn.
    assert!(*of_few.last().unwrap() <= 8 + 2 * 50 + 2, "{of_few:?}");
}

#[tokio::test(start_paused = true)]
async fn urgent_documents_go_first_and_lower_ones_get_every_fifth_turn() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let mut running = submit_as(&process, "local", 0, |_| {}).await.id;
    for n in 1..7 {
        submit_as(&process, "local", n, |options| options.priority = Priority::Low).await;
        submit_as(&process, "local", 10 + n, |options| options.priority = Priority::Urgent).await;
    }
    let mut levels = Vec::new();
    for _ in 0..8 {
        process.finish(&running).await;
        let next = open(&process).await.remove(0);
        levels.push(next.priority().level());
        running = next.id;
    }
    assert_eq!(levels, [5, 5, 5, 1, 5, 5, 5, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_document_with_a_deadline_of_its_caller_starts_in_time_whatever_the_room() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let timed = |time: Duration| {
        move |options: &mut JobOptions| {
            (options.job_timeout_ms, options.deadline_given) = (time.as_millis() as u64, true);
        }
    };
    let first = submit_as(&process, "local", 1, |_| {}).await;
    let soon = submit_as(&process, "local", 2, timed(Duration::from_secs(60))).await;
    assert_eq!(soon.status(), Status::Processing, "it is due at once");
    let later = submit_as(&process, "local", 3, timed(Duration::from_secs(1200))).await;
    assert_eq!(later.status(), Status::Queued);
    assert_eq!(later.deadline, after(later.received_at, Duration::from_secs(1200)));

    harness.advance(Duration::from_secs(895)).await;
    process.app.admission.admit(None).await.unwrap();
    assert!(process.job(&later.id).await.is_waiting());
    harness.advance(Duration::from_secs(6)).await;
    process.app.admission.admit(None).await.unwrap();
    let admitted = process.job(&later.id).await;
    assert!(!admitted.is_waiting());
    assert_eq!(admitted.deadline, later.deadline, "its time runs from acceptance");
    assert_eq!(seated(&process).await.len(), 3, "one, and two that are due");
    for job in [&first, &soon, &later] {
        process.finish(&job.id).await;
    }
    assert_eq!(seated(&process).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_job_that_is_cancelled_ends_at_once_with_its_password() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let first = submit_as(&process, "local", 1, |_| {}).await;
    let waiting =
        process.submit_with(&FakeDocument::graphics(2), |_| {}, Some("sesame"), None).await.unwrap().job;
    let app = &process.app;
    let password = record::password(&waiting.id);
    assert!(harness.records.get(&password).await.unwrap().is_some());
    for _ in 0..2 {
        let cancelled =
            cancel(&app.store, app.flow.as_ref(), &app.interrupts, &waiting.id, "ann").await.unwrap();
        assert_eq!((cancelled.state, cancelled.result), (State::Cancelled, None));
    }
    assert!(harness.records.get(&password).await.unwrap().is_none());
    invariants::trail_verifies(app, &process.job(&waiting.id).await).await;
    process.finish(&first.id).await;
    assert_eq!(open(&process).await, []);
    assert_eq!(line::waiting(&app.store).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_waits_for_a_person_gives_its_seat_to_another() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1"), ("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let process = harness.start("a");
    let asking = submit_as(&process, "local", 1, |_| {}).await;
    let next = submit_as(&process, "local", 2, |_| {}).await;
    assert!(next.is_waiting());
    process.kill_after(&asking.id, Duration::from_secs(10)).await;
    assert_eq!(process.job(&asking.id).await.status(), Status::AwaitingApproval);
    assert_eq!(seated(&process).await, BTreeSet::from([next.id.clone()]));
    assert!(!process.job(&next.id).await.is_waiting());
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_waits_for_room_as_others_do() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let mut locked = FakeDocument::graphics(1);
    locked.password = Some("open sesame".into());
    let failed = process.submit_with(&locked, |_| {}, Some("wrong"), None).await.unwrap().job;
    assert_eq!(process.finish(&failed.id).await.state, State::Failed);
    let running = submit_as(&process, "local", 2, |_| {}).await;
    let dead_letter = dead_letters::job_dead_letter_id(&failed.id, 0);
    let secret = everypage_core::secret::Secret::new("open sesame");
    redrive(&process.app.recovery, &dead_letter, "ann", Some(secret)).await.unwrap();
    assert!(process.job(&failed.id).await.is_waiting());
    harness.advance(Duration::from_secs(1000)).await;
    process.finish(&running.id).await;
    let admitted = process.job(&failed.id).await;
    assert_eq!(until(admitted.admitted_at.unwrap(), admitted.deadline), Duration::from_secs(300));
    let ended = process.finish(&failed.id).await;
    invariants::succeeded(&ended);
    invariants::trail_verifies(&process.app, &ended).await;
}

/// The process dies at each of its calls: the next one admits what is left, and no seat stays taken.
#[tokio::test(start_paused = true)]
async fn whatever_call_a_process_dies_at_every_document_is_admitted_and_every_seat_given_back() {
    let mut died = 0;
    for at in 0.. {
        let mut harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
        let first = submit_as(&harness.start("before"), "local", 1, |_| {}).await;
        let faults = Faults::stop_at(at);
        harness.faults = faults.clone();
        let process = harness.start("dying");
        let work = async {
            submit_as(&process, "local", 2, |_| {}).await;
            process.finish(&first.id).await;
        };
        let survived = tokio::select! {
            () = work => true,
            () = faults.stopped() => false,
        };
        died += u32::from(!survived);
        drop(process);
        harness.faults = Faults::none();
        let process = harness.start("next");
        harness.advance(Duration::from_secs(400)).await;
        submit_as(&process, "local", 2, |_| {}).await;
        process.app.admission.recover().await.unwrap();
        // What is open is driven by the next process; the first may be late, and is published all the same.
        for _ in 0..3 {
            for job in open(&process).await {
                process.finish(&job.id).await;
            }
            process.app.admission.recover().await.unwrap();
        }
        let all = jobs::list(&process.app.store, &TenantId::new("local"), 10).await.unwrap();
        assert_eq!(all.len(), 2, "died at call {at}");
        assert!(all.iter().all(|job| job.state == State::Audited), "died at call {at}: {all:?}");
        assert_eq!(seated(&process).await, BTreeSet::new(), "died at call {at}");
        if survived {
            break;
        }
    }
    assert!(died >= 20, "only {died} calls");
}

/// The end of an earlier run is repeated after the job was redriven and has another seat.
#[tokio::test(start_paused = true)]
async fn a_late_repetition_does_not_take_the_seat_of_the_next_run() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let running = submit_as(&process, "local", 1, |_| {}).await;
    process.app.admission.leave(&running.id).await;
    assert_eq!(seated(&process).await, BTreeSet::from([running.id.clone()]));
    process.finish(&running.id).await;
    assert_eq!(seated(&process).await, BTreeSet::new());
}

/// Two processes that admit at the same time never give more seats than there are.
#[tokio::test(start_paused = true)]
async fn processes_that_admit_at_the_same_time_keep_the_limit() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "5")]);
    let processes = ["a", "b", "c"].map(|node| harness.start(node));
    let submitted = (0..30).map(|n| {
        let process = &processes[n as usize % 3];
        submit_as(process, ["x", "y"][n as usize % 2], n, |_| {})
    });
    futures::future::join_all(submitted).await;
    assert_eq!(open(&processes[0]).await.len(), 5);
    assert_eq!(seated(&processes[0]).await.len(), 5);
    let admitted = processes.iter().map(|process| process.app.admission.admit(None));
    futures::future::join_all(admitted).await;
    assert_eq!(seated(&processes[0]).await.len(), 5);
}

/// The sweep continues what a process left that died after an admission, and before it started the flow.
#[tokio::test(start_paused = true)]
async fn the_sweep_admits_and_frees_the_seats_of_ended_jobs() {
    let harness = Harness::new(&[("MAX_OPEN_JOBS", "1")]);
    let process = harness.start("a");
    let first = submit_as(&process, "local", 1, |_| {}).await;
    let second = submit_as(&process, "local", 2, |_| {}).await;
    // As if the process had died after the job's last event.
    let store = &process.app.store;
    let failure = everypage_core::job::Failure { code: "x".into(), reason: "y".into() };
    let failed = |_: &Job| vec![JobEvent::Failed(failure.clone())];
    jobs::advance(store, everypage_core::event::Actor::Finalize, &first.id, failed).await.unwrap();
    assert!(process.job(&second.id).await.is_waiting());
    let swept = sweep(&process.app.recovery).await;
    assert_eq!(swept.admitted, 1, "{swept:?}");
    assert_eq!(seated(&process).await, BTreeSet::from([second.id.clone()]));
    harness.advance(Duration::from_secs(31)).await;
    assert_eq!(sweep(&process.app.recovery).await.started, 1);
    assert!(harness.clock.now() > second.received_at);
}
