//! The page queue as a table. Each process receives the messages of the jobs that it drives.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ids::{JobId, Priority, TenantId},
    job::message::PartialMessage,
    keys::{index, record},
    ports::{
        Fault,
        clock::Clock,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
    time::after,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::database::Database;

/// Every fifth receive takes the oldest messages first, whatever their lane: lower lanes never starve. In the others
/// tenants of one lane take turns.
const FAIR_RECEIVE_INTERVAL: u64 = 5;

/// Processes that died while they had a message, among others: from then on it is a suspect. Suspects are
/// received few at a time, and at last alone. Only what happens then counts as a crash of their own: a
/// process that is killed is not the fault of all its pages.
const SUSPECT_CRASHES: u32 = 2;

/// How long a suspect that has to run alone waits for a moment in which nothing else is there; from then on nothing else
/// is received until it has run.
const MAX_SUSPECT_WAIT: Duration = Duration::from_secs(10);

/// Suspects that may be in progress together, by the number of their crashes.
fn suspects_together(crashes: u32) -> usize {
    match crashes {
        0..=2 => 8,
        3 => 2,
        _ => 1,
    }
}

/// A delayed message looks again by itself after this time, should a wake be lost.
const MAX_DELAY: Duration = Duration::from_secs(60);

pub struct SqliteQueue {
    database: Database,
    clock: Arc<dyn Clock>,
    owner: String,
    receives: AtomicU64,
}

impl SqliteQueue {
    pub fn new(database: Database, clock: Arc<dyn Clock>, owner: impl Into<String>) -> Self {
        Self { database, clock, owner: owner.into(), receives: AtomicU64::new(0) }
    }

    /// Makes this process the driver of a job that has no driver or whose driver is `from`. It then
    /// receives the job's messages; those that `from` had received are visible again immediately. False
    /// when another process drives the job.
    pub async fn take_over(&self, job: &JobId, from: Option<&str>) -> Result<bool, Fault> {
        let (job, from, owner, now) =
            (job.to_string(), from.map(str::to_owned), self.owner.clone(), self.now());
        self.database
            .write(move |db| {
                db.execute("INSERT OR IGNORE INTO drives (job, owner) VALUES (?1, ?2)", [&job, &owner])?;
                if let Some(from) = &from {
                    charge_crash(db, from)?;
                    let moved = db.execute(
                        "UPDATE drives SET owner = ?1 WHERE job = ?2 AND owner = ?3",
                        [&owner, &job, from],
                    )?;
                    if moved > 0 {
                        let free = "UPDATE messages SET visible_at = ?1 WHERE job = ?2";
                        db.execute(free, params![now, job])?;
                    }
                }
                db.query_row("SELECT owner = ?1 FROM drives WHERE job = ?2", [&owner, &job], |row| row.get(0))
            })
            .await
    }

    /// Makes the delayed messages of a job visible: it is over, and they have nothing to wait for.
    pub async fn wake_job(&self, job: &JobId) -> Result<(), Fault> {
        let (job, now) = (job.to_string(), self.now());
        self.database
            .write(move |db| {
                db.prepare_cached(
                    "UPDATE messages SET visible_at = ?1 WHERE job = ?2 AND NOT held AND visible_at > ?1",
                )?
                .execute(params![now, job])
            })
            .await?;
        Ok(())
    }

    /// The process that drives a job, if there is one.
    pub async fn driver_of(&self, job: &JobId) -> Result<Option<String>, Fault> {
        let job = job.to_string();
        self.database
            .read(move |db| {
                db.query_row("SELECT owner FROM drives WHERE job = ?1", [job], |row| row.get(0)).optional()
            })
            .await
    }

    /// Stops driving a job; false, and without effect, while the queue holds messages of it.
    pub async fn release(&self, job: &JobId) -> Result<bool, Fault> {
        let (job, owner) = (job.to_string(), self.owner.clone());
        self.database
            .write(move |db| {
                db.execute(
                    "DELETE FROM drives WHERE job = ?1 AND owner = ?2
                     AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.job = drives.job)",
                    [&job, &owner],
                )?;
                let held = "SELECT NOT EXISTS (SELECT 1 FROM drives WHERE job = ?1 AND owner = ?2)";
                db.query_row(held, [&job, &owner], |row| row.get(0))
            })
            .await
    }

    /// Jobs that have a driver, with its name.
    pub async fn driven_jobs(&self) -> Result<Vec<(JobId, String)>, Fault> {
        self.database
            .read(move |db| {
                db.prepare_cached("SELECT job, owner FROM drives")?
                    .query_map([], |row| Ok((JobId::new(row.get::<_, String>(0)?), row.get(1)?)))?
                    .collect()
            })
            .await
    }

    /// Open jobs without a driver, and jobs with messages that no driver would receive.
    pub async fn undriven_jobs(&self) -> Result<Vec<JobId>, Fault> {
        self.database
            .read(move |db| {
                db.prepare_cached(
                    "SELECT job FROM messages WHERE job NOT IN (SELECT job FROM drives)
                     UNION SELECT substr(partition, length(?1) + 1) FROM items
                     WHERE sort = ?2 AND state_partition = ?3
                     AND substr(partition, length(?1) + 1) NOT IN (SELECT job FROM drives)",
                )?
                .query_map([record::JOB_PARTITION, record::JOB, index::OPEN_JOBS], |row| {
                    Ok(JobId::new(row.get::<_, String>(0)?))
                })?
                .collect()
            })
            .await
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }
}

