//! What only the AWS adapters have: transactions, limits of a call, and the ports without an exam.

use std::{sync::Arc, time::Duration};

use everypage_aws::{Clients, DynamoRecords, EventBridgeBus, KmsVault, S3Blobs, SfnFlow, SnsNotifier};
use everypage_core::{
    domain::{
        event::{Aggregate, Event, Head, Metadata},
        ids::{CorrelationId, EventId, JobId, Priority, TaskToken, TenantId},
        secret::Secret,
        trace::TraceContext,
    },
    ports::{
        Fault,
        blobs::Blobs,
        bus::Bus,
        flow::{Flow, Settlement},
        notifier::{Notice, Notifier},
        queue::{Outgoing, Queue},
        records::{Batch, Change, Draft, Key, Records, When, Written},
        vault::Vault,
    },
};
use everypage_testkit::memory::MemoryRecords;
use futures::future::join_all;
use serde_json::{Value, json};

use super::emulator;

async fn records() -> DynamoRecords {
    let clients = emulator::connect().await;
    let table = emulator::table(&clients).await;
    DynamoRecords::new(clients.dynamodb, table)
}

fn put(sort: &str, body: String) -> Change {
    Change::Put { draft: Draft::new(Key::new("p", sort), body), when: When::Absent }
}

#[tokio::test]
async fn a_transaction_sent_again_is_applied_once() {
    let records = records().await;
    let batch = Batch { stamp: "one".into(), changes: vec![put("a", "1".into()), put("b", "1".into())] };
    assert_eq!(records.write(&batch).await.unwrap(), Written::Applied);
    assert_eq!(records.write(&batch).await.unwrap(), Written::Applied);
    assert_eq!(records.get(&Key::new("p", "a")).await.unwrap().unwrap().version, 1);
    let other = Batch { stamp: "two".into(), ..batch };
    let Written::Refused { index: 0, existing: Some(item) } = records.write(&other).await.unwrap() else {
        panic!("another batch was taken for the first");
    };
    assert_eq!(item.stamp, "one");
}

