//! The embedded adapters sit the same exams as the doubles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bus;
mod flow;
mod notifier;
mod vault;

use std::sync::Arc;

use everypage_core::domain::ids::JobId;
use everypage_local::{Database, FolderBlobs, SqliteQueue, SqliteRecords};
use everypage_testkit::{clock::ManualClock, suites::queue::Subject};

/// A folder that outlives the test: the operating system cleans up its temporary folder.
fn folder() -> std::path::PathBuf {
    tempfile::tempdir().unwrap().keep()
}

mod records {
    use super::*;
    everypage_testkit::records_exam!(async {
        SqliteRecords::new(Database::open(&folder().join("everypage.db")).unwrap())
    });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_exam!(async { FolderBlobs::new(folder()).unwrap() });
}

mod queue {
    use super::*;
    everypage_testkit::queue_exam!(async {
        let clock = Arc::new(ManualClock::default());
        let database = Database::open(&folder().join("everypage.db")).unwrap();
        let queue = Arc::new(SqliteQueue::new(database, clock.clone(), "me"));
        assert!(queue.take_over(&JobId::new("j"), None).await.unwrap());
        Subject::new(queue, clock)
    });
}
