#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use everypage_core::ports::records::{Batch, Change, Draft, Index, IndexEntry, Key, Records, When, Written};

fn put(key: Key, body: &str, when: When) -> Change {
    Change::Put { draft: Draft::new(key, format!("{body:?}")), when }
}

fn batch(stamp: &str, changes: Vec<Change>) -> Batch {
    Batch { stamp: stamp.into(), changes }
}

async fn write(records: &dyn Records, changes: Vec<Change>) -> Written {
    records.write(&batch("s", changes)).await.unwrap()
}

fn key(sort: &str) -> Key {
    Key::new("p", sort)
}

pub async fn what_was_written_is_read_back(records: &impl Records) {
    let draft = Draft {
        tenant_index: Some(IndexEntry::new("t", "1")),
        state_index: Some(IndexEntry::new("s", "2")),
        expires: Some(crate::clock::epoch()),
        ..Draft::new(key("a"), r#"{"x":"é\n"}"#.into())
    };
    let change = Change::Put { draft: draft.clone(), when: When::Absent };
    assert_eq!(records.write(&batch("stamp-1", vec![change])).await.unwrap(), Written::Applied);
    let item = records.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(item.draft, draft);
    assert_eq!((item.version, item.stamp.as_str()), (1, "stamp-1"));
    assert_eq!(records.get(&key("b")).await.unwrap(), None);
    assert_eq!(records.get(&Key::new("q", "a")).await.unwrap(), None);
}

pub async fn a_condition_that_does_not_hold_writes_nothing(records: &impl Records) {
    write(records, vec![put(key("a"), "one", When::Absent)]).await;
    for when in [When::Absent, When::Version(2), When::Version(0)] {
        let refused = write(records, vec![put(key("a"), "two", when)]).await;
        assert!(matches!(refused, Written::Refused { index: 0, .. }), "{when:?}");
    }
    let refused = write(records, vec![put(key("b"), "two", When::Version(1))]).await;
    assert_eq!(refused, Written::Refused { index: 0, existing: None });
    assert_eq!(records.get(&key("a")).await.unwrap().unwrap().draft.body, "\"one\"");
    assert_eq!(records.get(&key("b")).await.unwrap(), None);
}

pub async fn a_batch_is_written_completely_or_not_at_all(records: &impl Records) {
    write(records, vec![put(key("b"), "old", When::Absent)]).await;
    let changes = vec![put(key("a"), "new", When::Absent), put(key("b"), "new", When::Absent)];
    assert!(matches!(write(records, changes).await, Written::Refused { index: 1, .. }));
    assert_eq!(records.get(&key("a")).await.unwrap(), None);
    let changes = vec![put(key("a"), "new", When::Absent), Change::Delete { key: key("b"), version: 1 }];
    assert_eq!(write(records, changes).await, Written::Applied);
    assert!(records.get(&key("a")).await.unwrap().is_some());
    assert_eq!(records.get(&key("b")).await.unwrap(), None);
}

pub async fn a_stale_version_is_refused_with_the_current_record(records: &impl Records) {
    write(records, vec![put(key("a"), "one", When::Absent)]).await;
    write(records, vec![put(key("a"), "two", When::Version(1))]).await;
    let Written::Refused { existing: Some(item), .. } =
        write(records, vec![put(key("a"), "three", When::Version(1))]).await
    else {
        panic!("a stale holder wrote over its successor");
    };
    assert_eq!((item.version, item.draft.body.as_str()), (2, "\"two\""));
}

pub async fn exactly_one_of_many_writers_wins(records: &impl Records) {
    let tries = (0..20).map(|n| async move {
        let change = put(key("contested"), &n.to_string(), When::Absent);
        records.write(&batch(&n.to_string(), vec![change])).await.unwrap()
    });
    let applied = futures::future::join_all(tries).await.iter().filter(|w| **w == Written::Applied).count();
    assert_eq!(applied, 1);
}

pub async fn versions_count_up_and_a_delete_needs_the_current_one(records: &impl Records) {
    write(records, vec![put(key("a"), "one", When::Absent)]).await;
    write(records, vec![put(key("a"), "two", When::Version(1))]).await;
    let stale = write(records, vec![Change::Delete { key: key("a"), version: 1 }]).await;
    assert!(matches!(stale, Written::Refused { .. }));
    assert_eq!(records.get(&key("a")).await.unwrap().unwrap().version, 2);
    assert_eq!(write(records, vec![Change::Delete { key: key("a"), version: 2 }]).await, Written::Applied);
    assert_eq!(write(records, vec![put(key("a"), "again", When::Absent)]).await, Written::Applied);
    assert_eq!(records.get(&key("a")).await.unwrap().unwrap().version, 1);
}

pub async fn a_partition_is_listed_in_order_and_in_pages(records: &impl Records) {
    for sort in ["page#3", "page#1", "page#2", "pagelog#1", "job"] {
        write(records, vec![put(key(sort), sort, When::Absent)]).await;
    }
    write(records, vec![put(Key::new("other", "page#9"), "x", When::Absent)]).await;
    let mut sorts = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let listing = records.list("p", "page#", after.as_deref(), 2).await.unwrap();
        assert!(listing.items.len() <= 2);
        sorts.extend(listing.items.iter().map(|item| item.draft.key.sort.clone()));
        match listing.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(sorts, ["page#1", "page#2", "page#3"]);
    // A prefix is text, not a pattern.
    assert!(records.list("p", "page_", None, 10).await.unwrap().items.is_empty());
    assert!(records.list("p", "%", None, 10).await.unwrap().items.is_empty());
}

pub async fn an_index_lists_only_current_entries(records: &impl Records) {
    for (sort, entry) in [("a", Some("2")), ("b", Some("1")), ("c", None)] {
        let draft = Draft {
            state_index: entry.map(|entry| IndexEntry::new("open", entry)),
            ..Draft::new(key(sort), "1".into())
        };
        write(records, vec![Change::Put { draft, when: When::Absent }]).await;
    }
    let sorts = |listing: everypage_core::ports::records::Listing| {
        listing.items.into_iter().map(|item| item.draft.key.sort).collect::<Vec<_>>()
    };
    assert_eq!(sorts(records.list_index(Index::State, "open", None, false, 10).await.unwrap()), ["b", "a"]);
    assert_eq!(sorts(records.list_index(Index::State, "open", None, true, 10).await.unwrap()), ["a", "b"]);
    assert_eq!(sorts(records.list_index(Index::State, "open", Some("1"), false, 10).await.unwrap()), ["a"]);
    let first = records.list_index(Index::State, "open", None, false, 1).await.unwrap();
    assert_eq!((first.items.len(), first.next.as_deref()), (1, Some("1")));
    assert!(records.list_index(Index::Tenant, "open", None, false, 10).await.unwrap().items.is_empty());
    let left = Draft::new(key("b"), "2".into());
    write(records, vec![Change::Put { draft: left, when: When::Version(1) }]).await;
    assert_eq!(sorts(records.list_index(Index::State, "open", None, false, 10).await.unwrap()), ["a"]);
}

pub async fn get_many_returns_records_in_the_requested_order(records: &impl Records) {
    for sort in ["a", "b"] {
        write(records, vec![put(key(sort), sort, When::Absent)]).await;
    }
    let items = records.get_many(&[key("b"), key("none"), key("a")]).await.unwrap();
    let bodies: Vec<Option<String>> =
        items.into_iter().map(|item| item.map(|item| item.draft.body)).collect();
    assert_eq!(bodies, [Some("\"b\"".into()), None, Some("\"a\"".into())]);
}