/// Notes the death of a process in the messages that it was working on. With several it is not known whose
/// fault it was, and their deliveries are not counted; that of a message that it had alone is.
fn charge_crash(db: &Connection, owner: &str) -> rusqlite::Result<()> {
    const HELD: &str = "held AND job IN (SELECT job FROM drives WHERE owner = ?1)";
    let sql = format!("SELECT COUNT(*) FROM messages WHERE {HELD}");
    let held: i64 = db.query_row(&sql, [owner], |row| row.get(0))?;
    if held > 1 {
        let forgive = "receive_count = receive_count - 1, crashes = crashes + 1";
        db.execute(&format!("UPDATE messages SET {forgive} WHERE {HELD}"), [owner])?;
    }
    if held > 0 {
        db.execute(&format!("UPDATE messages SET held = 0, alone = 0 WHERE {HELD}"), [owner])?;
    }
    Ok(())
}

/// Messages that this process is working on: all, suspects, and those that run alone.
fn in_progress(db: &Connection, owner: &str, now: i64) -> rusqlite::Result<(usize, usize, usize)> {
    db.prepare_cached(
        "SELECT COUNT(*), TOTAL(crashes >= ?3), TOTAL(alone) FROM messages JOIN drives USING (job)
         WHERE owner = ?1 AND visible_at > ?2 AND held",
    )?
    .query_row(params![owner, now, SUSPECT_CRASHES], |row| {
        Ok((row.get(0)?, row.get::<_, f64>(1)? as usize, row.get::<_, f64>(2)? as usize))
    })
}

