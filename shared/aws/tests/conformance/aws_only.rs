//! Cases of the AWS adapters alone: transactions, and limits of a call.

use std::time::Duration;

use everypage_aws::{DynamoRecords, S3Blobs};
use everypage_core::{
    ids::{JobId, Priority},
    ports::{
        Fault,
        blobs::{Blobs, Stored},
        queue::{Outgoing, Queue},
        records::{Batch, Change, Draft, Key, Records, When, Written},
    },
};
use futures::future::join_all;

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
        panic!("another batch counted as the first");
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
            // A conflict is throttling; a retry decides it.
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
async fn expiry_is_stored_in_milliseconds_and_as_time_to_live_in_seconds() {
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
async fn reads_and_listings_continue_over_the_limits_of_a_call() {
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
async fn a_large_file_is_stored_and_its_local_copy_is_removed() {
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
async fn an_upload_is_copied_inside_the_bucket_and_opened_without_another_download() {
    let clients = emulator::connect().await;
    let bucket = emulator::bucket(&clients).await;
    let blobs = S3Blobs::new(clients.s3.clone(), &bucket);
    blobs.keep_downloads();
    let key = "incoming/acme/a report (1)+.pdf";
    blobs.put_new(key, b"content".to_vec()).await.unwrap();
    let upload = blobs.fetch(key, None, 100).await.unwrap().unwrap();
    assert_eq!(blobs.put_file("jobs/j/source.pdf", upload.file.path()).await.unwrap(), Stored::Created);
    // Had it been sent back, this would be the content.
    let downloaded = upload.file.path().to_owned();
    std::fs::write(&downloaded, b"changed").unwrap();
    assert_eq!(blobs.get("jobs/j/source.pdf").await.unwrap().unwrap(), b"content");
    let opened = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap();
    assert_eq!(opened.path(), downloaded, "the same file");
    blobs.delete("jobs/j/source.pdf").await.unwrap();
    assert!(blobs.open("jobs/j/source.pdf").await.unwrap().is_none());
}

#[tokio::test]
async fn a_prefix_with_more_than_a_thousand_blobs_is_deleted() {
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
async fn many_messages_are_sent_and_received_in_their_lanes() {
    let queue = emulator::queue(&emulator::connect().await).await;
    let body = |n: usize| format!("{n} {}", "x".repeat(200_000));
    let messages: Vec<Outgoing> = (0..25)
        .map(|n| Outgoing {
            name: n.to_string(),
            job: JobId::new("j"),
            lane: if n % 5 == 0 { Priority::High } else { Priority::Low },
            body: body(n),
            delay: Duration::ZERO,
        })
        .collect();
    queue.send(&messages).await.unwrap();
    let mut found = queue.receive(100, Duration::from_secs(60)).await.unwrap();
    assert!(found[..5].iter().all(|delivery| delivery.lane == Priority::High));
    found.sort_by_key(|delivery| delivery.body.split(' ').next().unwrap().parse::<usize>().unwrap());
    let bodies: Vec<String> = found.into_iter().map(|delivery| delivery.body).collect();
    assert!(bodies == (0..25).map(body).collect::<Vec<_>>());
}
