//! Notices reach people: stored with what they are about, sent at least once, and not in storms.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    dead_letters::{
        Subject,
        add::{self, Cause, NewDeadLetter},
    },
    ids::{CorrelationId, DeadLetterId, Priority, TenantId},
    job::State,
    notices::{self, NewNotice, Progress, send},
    plan::decide::{Decision, decide, modify},
    ports::{
        Fault,
        notifier::{Channel, Notice, NoticeKind, Notifier},
    },
    providers::target::Tier,
    recover::sweep::sweep,
};
use everypage_testkit::{faulty::Faults, memory::RecordingNotifier, pdf::FakeDocument};
use everypage_tests::harness::{Harness, Process};

fn dead_letter(number: usize) -> NewDeadLetter {
    NewDeadLetter {
        id: DeadLetterId::new(format!("d{number}")),
        subject: Subject::Message,
        cause: Cause::Unreadable,
        tenant: TenantId::new("local"),
        priority: Priority::Normal,
        correlation_id: CorrelationId::new("c"),
        reason: "it broke".into(),
        receive_count: 3,
        redrive_count: 0,
        message: None,
    }
}

async fn add_dead_letters(process: &Process, numbers: std::ops::Range<usize>) {
    for number in numbers {
        add::add(&process.app.dead_letters, dead_letter(number)).await.unwrap();
    }
}

/// Sends what is due for a while, like a long-running process.
async fn send_for(process: &Process, time: Duration) {
    let clock = &process.app.store.clock;
    everypage_core::time::within(clock.as_ref(), time, send::run(&process.app.notices)).await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_dead_letters_is_two_messages() {
    let harness = Harness::new(&[("DEFAULT_RESPONSIBLE", "ann@example.org")]);
    let process = harness.start("a");
    add_dead_letters(&process, 0..1).await;
    send_for(&process, Duration::from_secs(1)).await;
    assert_eq!(harness.notifier.notices().len(), 1, "the first is sent at once");
    add_dead_letters(&process, 1..300).await;
    send_for(&process, Duration::from_secs(50)).await;
    assert_eq!(harness.notifier.notices().len(), 1, "the others wait for a minute");
    send_for(&process, Duration::from_secs(20)).await;
    let sent = harness.notifier.notices();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].subject, "Everypage gave up on d0");
    assert!(sent[0].body.contains("everypage dlq redrive d0"), "{}", sent[0].body);
    assert_eq!(
        (sent[1].subject.as_str(), sent[1].responsible.as_deref()),
        ("299 dead letters", Some("ann@example.org"))
    );
    let all = notices::all(&process.app.store, 1000).await.unwrap();
    assert_eq!(all.len(), 300);
    assert!(all.iter().all(|notice| notice.progress == Progress::Sent));
}

#[tokio::test(start_paused = true)]
async fn groups_do_not_wait_for_each_other() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    add_dead_letters(&process, 0..1).await;
    for topic in ["daily", "monthly"] {
        let notice =
            NewNotice::budget_used_up(&TenantId::new("local"), topic, "no more AI until tomorrow".into());
        process.app.store.write(vec![notices::change(&process.app.store, &notice).unwrap()]).await.unwrap();
    }
    send_for(&process, Duration::from_secs(1)).await;
    let kinds: Vec<NoticeKind> = harness.notifier.notices().iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::DeadLetter, NoticeKind::Budget, NoticeKind::Budget]);
}

/// Adds a dead letter and sends its notice in a process that is killed at call `at`; then another process
/// sends what is left. Returns the number of calls, and how often the person was notified.
async fn killed_at(at: Option<usize>) -> (usize, usize, usize) {
    let mut harness = Harness::new(&[]);
    harness.faults = at.map_or_else(Faults::none, Faults::stop_at);
    let killed = harness.start("a");
    let stopped = harness.faults.stopped();
    let work = async {
        add_dead_letters(&killed, 0..1).await;
        send::send_due(&killed.app.notices).await.unwrap();
    };
    tokio::select! {
        biased;
        () = stopped => {}
        () = work => {}
    }
    let calls = harness.faults.calls();
    harness.faults = Faults::none();
    harness.advance(Duration::from_secs(200)).await;
    let process = harness.start("b");
    sweep(&process.app.recovery).await;
    let stored = notices::all(&process.app.store, 10).await.unwrap();
    assert!(stored.iter().all(|notice| notice.progress == Progress::Sent), "{at:?}: {stored:?}");
    (calls, stored.len(), harness.notifier.notices().len())
}