/// Adds the suspects that may be received now to `visible`, the other messages that are to be; or takes
/// these out while a suspect runs alone. Each with whether it runs alone.
fn with_suspects(
    db: &Connection,
    owner: &str,
    now: i64,
    max: usize,
    mut visible: Vec<(i64, bool)>,
) -> rusqlite::Result<Vec<(i64, bool)>> {
    let mut suspects: Vec<(i64, u32, i64)> = db
        .prepare_cached(
            "SELECT messages.id, crashes, visible_at FROM messages JOIN drives USING (job)
             WHERE crashes >= ?3 AND owner = ?1 AND visible_at <= ?2 ORDER BY crashes, messages.id",
        )?
        .query_map(params![owner, now, SUSPECT_CRASHES], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let (all, in_progress, alone) = in_progress(db, owner, now)?;
    if alone > 0 {
        return Ok(vec![]);
    }
    let is_overdue = |(_, crashes, visible_at): &&(i64, u32, i64)| {
        suspects_together(*crashes) == 1 && now - visible_at >= MAX_SUSPECT_WAIT.as_millis() as i64
    };
    if let Some((id, ..)) = suspects.iter().find(is_overdue) {
        return Ok(if all == 0 { vec![(*id, true)] } else { vec![] });
    }
    let Some(crashes) = suspects.first().map(|(_, crashes, _)| *crashes) else { return Ok(visible) };
    let together = suspects_together(crashes);
    if together == 1 {
        // It runs when nothing else does.
        if visible.is_empty() && all == 0 {
            visible.push((suspects.remove(0).0, true));
        }
        return Ok(visible);
    }
    suspects.retain(|(_, crashes, _)| suspects_together(*crashes) == together);
    suspects.truncate(together.saturating_sub(in_progress).min(max.saturating_sub(visible.len())));
    visible.extend(suspects.into_iter().map(|(id, ..)| (id, false)));
    Ok(visible)
}

/// The place of a tenant's next message in a lane: behind its own last one, and not before what the lane has reached.
/// So the messages of a tenant with many stand one behind the other, and those of others stand next to them.
fn next_place(db: &Connection, lane: u8, tenant: &str) -> rusqlite::Result<i64> {
    let number = |sql: &str, of: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<Option<i64>> {
        db.prepare_cached(sql)?.query_row(of, |row| row.get(0))
    };
    let last = "SELECT MAX(place) FROM messages WHERE lane = ?1 AND tenant = ?2";
    let last = number(last, &[&lane, &tenant])?.map_or(0, |last| last + 1);
    let reached = "SELECT COALESCE((SELECT MAX(place) FROM messages WHERE lane = ?1 AND receive_count > 0),
                                   (SELECT MIN(place) FROM messages WHERE lane = ?1))";
    Ok(last.max(number(reached, &[&lane])?.unwrap_or(0)))
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let (id, count): (i64, u32) = (row.get("id")?, row.get("receive_count")?);
    let level: u8 = row.get("lane")?;
    let lane = Priority::ALL.into_iter().find(|lane| lane.level() == level).unwrap_or_default();
    Ok(Delivery {
        id: id.to_string(),
        receipt: Receipt(format!("{id}/{count}")),
        lane,
        body: row.get("body")?,
        receive_count: count,
    })
}

