//! The limits of the disk, which durable work is compared with.

use std::{fs::File, io::Write, path::Path};

use rusqlite::Connection;

use crate::now;

/// Commits of one small row each, as durable as those of Everypage.
pub fn commits_per_second(folder: &Path, count: u32) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let connection = Connection::open(folder.path().join("limit.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let body = "x".repeat(100);
    let mut insert = connection.prepare("INSERT INTO rows (body) VALUES (?1)")?;
    let started = now();
    for _ in 0..count {
        insert.execute([&body])?;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// Appends of one kilobyte to a file, each synced before the next.
pub fn writes_per_second(folder: &Path, count: u32) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let mut file = File::create(folder.path().join("limit"))?;
    let started = now();
    for _ in 0..count {
        file.write_all(&[b'x'; 1024])?;
        file.sync_all()?;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}
