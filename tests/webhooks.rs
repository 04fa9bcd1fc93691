//! Webhooks notify tenants when jobs end: at least once, signed, despite faults and crashes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    billing::{
        account::{AccountEvent, Cause},
        accounts,
    },
    dead_letters::{self, Subject},
    ids::{JobId, Priority, TenantId},
    notify::{
        deliver as usecase, relay, webhook,
        webhooks::{self, Delivery, Progress, Subscription},
    },
    ports::{
        hooks::WebhookRequest,
        records::{Batch, Change, Draft, Key, Records, When, Written},
    },
    recover::{redrive::redrive, sweep::sweep},
    secret::Secret,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    pdf::FakeDocument,
};
use everypage_tests::harness::{Harness, Process};

fn tenant() -> TenantId {
    TenantId::new("local")
}

async fn subscribed(harness: &Harness) -> (Process, Secret) {
    let process = harness.start("a");
    let secret = webhooks::set(
        &process.app.store,
        process.app.vault.as_ref(),
        &tenant(),
        "https://example.com/hook",
        "test",
    )
    .await
    .unwrap();
    (process, secret)
}

fn header<'a>(call: &'a WebhookRequest, name: &str) -> &'a str {
    &call.headers.iter().find(|(found, _)| *found == name).unwrap().1
}

/// Verifies a message as a receiver does, and returns its body.
fn verified(call: &WebhookRequest, secret: &Secret) -> serde_json::Value {
    let (id, time) = (header(call, "webhook-id"), header(call, "webhook-timestamp").parse().unwrap());
    assert_eq!(header(call, "webhook-signature"), webhook::sign(secret, id, time, &call.body));
    serde_json::from_str(&call.body).unwrap()
}