#[tokio::test(start_paused = true)]
async fn a_notice_survives_a_crash_at_any_point() {
    let (calls, stored, sent) = killed_at(None).await;
    assert_eq!((stored, sent), (1, 1));
    let mut sent_twice = 0;
    for at in 0..calls {
        let (_, stored, sent) = killed_at(Some(at)).await;
        // Before the dead letter is written there is nothing to send.
        assert!(stored == 0 && sent == 0 || stored == 1 && (1..=2).contains(&sent), "{at}: {stored} {sent}");
        sent_twice += usize::from(sent == 2);
    }
    assert!(sent_twice <= 3, "only a crash between sending and its record repeats it: {sent_twice}");
}

/// Fails as often as configured.
struct Flaky {
    fails: AtomicU32,
    recording: RecordingNotifier,
}

#[async_trait]
impl Notifier for Flaky {
    fn channel(&self) -> Channel {
        Channel::Email
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let left = self.fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(Fault::unreachable("mail", "connection refused")),
            Err(_) => self.recording.notify(notice).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_fails_is_retried_and_the_others_are_not_repeated() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let flaky = Arc::new(Flaky { fails: AtomicU32::new(3), recording: RecordingNotifier::default() });
    let mut app_notices = process.app.notices.clone();
    app_notices.notifiers.push(flaky.clone());
    add_dead_letters(&process, 0..2).await;
    let clock = process.app.store.clock.as_ref();
    everypage_core::time::within(clock, Duration::from_secs(1), send::run(&app_notices)).await;
    let waiting = notices::all(&process.app.store, 1).await.unwrap().remove(0);
    assert_eq!(
        (waiting.progress, waiting.sent_by.as_slice()),
        (Progress::Waiting, [Channel::Log].as_slice())
    );
    assert!(waiting.last_error.unwrap().contains("email: "), "the list shows why");
    everypage_core::time::within(clock, Duration::from_secs(300), send::run(&app_notices)).await;
    assert_eq!(harness.notifier.notices().len(), 1, "the log has it once");
    assert_eq!(flaky.recording.notices().len(), 1);
    assert_eq!(flaky.recording.notices()[0].subject, "2 dead letters");
}

#[tokio::test(start_paused = true)]
async fn two_processes_send_a_notice_once() {
    let harness = Harness::new(&[]);
    let (a, b) = (harness.start("a"), harness.start("b"));
    add_dead_letters(&a, 0..20).await;
    tokio::join!(send_for(&a, Duration::from_secs(90)), send_for(&b, Duration::from_secs(90)));
    assert_eq!(harness.notifier.notices().len(), 1);
}

async fn waiting_plan(harness: &Harness) -> (Process, everypage_core::ids::JobId) {
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(2)).await.is_none(), "it waits for approval");
    assert_eq!(process.job(&id).await.state, State::Proposed);
    (process, id)
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_needs_approval_tells_what_it_costs_and_how_to_answer() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0")]);
    let (process, id) = waiting_plan(&harness).await;
    let notice = harness.notifier.notices().remove(0);
    assert_eq!(notice.kind, NoticeKind::Approval);
    assert!(notice.subject.contains("report.pdf") && notice.subject.contains("USD"), "{}", notice.subject);
    for part in ["3 pages", "over the threshold", "jobs approve", "jobs modify", "jobs reject", id.as_str()] {
        assert!(notice.body.contains(part), "{part}: {}", notice.body);
    }
    decide(&process.app.planner, &id, "ann", Decision::Approve).await.unwrap();
    assert_eq!(notices::all(&process.app.store, 10).await.unwrap().len(), 1, "an answer is no notice");
}

#[tokio::test(start_paused = true)]
async fn a_modified_plan_is_approved_without_another_notice() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0")]);
    let (process, id) = waiting_plan(&harness).await;
    let job =
        modify(&process.app.planner, &id, "ann", |job| job.received.options.tier = Tier::Fast).await.unwrap();
    assert_eq!((job.state, job.plan.unwrap().tier), (State::Approved, Tier::Fast));
    assert_eq!(notices::all(&process.app.store, 10).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn notices_are_listed_by_tenant() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    for tenant in ["acme", "globex", "acme"] {
        let id = DeadLetterId::new(format!("{tenant}-{}", process.app.store.ids.fresh()));
        let letter = NewDeadLetter { id, tenant: TenantId::new(tenant), ..dead_letter(0) };
        add::add(&process.app.dead_letters, letter).await.unwrap();
    }
    let mut counts = BTreeMap::new();
    for tenant in ["acme", "globex", "initech"] {
        let page = notices::list_page(&process.app.store, &TenantId::new(tenant), None, 10).await.unwrap();
        counts.insert(tenant, page.items.len());
    }
    assert_eq!(counts, BTreeMap::from([("acme", 2), ("globex", 1), ("initech", 0)]));
}