/// Splits a receipt into message id and receive count; a later delivery makes it void.
fn parts(receipt: &Receipt) -> (i64, i64) {
    let (id, count) = receipt.0.split_once('/').unwrap_or(("", ""));
    (id.parse().unwrap_or(-1), count.parse().unwrap_or(-1))
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        let (messages, now) = (messages.to_vec(), self.clock.now());
        self.database
            .write(move |db| {
                let mut insert = db.prepare_cached(
                    "INSERT OR IGNORE INTO messages (job, name, lane, body, visible_at, delayed, tenant, place)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?;
                for message in &messages {
                    let visible_at = after(now, message.delay).as_millisecond();
                    let (job, lane) = (message.job.as_str(), message.lane.level());
                    let tenant = PartialMessage::of(&message.body).tenant;
                    let tenant = tenant.as_ref().map_or("", TenantId::as_str);
                    insert.execute(params![
                        job,
                        message.name,
                        lane,
                        message.body,
                        visible_at,
                        !message.delay.is_zero(),
                        tenant,
                        next_place(db, lane, tenant)?
                    ])?;
                }
                Ok(())
            })
            .await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let receive = self.receives.fetch_add(1, Ordering::Relaxed) + 1;
        let is_fair = receive.is_multiple_of(FAIR_RECEIVE_INTERVAL);
        let order = if is_fair { "messages.id" } else { "lane DESC, place, messages.id" };
        let (owner, now) = (self.owner.clone(), self.clock.now());
        let hidden_until = after(now, visibility).as_millisecond();
        let now = now.as_millisecond();
        // A read first: most receives find nothing and then cost no write.
        let seen: Vec<(i64, bool)> = {
            self.database
                .read(move |db| {
                    let visible: Vec<(i64, bool)> = db
                        .prepare_cached(&format!(
                            "SELECT messages.id FROM messages JOIN drives USING (job)
                             WHERE owner = ?1 AND visible_at <= ?2 AND crashes < ?4 ORDER BY {order} LIMIT ?3"
                        ))?
                        .query_map(params![owner, now, max, SUSPECT_CRASHES], |row| Ok((row.get(0)?, false)))?
                        .collect::<Result<_, _>>()?;
                    // Most installations have never had one.
                    let has_suspects = "SELECT EXISTS (SELECT 1 FROM messages WHERE crashes >= 2)";
                    match db.prepare_cached(has_suspects)?.query_row([], |row| row.get(0))? {
                        true => with_suspects(db, &owner, now, max, visible),
                        false => Ok(visible),
                    }
                })
                .await?
        };
        if seen.is_empty() {
            return Ok(vec![]);
        }
        self.database
            .write(move |db| {
                let mut take = db.prepare_cached(
                    "UPDATE messages SET receive_count = receive_count + 1, visible_at = ?1, delayed = 0, held = 1, alone = ?4
                     WHERE id = ?2 AND visible_at <= ?3 RETURNING id, lane, body, receive_count",
                )?;
                let mut taken = Vec::with_capacity(seen.len());
                for (id, is_alone) in seen {
                    let rows = take.query_map(params![hidden_until, id, now, is_alone], delivery)?;
                    for row in rows {
                        taken.push(row?);
                    }
                }
                Ok(taken)
            })
            .await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        let (id, count) = parts(receipt);
        let visible_at = after(self.clock.now(), visibility).as_millisecond();
        self.database
            .write(move |db| {
                db.prepare_cached("UPDATE messages SET visible_at = ?1 WHERE id = ?2 AND receive_count = ?3")?
                    .execute(params![visible_at, id, count])
            })
            .await?;
        Ok(())
    }

    async fn put_back(&self, receipt: &Receipt, delay: Duration) -> Result<(), Fault> {
        let (id, count) = parts(receipt);
        let visible_at = after(self.clock.now(), delay).as_millisecond();
        self.database
            .write(move |db| {
                db.prepare_cached(
                    "UPDATE messages SET visible_at = ?1, held = 0 WHERE id = ?2 AND receive_count = ?3",
                )?
                .execute(params![visible_at, id, count])
            })
            .await?;
        Ok(())
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        let (id, count) = parts(receipt);
        self.database
            .write(move |db| {
                db.prepare_cached("DELETE FROM messages WHERE id = ?1 AND receive_count = ?2")?
                    .execute(params![id, count])
            })
            .await?;
        Ok(())
    }

    /// Always empty: a dead letter is a record in the same file, not a message of another queue.
    async fn receive_dead_letters(&self, _max: usize, _visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        Ok(vec![])
    }

    /// Makes the delayed messages of all processes visible.
    async fn wake(&self) -> Result<bool, Fault> {
        let now = self.now();
        self.database
            .write(move |db| {
                db.prepare_cached(
                    "UPDATE messages SET visible_at = ?1 WHERE delayed = 1 AND visible_at > ?1",
                )?
                .execute(params![now])
            })
            .await?;
        Ok(true)
    }

    fn max_delay(&self) -> Duration {
        MAX_DELAY
    }

    /// Counts the messages of all processes with this data folder.
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        let counts: Vec<(u8, u64)> = self
            .database
            .read(|db| {
                db.prepare_cached("SELECT lane, COUNT(*) FROM messages GROUP BY lane")?
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect()
            })
            .await?;
        let count = |lane: Priority| counts.iter().find(|(level, _)| *level == lane.level());
        Ok(Priority::ALL.map(|lane| (lane, count(lane).map_or(0, |(_, count)| *count))).to_vec())
    }
}
