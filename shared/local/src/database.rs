//! One SQLite file: one thread writes, two threads read.
//!
//! Writes that queue up are committed together, so that a hundred pages settling at the same time
//! cost one flush to disk and not a hundred. A write returns after its commit, never before.

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use everypage_core::ports::Fault;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

/// More writes in one commit would only make the first of them wait longer.
const MAX_WRITES_PER_COMMIT: usize = 200;
const READER_THREADS: usize = 2;
/// Another process with the same data folder may be writing; its commits take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS items (
    id INTEGER PRIMARY KEY,
    partition TEXT NOT NULL, sort TEXT NOT NULL,
    version INTEGER NOT NULL, stamp TEXT NOT NULL, body TEXT NOT NULL,
    tenant_partition TEXT, tenant_sort TEXT,
    state_partition TEXT, state_sort TEXT,
    expires INTEGER,
    UNIQUE (partition, sort)
);
CREATE INDEX IF NOT EXISTS items_tenant ON items (tenant_partition, tenant_sort) WHERE tenant_partition IS NOT NULL;
CREATE INDEX IF NOT EXISTS items_state ON items (state_partition, state_sort) WHERE state_partition IS NOT NULL;
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL, name TEXT NOT NULL UNIQUE, lane INTEGER NOT NULL, body TEXT NOT NULL,
    visible_at INTEGER NOT NULL, receive_count INTEGER NOT NULL DEFAULT 0,
    delayed INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0, alone INTEGER NOT NULL DEFAULT 0,
    tenant TEXT NOT NULL DEFAULT '', place INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS messages_job ON messages (job, visible_at);
CREATE INDEX IF NOT EXISTS messages_turn ON messages (lane DESC, place, id);
CREATE INDEX IF NOT EXISTS messages_tenant ON messages (lane, tenant, place);
CREATE INDEX IF NOT EXISTS messages_received ON messages (lane, place) WHERE receive_count > 0;
CREATE INDEX IF NOT EXISTS messages_suspect ON messages (crashes) WHERE crashes >= 2;
CREATE TABLE IF NOT EXISTS drives (job TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
";

/// Written into the file; a file of a newer version is refused rather than misread.
const SCHEMA_VERSION: i64 = 3;

/// Brings a file of version 1 to version 2: messages may be delayed, and know which processes had them.
const MIGRATION_FROM_1: &str = "
ALTER TABLE messages ADD COLUMN delayed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
";

/// Brings a file of version 2 to version 3: messages have their place among those of other tenants.
const MIGRATION_FROM_2: &str = "
ALTER TABLE messages ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
DROP INDEX IF EXISTS messages_lane;
";

/// The second part of the way from version 1, on the tables as they are then: jobs that have ended are listed by when they did, for
/// `DATA_RETENTION`.
const LISTING_FROM_1: &str = "
UPDATE items SET state_partition = 'jobs#ended',
    state_sort = strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(body, '$.finished_at')) || '#' || substr(partition, 5)
WHERE sort = 'job' AND partition LIKE 'job#%' AND state_partition IS NULL
    AND json_extract(body, '$.finished_at') IS NOT NULL;
";

/// Called after the commit, with its result.
type OnCommit = Box<dyn FnOnce(Result<(), String>) + Send>;
/// Runs inside the transaction; gets `None` when no transaction could be started.
type WriteJob = Box<dyn FnOnce(Option<&Connection>) -> OnCommit + Send>;
type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Clone)]
pub struct Database {
    writer: mpsc::Sender<WriteJob>,
    reader: mpsc::Sender<ReadJob>,
    commits: Arc<AtomicU64>,
}

