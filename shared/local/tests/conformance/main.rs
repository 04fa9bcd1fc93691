//! The adapters of the local backend pass the same conformance suites as the test doubles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bus;
mod crashes;
mod flow;
mod notifier;
mod outbox;
mod vault;

use std::sync::Arc;

use everypage_core::ids::JobId;
use everypage_local::{Database, FolderBlobs, SqliteQueue, SqliteRecords};
use everypage_testkit::{clock::ManualClock, conformance::queue::Subject};

/// A folder that is not removed after the test: the operating system cleans its temporary folder.
fn folder() -> std::path::PathBuf {
    tempfile::tempdir().unwrap().keep()
}

mod records {
    use super::*;
    everypage_testkit::records_conformance!(async {
        SqliteRecords::new(Database::open(&folder().join("everypage.db")).unwrap())
    });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_conformance!(async { FolderBlobs::new(folder()).unwrap() });
}

mod queue {
    use super::*;
    everypage_testkit::queue_conformance!(async {
        let clock = Arc::new(ManualClock::default());
        let database = Database::open(&folder().join("everypage.db")).unwrap();
        let queue = Arc::new(SqliteQueue::new(database, clock.clone(), "me"));
        assert!(queue.take_over(&JobId::new("j"), None).await.unwrap());
        Subject::new(queue, clock)
    });
}