#[tokio::test]
async fn of_many_transactions_exactly_one_is_applied() {
    let records = &records().await;
    let tries = (0..20).map(|n| async move {
        let changes = vec![put("contested", n.to_string()), put(&format!("own {n}"), n.to_string())];
        let batch = Batch { stamp: format!("{n}"), changes };
        loop {
            // A conflict is a pause, and nothing else: asked again, it is decided.
            match records.write(&batch).await {
                Err(Fault::Throttled { .. }) => tokio::task::yield_now().await,
                written => break written.unwrap(),
            }
        }
    });
    let written = join_all(tries).await;
    assert_eq!(written.iter().filter(|written| **written == Written::Applied).count(), 1);
    assert_eq!(records.list("p", "own", None, 100).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn an_expiry_is_kept_to_the_millisecond_and_given_to_dynamodb_in_seconds() {
    let clients = emulator::connect().await;
    let table = emulator::table(&clients).await;
    let records = DynamoRecords::new(clients.dynamodb.clone(), &table);
    let expires = jiff::Timestamp::from_millisecond(4_000_000_000_123).unwrap();
    let draft = Draft { expires: Some(expires), ..Draft::new(Key::new("p", "s"), "1".into()) };
    let change = Change::Put { draft, when: When::Absent };
    records.write(&Batch { stamp: "s".into(), changes: vec![change] }).await.unwrap();
    assert_eq!(records.get(&Key::new("p", "s")).await.unwrap().unwrap().draft.expires, Some(expires));
    let scanned = clients.dynamodb.scan().table_name(&table).send().await.unwrap();
    assert_eq!(scanned.items()[0]["expires"].as_n().unwrap(), "4000000001");
}

#[tokio::test]
async fn more_than_a_call_can_carry_is_read_and_listed_whole() {
    let records = records().await;
    // 150 keys are two calls; 150 times 20 KB are more than one page of a listing.
    let keys: Vec<Key> = (0..150).map(|n| Key::new("p", format!("{n:03}"))).collect();
    for part in keys.chunks(50) {
        let changes = part.iter().map(|key| put(&key.sort, format!("\"{}\"", "x".repeat(20_000)))).collect();
        let batch = Batch { stamp: part[0].sort.clone(), changes };
        assert_eq!(records.write(&batch).await.unwrap(), Written::Applied);
    }
    let read = records.get_many(&keys).await.unwrap();
    let read: Vec<&Key> = read.iter().map(|item| &item.as_ref().unwrap().draft.key).collect();
    assert_eq!(read, keys.iter().collect::<Vec<_>>());
    let listing = records.list("p", "", None, 1000).await.unwrap();
    assert_eq!((listing.items.len(), listing.next), (150, None));
}

#[tokio::test]
async fn a_large_file_goes_up_and_its_copy_goes_away() {
    let clients = emulator::connect().await;
    let bucket = emulator::bucket(&clients).await;
    let blobs = S3Blobs::new(clients.s3, bucket);
    let file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..8_000_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(file.path(), &content).unwrap();
    blobs.put_file("jobs/j/source.pdf", file.path()).await.unwrap();
    let opened = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap();
    assert!(std::fs::read(opened.path()).unwrap() == content);
    let path = opened.path().to_owned();
    drop(opened);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_prefix_of_more_than_a_thousand_is_deleted() {
    let clients = emulator::connect().await;
    let bucket = emulator::bucket(&clients).await;
    let blobs = &S3Blobs::new(clients.s3.clone(), &bucket);
    for part in (0..1005).collect::<Vec<u32>>().chunks(50) {
        join_all(
            part.iter().map(|n| async move { blobs.put_new(&format!("a/{n}"), vec![1]).await.unwrap() }),
        )
        .await;
    }
    blobs.delete_all("a/").await.unwrap();
    let left = clients.s3.list_objects_v2().bucket(&bucket).send().await.unwrap();
    assert_eq!(left.contents().len(), 0);
}

#[tokio::test]
async fn many_messages_are_sent_and_received_each_in_its_lane() {
    let queue = emulator::queue(&emulator::connect().await).await;
    let body = |n: usize| format!("{n} {}", "x".repeat(200_000));
    let messages: Vec<Outgoing> = (0..25)
        .map(|n| Outgoing {
            name: n.to_string(),
            job: JobId::new("j"),
            lane: if n % 5 == 0 { Priority::High } else { Priority::Low },
            body: body(n),
        })
        .collect();
    queue.send(&messages).await.unwrap();
    let mut found = queue.receive(100, Duration::from_secs(60)).await.unwrap();
    assert!(found[..5].iter().all(|delivery| delivery.lane == Priority::High));
    found.sort_by_key(|delivery| delivery.body.split(' ').next().unwrap().parse::<usize>().unwrap());
    let bodies: Vec<String> = found.into_iter().map(|delivery| delivery.body).collect();
    assert!(bodies == (0..25).map(body).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_secret_is_sealed_and_opened_by_kms() {
    let clients = emulator::connect().await;
    let made = clients.kms.create_key().send().await.unwrap();
    let vault = KmsVault::new(clients.kms, made.key_metadata.unwrap().key_id);
    let sealed = vault.seal(&Secret::new("pässword")).await.unwrap();
    assert!(!sealed.contains("ssword"));
    assert_eq!(vault.open(&sealed).await.unwrap(), Secret::new("pässword"));
    assert!(vault.open("bm90IHNlYWxlZA==").await.is_err());
}

/// A queue to look into; answers its URL and ARN.
async fn inbox(clients: &Clients) -> (String, String) {
    let name = emulator::fresh("inbox");
    let url = clients.sqs.create_queue().queue_name(&name).send().await.unwrap().queue_url.unwrap();
    let arn = aws_sdk_sqs::types::QueueAttributeName::QueueArn;
    let call = clients.sqs.get_queue_attributes().queue_url(&url).attribute_names(arn.clone());
    let arn = call.send().await.unwrap().attributes.unwrap().remove(&arn).unwrap();
    (url, arn)
}

async fn arrived(clients: &Clients, url: &str, count: usize) -> Vec<Value> {
    let mut bodies = Vec::new();
    for _ in 0..20 {
        let call =
            clients.sqs.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(1);
        let messages = call.send().await.unwrap().messages.unwrap_or_default();
        bodies.extend(messages.iter().map(|message| serde_json::from_str(message.body().unwrap()).unwrap()));
        if bodies.len() >= count {
            break;
        }
    }
    bodies
}

#[tokio::test]
async fn a_job_is_started_once_and_a_page_settled_once() {
    let clients = emulator::connect().await;
    let (url, _) = inbox(&clients).await;
    let wait = json!({"StartAt": "Page", "States": {"Page": {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": url, "MessageBody": {"token.$": "$$.Task.Token", "job.$": "$.job_id"}},
        "End": true,
    }}});
    let machine = clients
        .sfn
        .create_state_machine()
        .name(emulator::fresh("flow"))
        .role_arn("arn:aws:iam::000000000000:role/flow")
        .definition(wait.to_string());
    let machine = machine.send().await.unwrap().state_machine_arn;
    let flow = SfnFlow::new(clients.sfn.clone(), &machine, Arc::new(MemoryRecords::default()));
    let job = JobId::new("01jz");
    flow.start(&job, 0, &trace()).await.unwrap();
    flow.start(&job, 0, &trace()).await.unwrap();
    let pages = arrived(&clients, &url, 1).await;
    assert_eq!((pages.len(), &pages[0]["job"]), (1, &json!("01jz")));
    let token = TaskToken::new(pages[0]["token"].as_str().unwrap());
    flow.remember(&job, &token).await.unwrap();
    flow.wake(&job).await.unwrap();
    assert_eq!(flow.settle(&token).await.unwrap(), Settlement::Stale);
    assert_eq!(flow.settle(&TaskToken::new("never given out")).await.unwrap(), Settlement::Stale);
    flow.wake(&job).await.unwrap();
    flow.start(&job, 0, &trace()).await.unwrap();
    let runs = clients.sfn.list_executions().state_machine_arn(&machine).send().await.unwrap();
    assert_eq!(runs.executions().len(), 1);
}

fn trace() -> TraceContext {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

fn events(count: u64) -> Vec<Event> {
    let metadata = Metadata {
        user_id: None,
        tenant: TenantId::new("acme"),
        source: "worker".into(),
        environment: "test".into(),
        trace_id: String::new(),
        span_id: String::new(),
        priority: Priority::Normal,
    };
    let mut head = Head::default();
    let mut events = Vec::new();
    for n in 0..count {
        let typed = json!({"type": "page.settled", "data": {"page": n}});
        let aggregate = Aggregate::Job(JobId::new("j"));
        let (id, now) = (EventId::new(n.to_string()), everypage_testkit::clock::epoch());
        let (event, next) =
            head.append(aggregate, id, &typed, now, CorrelationId::new("c"), metadata.clone());
        head = next;
        events.push(event);
    }
    events
}

#[tokio::test]
async fn events_reach_a_rule_of_the_bus_unchanged() {
    let clients = emulator::connect().await;
    let (url, arn) = inbox(&clients).await;
    let bus = emulator::fresh("bus");
    clients.eventbridge.create_event_bus().name(&bus).send().await.unwrap();
    let rule = clients.eventbridge.put_rule().name("all").event_bus_name(&bus);
    rule.event_pattern(r#"{"source":["everypage"],"detail-type":["page.settled"]}"#).send().await.unwrap();
    let target = aws_sdk_eventbridge::types::Target::builder().id("inbox").arn(arn).build().unwrap();
    clients.eventbridge.put_targets().rule("all").event_bus_name(&bus).targets(target).send().await.unwrap();
    let events = events(23);
    EventBridgeBus::new(clients.eventbridge.clone(), &bus).publish(&events).await.unwrap();
    let mut found: Vec<Event> = arrived(&clients, &url, 23)
        .await
        .into_iter()
        .map(|envelope| serde_json::from_value(envelope["detail"].clone()).unwrap())
        .collect();
    found.sort_by_key(|event| event.sequence);
    assert_eq!(found, events);
}

#[tokio::test]
async fn a_notice_reaches_the_topic() {
    let clients = emulator::connect().await;
    let (url, arn) = inbox(&clients).await;
    let topic =
        clients.sns.create_topic().name(emulator::fresh("notices")).send().await.unwrap().topic_arn.unwrap();
    clients.sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(arn).send().await.unwrap();
    let notice = Notice {
        tenant: TenantId::new("acme"),
        responsible: None,
        subject: "A page is in the dead letter queue".into(),
        body: "why, and what to do".into(),
    };
    SnsNotifier::new(clients.sns.clone(), &topic).notify(&notice).await.unwrap();
    let found = arrived(&clients, &url, 1).await;
    assert_eq!(found[0]["Message"], notice.body);
    assert_eq!(found[0]["Subject"], notice.subject);
    assert_eq!(found[0]["MessageAttributes"]["tenant"]["Value"], "acme");
}