/// Relays events and sends webhooks for a while, like a long-running process.
async fn settle(process: &Process, time: Duration) {
    let app = &process.app;
    let _ = relay::relay(&app.publisher, "a").await;
    let _ = relay::relay(&app.publisher, &app.store.node).await;
    tokio::select! {
        () = usecase::run(&app.publisher) => {}
        () = app.store.clock.sleep(time) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_is_sent_once_signed_and_without_its_text() {
    let harness = Harness::new(&[]);
    let (process, secret) = subscribed(&harness).await;
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    let failed = FakeDocument { password: Some("x".into()), ..FakeDocument::graphics(1) };
    let failed = process.submit(&failed).await.unwrap().job.id;
    process.finish(&failed).await;
    settle(&process, Duration::from_secs(60)).await;
    let bodies: Vec<_> = harness.hooks.calls().iter().map(|call| verified(call, &secret)).collect();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert_eq!((&bodies[0]["type"], &bodies[0]["data"]["id"]), (&"job.success".into(), &id.as_str().into()));
    assert_eq!(bodies[0]["data"]["result"]["metadata"]["final_ai_pages"], 2);
    assert_eq!(
        (&bodies[1]["type"], &bodies[1]["data"]["error"]["code"]),
        (&"job.failed".into(), &"password_needed".into())
    );
    let all = format!("{bodies:?}");
    assert!(!all.contains("read by") && !all.contains("layer of page"), "document text in {all}");
    for item in harness.records.dump() {
        assert!(
            !item.draft.body.contains(secret.expose()) || item.draft.body.contains("sealed:"),
            "a secret in clear"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_webhook_is_retried_after_1_4_and_16_seconds_and_can_be_redriven() {
    let harness = Harness::new(&[]);
    let (process, secret) = subscribed(&harness).await;
    harness.hooks.fail_next(4);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(60)).await;
    let calls = harness.hooks.calls();
    let times: Vec<i64> =
        calls.iter().map(|call| header(call, "webhook-timestamp").parse().unwrap()).collect();
    let pauses: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [1, 4, 16]);
    let ids: BTreeSet<&str> = calls.iter().map(|call| header(call, "webhook-id")).collect();
    assert_eq!(ids.len(), 1, "receivers can recognize a repeat");
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert!(
        matches!(&dead_letters[0].value.subject, Subject::Webhook { job: Some(job), .. } if *job == id),
        "{dead_letters:?}"
    );
    assert!(dead_letters[0].value.reason.contains("503"), "{dead_letters:?}");
    redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    settle(&process, Duration::from_secs(10)).await;
    let calls = harness.hooks.calls();
    assert_eq!(calls.len(), 5);
    verified(&calls[4], &secret);
    assert_eq!(dead_letters::waiting(&process.app.store, 10).await.unwrap().len(), 0);
    let delivery =
        webhooks::find(&process.app.store, header(&calls[4], "webhook-id")).await.unwrap().unwrap();
    assert_eq!((delivery.value.progress, delivery.value.attempts), (Progress::Delivered, 5));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_a_webhook_is_set_or_after_it_is_removed() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let before = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&before).await;
    webhooks::set(
        &process.app.store,
        process.app.vault.as_ref(),
        &tenant(),
        "https://example.com/hook",
        "test",
    )
    .await
    .unwrap();
    harness.hooks.fail_next(1);
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    let removed = webhooks::remove(&process.app.store, &tenant(), webhooks::DEFAULT, "test").await;
    assert!(removed.unwrap());
    settle(&process, Duration::from_secs(60)).await;
    assert_eq!(harness.hooks.calls().len(), 1, "only the call that failed before");
    assert_eq!(webhooks::waiting(&process.app.store, 10).await.unwrap().len(), 0);
}

async fn add(process: &Process, url: &str, events: &[&str]) -> (String, Secret) {
    let events = events.iter().map(|kind| (*kind).to_owned()).collect();
    let wanted = Subscription { url: url.to_owned(), events };
    let app = &process.app;
    let added = webhooks::add(&app.store, app.vault.as_ref(), &tenant(), &wanted, "test").await;
    let (hook, secret) = added.unwrap().unwrap();
    (hook.id, secret)
}

/// The types of the events that were posted to `url`, in order.
fn types_sent(harness: &Harness, url: &str) -> Vec<String> {
    let calls = harness.hooks.calls();
    let bodies = calls.iter().filter(|call| call.url == url).map(|call| call.body.as_str());
    let types = bodies.map(|body| serde_json::from_str::<serde_json::Value>(body).unwrap()["type"].clone());
    types.map(|kind| kind.as_str().unwrap().to_owned()).collect()
}

const ENDS: &str = "https://example.com/hook";
const PAGES: &str = "https://pages.example/hook";
const CREDITS: &str = "https://credits.example/hook";

#[tokio::test(start_paused = true)]
async fn each_webhook_gets_the_types_that_it_chose_with_its_own_signature() {
    let harness = Harness::new(&[("CREDITS", "prepaid")]);
    let (process, ends) = subscribed(&harness).await;
    let (pages, secret) = add(&process, PAGES, &["page.settled", "job.received"]).await;
    add(&process, CREDITS, &["credit.*"]).await;
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let granted = AccountEvent::Added { credits: 10, cause };
    accounts::change(&process.app.store, &tenant(), "ann", &granted).await.unwrap();
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(60)).await;
    assert_eq!(types_sent(&harness, ENDS), ["job.success"]);
    let mut sent = types_sent(&harness, PAGES);
    sent.sort_unstable();
    assert_eq!(sent, ["job.received", "page.settled", "page.settled"]);
    let credits: BTreeSet<String> = types_sent(&harness, CREDITS).into_iter().collect();
    let expected = ["credit.added", "credit.deducted", "credit.reserved", "credit.settled"];
    assert!(expected.iter().all(|kind| credits.contains(*kind)), "{credits:?}");
    assert!(credits.iter().all(|kind| kind.starts_with("credit.")), "{credits:?}");
    let calls = harness.hooks.calls();
    let page = calls.iter().find(|call| call.url == PAGES && call.body.contains("page.settled")).unwrap();
    let body = verified(page, &secret);
    let (message, time) = (header(page, "webhook-id"), header(page, "webhook-timestamp").parse().unwrap());
    assert_ne!(header(page, "webhook-signature"), webhook::sign(&ends, message, time, &page.body));
    assert!(header(page, "webhook-id").ends_with(&pages));
    assert!(body["data"]["aggregate"].as_str().unwrap().starts_with(&format!("job/{id}/page/")), "{body}");
    assert_eq!(body["data"]["data"]["source"], "ai");
    assert!(!calls.iter().any(|call| call.body.contains("read by")), "document text");
    let listed = webhooks::deliveries(&process.app.store, &tenant(), &pages, None, 10).await.unwrap().items;
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|one| one.progress == Progress::Delivered && one.attempts == 1), "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_holds_up_no_other_and_its_retry_is_visible() {
    let harness = Harness::new(&[]);
    let (process, _) = subscribed(&harness).await;
    let (failing, _) = add(&process, PAGES, &["*"]).await;
    harness.hooks.refuse_at(PAGES);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.driver.drive(&id).await;
    settle(&process, Duration::from_millis(100)).await;
    assert_eq!(types_sent(&harness, ENDS), ["job.success"], "while the other waits");
    let listed =
        webhooks::deliveries(&process.app.store, &tenant(), &failing, None, 100).await.unwrap().items;
    assert!(listed.len() > 5, "{listed:?}");
    for delivery in &listed {
        assert_eq!((delivery.progress, delivery.attempts), (Progress::Waiting, 1));
        assert_eq!(delivery.last_error.as_deref(), Some("it answered 500"));
        assert!(delivery.due > process.app.store.clock.now(), "{delivery:?}");
    }
}