impl Database {
    /// Opens or creates the file.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let fault =
            |error: rusqlite::Error| Fault::unreachable("database", format!("{}: {error}", path.display()));
        let opening = lock(path)
            .map_err(|error| Fault::unreachable("database", format!("{}: {error}", path.display())))?;
        let connection = Connection::open(path).map_err(fault)?;
        set_up(&connection).map_err(fault)?;
        let version: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fault)?;
        if version > SCHEMA_VERSION {
            let detail = format!(
                "{} was written by a newer Everypage (format {version}, this one reads {SCHEMA_VERSION}); \
                 update Everypage",
                path.display()
            );
            return Err(Fault::broken("database", detail));
        }
        // New and old files only: SQLite refuses a write without waiting for the busy timeout when another
        // process commits between the write's read of the file and its lock.
        if version < SCHEMA_VERSION {
            let (before, after) = match version {
                0 => (String::new(), ""),
                1 => (format!("{MIGRATION_FROM_1}{MIGRATION_FROM_2}"), LISTING_FROM_1),
                _ => (MIGRATION_FROM_2.to_owned(), ""),
            };
            let all = format!("BEGIN;{before}{SCHEMA}{after}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;");
            connection.execute_batch(&all).map_err(fault)?;
        }
        drop(opening);

        let (writer, writes) = mpsc::channel();
        let commits = Arc::<AtomicU64>::default();
        let counted = commits.clone();
        thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || write_loop(connection, &writes, &counted))
            .map_err(|error| Fault::unreachable("database", error))?;
        let (reader, reads) = mpsc::channel::<ReadJob>();
        let reads = Arc::new(Mutex::new(reads));
        for _ in 0..READER_THREADS {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
            connection.busy_timeout(BUSY_TIMEOUT).map_err(fault)?;
            let reads = reads.clone();
            thread::Builder::new()
                .name("sqlite-reader".into())
                .spawn(move || read_loop(&connection, &reads))
                .map_err(|error| Fault::unreachable("database", error))?;
        }
        Ok(Self { writer, reader, commits })
    }

    /// Number of commits of this process; many writes may share one.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in a transaction; its changes are durable when this returns. When `work` fails it is
    /// rolled back alone, and other writes of the same commit are kept.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        let (reply, response) = oneshot::channel();
        let job: WriteJob = Box::new(move |connection| {
            let result = connection.map(|connection| in_savepoint(connection, work));
            Box::new(move |committed| {
                // The caller may have been dropped: the write is committed all the same.
                let _ = reply.send(match (committed, result) {
                    (Ok(()), Some(result)) => result.map_err(fault),
                    (Ok(()), None) => Err(Fault::unreachable("database", "no transaction was started")),
                    (Err(error), _) => Err(Fault::unreachable("database", error)),
                });
            })
        });
        self.writer.send(job).map_err(|_| Fault::unreachable("database", "the writer has stopped"))?;
        response.await.map_err(|_| Fault::unreachable("database", "the writer has stopped"))?
    }

    /// Runs `work` on a read-only connection; it sees every write that returned before.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        let (reply, response) = oneshot::channel();
        let job: ReadJob = Box::new(move |connection| {
            let _ = reply.send(work(connection).map_err(fault));
        });
        self.reader.send(job).map_err(|_| Fault::unreachable("database", "the readers have stopped"))?;
        response.await.map_err(|_| Fault::unreachable("database", "the readers have stopped"))?
    }
}

/// Locks the setup of the file for one process at a time: while another process switches a new file
/// to a write-ahead log, SQLite fails instead of waiting, whatever the busy timeout.
fn lock(path: &Path) -> std::io::Result<File> {
    let file = File::create(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

fn fault(error: rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            Fault::Throttled { service: "database", retry_after: None }
        }
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            Fault::broken("database", error)
        }
        _ => Fault::unreachable("database", error),
    }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An accepted job survives a power cut, not only a crash.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}

fn in_savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.execute_batch("SAVEPOINT one")?;
    let result = work(connection);
    connection.execute_batch(if result.is_ok() { "RELEASE one" } else { "ROLLBACK TO one; RELEASE one" })?;
    result
}

fn write_loop(connection: Connection, jobs: &mpsc::Receiver<WriteJob>, commits: &AtomicU64) {
    while let Ok(first) = jobs.recv() {
        if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
            first(None)(Err(error.to_string()));
            continue;
        }
        let mut callbacks = vec![first(Some(&connection))];
        while callbacks.len() < MAX_WRITES_PER_COMMIT
            && let Ok(job) = jobs.try_recv()
        {
            callbacks.push(job(Some(&connection)));
        }
        let committed = connection.execute_batch("COMMIT").map_err(|error| {
            let _ = connection.execute_batch("ROLLBACK");
            error.to_string()
        });
        commits.fetch_add(1, Ordering::Relaxed);
        for on_commit in callbacks {
            on_commit(committed.clone());
        }
    }
}

fn read_loop(connection: &Connection, jobs: &Mutex<mpsc::Receiver<ReadJob>>) {
    loop {
        let next = jobs.lock().recv();
        match next {
            Ok(job) => job(connection),
            Err(_) => return,
        }
    }
}
