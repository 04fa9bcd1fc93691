#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use everypage_core::ports::blobs::{Blobs, Stored};

pub async fn a_blob_is_written_once(blobs: &impl Blobs) {
    assert_eq!(blobs.put_new("a/b.txt", b"one".to_vec()).await.unwrap(), Stored::Created);
    assert_eq!(blobs.put_new("a/b.txt", b"two".to_vec()).await.unwrap(), Stored::Existed);
    assert_eq!(blobs.get("a/b.txt").await.unwrap().unwrap(), b"one");
}

pub async fn exactly_one_of_many_writers_creates_a_blob(blobs: &impl Blobs) {
    let tries = (0..20u8).map(|n| blobs.put_new("contested", vec![n; 1000]));
    let stored = futures::future::join_all(tries).await;
    assert_eq!(stored.iter().filter(|s| *s.as_ref().unwrap() == Stored::Created).count(), 1);
    let bytes = blobs.get("contested").await.unwrap().unwrap();
    assert_eq!(bytes.len(), 1000);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
}

pub async fn a_stored_file_can_be_opened(blobs: &impl Blobs) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"content").unwrap();
    assert_eq!(blobs.put_file("jobs/j/source.pdf", file.path()).await.unwrap(), Stored::Created);
    std::fs::write(file.path(), b"changed").unwrap();
    assert_eq!(blobs.put_file("jobs/j/source.pdf", file.path()).await.unwrap(), Stored::Existed);
    drop(file);
    let opened = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap();
    assert_eq!(std::fs::read(opened.path()).unwrap(), b"content");
}

pub async fn a_missing_blob_is_none(blobs: &impl Blobs) {
    assert_eq!(blobs.get("nowhere/at/all").await.unwrap(), None);
    assert!(blobs.open("nowhere").await.unwrap().is_none());
}

pub async fn delete_all_removes_exactly_one_prefix(blobs: &impl Blobs) {
    for key in ["jobs/a/x", "jobs/a/y/z", "jobs/ab/x"] {
        blobs.put_new(key, vec![1]).await.unwrap();
    }
    blobs.delete_all("jobs/a/").await.unwrap();
    blobs.delete_all("jobs/a/").await.unwrap();
    assert_eq!(blobs.get("jobs/a/x").await.unwrap(), None);
    assert_eq!(blobs.get("jobs/a/y/z").await.unwrap(), None);
    assert!(blobs.get("jobs/ab/x").await.unwrap().is_some());
}

pub async fn delete_removes_exactly_one_blob(blobs: &impl Blobs) {
    for key in ["incoming/a/report.pdf", "incoming/a/report.pdf.json", "incoming/a/report.pdf2"] {
        blobs.put_new(key, vec![1]).await.unwrap();
    }
    blobs.delete("incoming/a/report.pdf").await.unwrap();
    blobs.delete("incoming/a/report.pdf").await.unwrap();
    assert_eq!(blobs.get("incoming/a/report.pdf").await.unwrap(), None);
    assert!(blobs.get("incoming/a/report.pdf.json").await.unwrap().is_some());
    assert!(blobs.get("incoming/a/report.pdf2").await.unwrap().is_some());
}

/// Keys come from our own code, but may contain a job id that a caller sent.
pub async fn a_key_cannot_escape_the_store(blobs: &impl Blobs) {
    for key in ["../outside", "/etc/passwd", "jobs/../../outside"] {
        let read = blobs.get(key).await;
        assert!(!matches!(read, Ok(Some(_))), "{key}");
    }
}