/// What a webhook for every event does not accept becomes dead letters, and these no messages to it.
#[tokio::test(start_paused = true)]
async fn dead_letters_of_webhooks_are_sent_to_no_webhook() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    add(&process, PAGES, &["*"]).await;
    harness.hooks.refuse_at(PAGES);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    for _ in 0..3 {
        settle(&process, Duration::from_secs(120)).await;
    }
    let letters = dead_letters::waiting(&process.app.store, 1000).await.unwrap();
    assert!((5..=9).contains(&letters.len()), "then the webhook is paused: {letters:?}");
    let calls = harness.hooks.calls();
    assert!(calls.len() >= letters.len() * 4, "four attempts of each: {}", calls.len());
    assert!(!calls.iter().any(|call| call.body.contains("\"dlq.")), "{calls:?}");
    // A redriven message is sent again; that it was redriven is not an event for webhooks either.
    redrive(&process.app.recovery, &letters[0].value.id, "ann", None).await.unwrap();
    settle(&process, Duration::from_secs(120)).await;
    assert_eq!(harness.hooks.calls().len(), calls.len() + 1, "despite the pause, and once");
}

#[tokio::test(start_paused = true)]
async fn a_removed_webhook_leaves_no_message_and_no_dead_letter() {
    let harness = Harness::new(&[]);
    let (process, _) = subscribed(&harness).await;
    let (removed, _) = add(&process, PAGES, &["job.*"]).await;
    harness.hooks.refuse_at(PAGES);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(60)).await;
    let store = &process.app.store;
    assert!(!dead_letters::waiting(store, 100).await.unwrap().is_empty());
    assert!(webhooks::remove(store, &tenant(), &removed, "test").await.unwrap());
    assert!(!webhooks::remove(store, &tenant(), &removed, "test").await.unwrap());
    assert_eq!(dead_letters::waiting(store, 100).await.unwrap().len(), 0);
    assert_eq!(webhooks::deliveries(store, &tenant(), &removed, None, 10).await.unwrap().items.len(), 0);
    let kept = webhooks::deliveries(store, &tenant(), webhooks::DEFAULT, None, 10).await.unwrap().items;
    assert_eq!(kept.len(), 1, "the other webhook keeps its own");
    let left = webhooks::list(store, &tenant()).await.unwrap();
    assert_eq!(left.iter().map(|hook| hook.id.as_str()).collect::<Vec<_>>(), [webhooks::DEFAULT]);
}

/// A record of before a tenant could have several.
#[tokio::test(start_paused = true)]
async fn the_webhook_of_an_earlier_version_is_the_default_one() {
    let harness = Harness::new(&[]);
    let (process, secret) = subscribed(&harness).await;
    let key = Key::new("tenant#local", "webhook");
    let known = process.app.store.records.get(&key).await.unwrap().unwrap();
    let mut body: serde_json::Value = serde_json::from_str(&known.draft.body).unwrap();
    body.as_object_mut().unwrap().remove("id");
    let draft = Draft { body: body.to_string(), ..known.draft };
    let batch =
        Batch { stamp: "x".into(), changes: vec![Change::Put { draft, when: When::Version(known.version) }] };
    assert_eq!(process.app.store.records.write(&batch).await.unwrap(), Written::Applied);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(60)).await;
    assert_eq!(verified(&harness.hooks.calls()[0], &secret)["type"], "job.success");
    let stored = r#"{"id":"msg_e","tenant":"local","job":"j","body":"{}","progress":"dead","attempts":4,
        "tries":4,"redrives":0,"due":"2026-01-01T00:00:00Z"}"#;
    let delivery: Delivery = serde_json::from_str(stored).unwrap();
    assert_eq!((delivery.hook.as_str(), delivery.job), (webhooks::DEFAULT, Some(JobId::new("j"))));
    let subject = r#"{"kind":"webhook","job":"j","delivery":"msg_e"}"#;
    assert_eq!(serde_json::from_str::<Subject>(subject).unwrap().job(), Some(&JobId::new("j")));
}

/// More due messages than are listed at a time, of a receiver that hangs, hide nothing behind them.
#[tokio::test(start_paused = true)]
async fn a_long_queue_of_one_webhook_does_not_hide_the_messages_of_another() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    // They are sent what the test stores, and no event of their own adding.
    let (slow, _) = add(&process, PAGES, &["job.success"]).await;
    let (quick, _) = add(&process, CREDITS, &["job.success"]).await;
    harness.hooks.hang_at(PAGES, Duration::from_secs(10));
    for number in 0..1500 {
        let message = due(&process, "local", number);
        let message = Delivery { id: format!("msg_{number:04}"), hook: slow.clone(), ..message };
        webhooks::save(&process.app.store, None, message).await.unwrap();
    }
    process.app.store.clock.sleep(Duration::from_secs(1)).await;
    let last = Delivery { hook: quick, ..due(&process, "local", 0) };
    webhooks::save(&process.app.store, None, last).await.unwrap();
    settle(&process, Duration::from_secs(9)).await;
    let sent = harness.hooks.calls().iter().filter(|call| call.url == CREDITS).count();
    assert_eq!(sent, 1, "while the other receiver hangs");
}

/// Where no process keeps running, the sweep sends webhooks.
#[tokio::test(start_paused = true)]
async fn the_sweep_sends_due_webhooks_with_their_retries() {
    let harness = Harness::new(&[]);
    let (process, _) = subscribed(&harness).await;
    harness.hooks.fail_next(2);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.driver.drive(&id).await;
    relay::relay(&process.app.publisher, "a").await.unwrap();
    assert_eq!(sweep(&process.app.recovery).await.webhooks, 3);
    assert_eq!(sweep(&process.app.recovery).await.webhooks, 0);
}

/// A message that is due, as `announce` leaves it.
fn due(process: &Process, tenant: &str, number: usize) -> Delivery {
    Delivery {
        id: format!("msg_{tenant}_{number:02}"),
        tenant: TenantId::new(tenant),
        hook: webhooks::DEFAULT.to_owned(),
        kind: "job.audited".to_owned(),
        job: Some(JobId::new("j")),
        correlation_id: None,
        priority: Priority::Normal,
        body: "{}".to_owned(),
        progress: Progress::Waiting,
        attempts: 0,
        attempts_since_redrive: 0,
        redrives: 0,
        created_at: None,
        due: process.app.store.clock.now(),
        last_error: None,
        traceparent: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_receiver_delays_no_other_tenant() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let (slow, quick) = ("https://slow.example/hook", "https://quick.example/hook");
    webhooks::set(&process.app.store, process.app.vault.as_ref(), &TenantId::new("slow"), slow, "test")
        .await
        .unwrap();
    webhooks::set(&process.app.store, process.app.vault.as_ref(), &TenantId::new("quick"), quick, "test")
        .await
        .unwrap();
    harness.hooks.hang_at(slow, Duration::from_secs(10));
    // More than fit in one batch, and due before the other tenant's.
    for number in 0..150 {
        webhooks::save(&process.app.store, None, due(&process, "slow", number)).await.unwrap();
    }
    process.app.store.clock.sleep(Duration::from_secs(1)).await;
    let sending = settle(&process, Duration::from_secs(9));
    let announce = async {
        process.app.store.clock.sleep(Duration::from_secs(1)).await;
        webhooks::save(&process.app.store, None, due(&process, "quick", 0)).await.unwrap();
        process.app.publisher.wake_sender();
        process.app.store.clock.sleep(Duration::from_millis(100)).await;
        let sent = harness.hooks.calls().iter().filter(|call| call.url == quick).count();
        assert_eq!(sent, 1, "while the other receiver hangs");
    };
    tokio::join!(sending, announce);
    let hanging = harness.hooks.calls().iter().filter(|call| call.url == slow).count();
    assert!((1..=8).contains(&hanging), "{hanging} calls hang concurrently");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_whose_secret_cannot_be_opened_becomes_a_dead_letter() {
    let harness = Harness::new(&[]);
    let (process, _) = subscribed(&harness).await;
    let key = Key::new("tenant#local", "webhook");
    let known = process.app.store.records.get(&key).await.unwrap().unwrap();
    let body = known.draft.body.replace("sealed:", "of another vault:");
    let change =
        Change::Put { draft: Draft { body, ..known.draft.clone() }, when: When::Version(known.version) };
    let batch = Batch { stamp: "x".into(), changes: vec![change] };
    assert_eq!(process.app.store.records.write(&batch).await.unwrap(), Written::Applied);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(60)).await;
    assert_eq!(harness.hooks.calls().len(), 0);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert!(dead_letters[0].value.reason.contains("secret can't be opened"), "{dead_letters:?}");
    assert_eq!(dead_letters[0].value.receive_count, 4);
    assert_eq!(webhooks::waiting(&process.app.store, 10).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_relay_sends_the_state_at_the_end_and_not_a_later_one() {
    let harness = Harness::new(&[]);
    let (process, secret) = subscribed(&harness).await;
    let locked = FakeDocument { password: Some("x".into()), ..FakeDocument::graphics(1) };
    let id = process.submit(&locked).await.unwrap().job.id;
    process.driver.drive(&id).await;
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", Some(Secret::new("x"))).await.unwrap();
    settle(&process, Duration::from_secs(10)).await;
    let bodies: Vec<_> = harness.hooks.calls().iter().map(|call| verified(call, &secret)).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let data = &bodies[0]["data"];
    assert_eq!((&bodies[0]["type"], &data["state"]), (&"job.failed".into(), &"FAILED".into()));
    assert_eq!((&data["error"]["code"], &data["redrives"]), (&"password_needed".into(), &0.into()));
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_log_line_names_tenant_correlation_and_trace() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    let _subscriber = tracing::subscriber::set_default(lines);
    let harness = Harness::new(&[]);
    let (process, _) = subscribed(&harness).await;
    harness.hooks.fail_next(1);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(10)).await;
    let job = process.job(&id).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let logged: Vec<&str> = text.lines().filter(|line| line.contains("\"webhook\":")).collect();
    assert_eq!(logged.len(), 2, "{text}");
    for line in logged {
        let fields = serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone();
        assert_eq!(fields["tenant"], "local", "{line}");
        assert_eq!(fields["correlation"], job.correlation_id.as_str(), "{line}");
        assert_eq!(fields["trace"], job.trace().trace_id(), "{line}");
    }
}

/// Adds a webhook for two types of events, once; false if a call failed.
async fn subscribe_to_pages(process: &Process) -> bool {
    let app = &process.app;
    let Ok(known) = webhooks::list(&app.store, &tenant()).await else { return false };
    if known.iter().any(|hook| hook.url == PAGES) {
        return true;
    }
    let wanted =
        Subscription { url: PAGES.to_owned(), events: vec!["page.*".to_owned(), "job.audited".to_owned()] };
    webhooks::add(&app.store, app.vault.as_ref(), &tenant(), &wanted, "test").await.is_ok()
}

async fn accepted(process: &Process) -> JobId {
    for _ in 0..10 {
        if webhooks::set(
            &process.app.store,
            process.app.vault.as_ref(),
            &tenant(),
            "https://example.com/hook",
            "test",
        )
        .await
        .is_ok()
            && subscribe_to_pages(process).await
            && let Ok(submitted) = process.submit(&FakeDocument::graphics(1)).await
        {
            return submitted.job.id;
        }
        process.app.store.clock.sleep(Duration::from_secs(1)).await;
    }
    panic!("never accepted");
}

/// Checks that each webhook got each of its events under one id, and that nothing is waiting to be sent.
async fn check(harness: &Harness, process: &Process, what: &str) {
    settle(process, Duration::from_secs(300)).await;
    let calls = harness.hooks.calls();
    let sent: BTreeSet<(&str, &str)> =
        calls.iter().map(|call| (call.url.as_str(), header(call, "webhook-id"))).collect();
    let mut kinds = Vec::new();
    for (url, id) in &sent {
        let delivery = webhooks::find(&process.app.store, id).await.unwrap().unwrap().value;
        assert_eq!(delivery.progress, Progress::Delivered, "{what}");
        kinds.push((*url, delivery.kind));
    }
    kinds.sort_unstable();
    let expected = [(ENDS, "job.audited"), (PAGES, "job.audited"), (PAGES, "page.settled")];
    assert_eq!(kinds, expected.map(|(url, kind)| (url, kind.to_owned())), "{what}: {} calls", calls.len());
    assert_eq!(webhooks::waiting(&process.app.store, 10).await.unwrap().len(), 0, "{what}");
}

async fn run(faults: Arc<Faults>) -> (Harness, Process) {
    let harness = Harness::with_faults(&[], faults, false);
    let process = harness.start("a");
    let id = accepted(&process).await;
    process.finish(&id).await;
    settle(&process, Duration::from_secs(30)).await;
    (harness, process)
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_sent_despite_any_refused_call_or_lost_reply() {
    let (harness, process) = run(Faults::none()).await;
    let calls = harness.faults.calls();
    check(&harness, &process, "no fault").await;
    assert_eq!(harness.hooks.calls().len(), 3);
    for (at, mode) in (0..calls).flat_map(|at| [(at, Mode::Refuse), (at, Mode::LoseReply)]) {
        let (harness, process) = run(Faults::at(at, 1, mode)).await;
        let what = format!("{mode:?} of call {at} ({:?})", harness.faults.failed_call());
        check(&harness, &process, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_sent_by_the_next_process_after_a_kill_at_any_call() {
    let calls = run(Faults::none()).await.0.faults.calls();
    for at in 0..calls {
        let harness = Harness::with_faults(&[], Faults::stop_at(at), false);
        let first = harness.start("a");
        let killed = async {
            let id = accepted(&first).await;
            first.finish(&id).await;
            settle(&first, Duration::from_secs(30)).await;
        };
        let stopped = harness.faults.stopped();
        tokio::select! { () = killed => {}, () = stopped => {} }
        drop(first);
        harness.faults.resume();
        let second = harness.start("b");
        let id = accepted(&second).await;
        second.finish(&id).await;
        check(&harness, &second, &format!("killed at call {at}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_pauses_its_webhook_until_it_is_back() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let app = &process.app;
    let url = "https://gone.example/hook";
    let wanted = Subscription { url: url.into(), events: vec!["credit.*".into()] };
    webhooks::add(&app.store, app.vault.as_ref(), &tenant(), &wanted, "ann").await.unwrap().unwrap();
    harness.hooks.refuse_at(url);
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    for _ in 0..100 {
        let event = AccountEvent::Added { credits: 1, cause: cause.clone() };
        accounts::change(&app.store, &tenant(), "ann", &event).await.unwrap();
    }
    settle(&process, Duration::from_secs(3000)).await;
    // Those that were being sent when it was paused may become dead letters too.
    let dead = dead_letters::waiting(&app.store, 1000).await.unwrap().len();
    assert!((5..=9).contains(&dead), "{dead} dead letters");
    let calls = harness.hooks.calls().len();
    assert!(calls < 320, "each is tried three times before the first dead letters: {calls}");
    let notices = everypage_core::notices::all(&app.store, 1000).await.unwrap();
    assert_eq!(notices.iter().filter(|notice| notice.subject.contains("is paused")).count(), 1);
    settle(&process, Duration::from_secs(5 * 3600)).await;
    let probes = harness.hooks.calls().len() - calls;
    assert!((4..=6).contains(&probes), "one per hour: {probes}");
    assert_eq!(dead_letters::waiting(&app.store, 1000).await.unwrap().len(), dead);

    harness.hooks.refuse_at("https://other.example/");
    settle(&process, Duration::from_secs(2 * 3600)).await;
    let delivered: BTreeSet<String> = harness.hooks.calls()[calls + probes..]
        .iter()
        .map(|call| header(call, "webhook-id").to_owned())
        .collect();
    assert_eq!(delivered.len(), 100 - dead);
    assert_eq!(webhooks::waiting(&app.store, 1000).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn messages_for_a_receiver_that_does_not_come_back_are_dropped() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let app = &process.app;
    let url = "https://gone.example/hook";
    let wanted = Subscription { url: url.into(), events: vec!["credit.*".into()] };
    webhooks::add(&app.store, app.vault.as_ref(), &tenant(), &wanted, "ann").await.unwrap().unwrap();
    harness.hooks.refuse_at(url);
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    for _ in 0..20 {
        let event = AccountEvent::Added { credits: 1, cause: cause.clone() };
        accounts::change(&app.store, &tenant(), "ann", &event).await.unwrap();
    }
    settle(&process, Duration::from_secs(4 * 24 * 3600)).await;
    assert_eq!(webhooks::waiting(&app.store, 1000).await.unwrap().len(), 0);
    assert!(dead_letters::waiting(&app.store, 1000).await.unwrap().len() < 10);
}

/// Adds a webhook right after the first time that webhooks are listed.
struct AddsInBetween {
    other: Arc<everypage_core::app::App>,
    has_listed: AtomicBool,
    is_done: AtomicBool,
}

#[async_trait]
impl FaultInjector for AddsInBetween {
    async fn before(&self, call: &'static str) -> Injection {
        self.has_listed.fetch_or(call == "records.list", Ordering::SeqCst);
        Injection::None
    }

    async fn after(&self) {
        if self.has_listed.load(Ordering::SeqCst) && !self.is_done.swap(true, Ordering::SeqCst) {
            let wanted = Subscription { url: "https://example.com/other".into(), events: vec![] };
            let (store, vault) = (&self.other.store, self.other.vault.as_ref());
            webhooks::add(store, vault, &tenant(), &wanted, "ben").await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_tenant_gets_more_webhooks_than_the_limit_from_two_processes() {
    let harness = Harness::new(&[]);
    let other = harness.start("other").app;
    let injector = Arc::new(AddsInBetween {
        other: other.clone(),
        has_listed: AtomicBool::default(),
        is_done: AtomicBool::default(),
    });
    let wanted = Subscription { url: "https://example.com/hook".into(), events: vec![] };
    for _ in 1..webhooks::MAX_PER_TENANT {
        webhooks::add(&other.store, other.vault.as_ref(), &tenant(), &wanted, "ann").await.unwrap().unwrap();
    }
    let records: Arc<dyn Records> = harness.records.clone();
    let late = harness.start_on("late", Arc::new(Faulty::new(records, injector))).app;
    let added = webhooks::add(&late.store, late.vault.as_ref(), &tenant(), &wanted, "ann").await.unwrap();
    assert!(added.is_none());
    assert_eq!(webhooks::list(&other.store, &tenant()).await.unwrap().len(), webhooks::MAX_PER_TENANT);
}
