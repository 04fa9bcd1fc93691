//! Records as rows of one table.

use async_trait::async_trait;
use everypage_core::{
    keys::index,
    ports::{
        Fault,
        records::{Batch, Change, Draft, Index, IndexEntry, Item, Key, Listing, Records, Written},
    },
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::database::Database;

const COLUMNS: &str = "partition, sort, version, stamp, body, tenant_partition, tenant_sort, state_partition, \
                       state_sort, expires";

pub struct SqliteRecords {
    database: Database,
}

impl SqliteRecords {
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// The processes that stored events which are not published yet.
    pub async fn unpublished_nodes(&self) -> Result<Vec<String>, Fault> {
        self.database
            .read(move |db| {
                // The highest character ends every prefix.
                let end = format!("{}\u{10FFFF}", index::OUTBOX);
                db.prepare_cached(
                    "SELECT DISTINCT substr(state_partition, 1 + length(?1)) FROM items
                     WHERE state_partition > ?1 AND state_partition < ?2",
                )?
                .query_map([index::OUTBOX, end.as_str()], |row| row.get(0))?
                .collect()
            })
            .await
    }

    /// Deletes expired records. Conditions never rely on it: it only keeps the file small.
    pub async fn delete_expired(&self, now: Timestamp) -> Result<(), Fault> {
        self.database
            .write(move |db| db.execute("DELETE FROM items WHERE expires < ?1", [now.as_millisecond()]))
            .await?;
        Ok(())
    }
}

fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let entry = |partition: &str, sort: &str| -> rusqlite::Result<Option<IndexEntry>> {
        let partition: Option<String> = row.get(partition)?;
        let sort: Option<String> = row.get(sort)?;
        Ok(partition.zip(sort).map(|(partition, sort)| IndexEntry { partition, sort }))
    };
    let expires: Option<i64> = row.get("expires")?;
    Ok(Item {
        draft: Draft {
            key: Key::new(row.get::<_, String>("partition")?, row.get::<_, String>("sort")?),
            body: row.get("body")?,
            tenant_index: entry("tenant_partition", "tenant_sort")?,
            state_index: entry("state_partition", "state_sort")?,
            expires: expires.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
        },
        version: row.get("version")?,
        stamp: row.get("stamp")?,
    })
}

fn find(db: &Connection, key: &Key) -> rusqlite::Result<Option<Item>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM items WHERE partition = ?1 AND sort = ?2"))?
        .query_row([&key.partition, &key.sort], item)
        .optional()
}

fn apply(db: &Connection, batch: &Batch) -> rusqlite::Result<Written> {
    for (index, change) in batch.changes.iter().enumerate() {
        let existing = find(db, change.key())?;
        if !change.when().holds(existing.as_ref().map(|item| item.version)) {
            return Ok(Written::Refused { index, existing: existing.map(Box::new) });
        }
    }
    for change in &batch.changes {
        match change {
            Change::Put { draft, when } => {
                let (tenant, state) = (draft.tenant_index.as_ref(), draft.state_index.as_ref());
                db.prepare_cached(&format!(
                    "INSERT INTO items ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                     ON CONFLICT (partition, sort) DO UPDATE SET version = ?3, stamp = ?4, body = ?5,
                     tenant_partition = ?6, tenant_sort = ?7, state_partition = ?8, state_sort = ?9, expires = ?10"
                ))?
                .execute(params![
                    draft.key.partition,
                    draft.key.sort,
                    when.next_version(),
                    batch.stamp,
                    draft.body,
                    tenant.map(|entry| &entry.partition),
                    tenant.map(|entry| &entry.sort),
                    state.map(|entry| &entry.partition),
                    state.map(|entry| &entry.sort),
                    draft.expires.map(Timestamp::as_millisecond),
                ])?;
            }
            Change::Delete { key, .. } => {
                db.prepare_cached("DELETE FROM items WHERE partition = ?1 AND sort = ?2")?
                    .execute([&key.partition, &key.sort])?;
            }
        }
    }
    Ok(Written::Applied)
}

/// Makes one page of a listing from up to `limit + 1` rows; the extra row shows that there are more.
/// `sort` is the column that the listing is ordered by.
fn listing(mut rows: Vec<Item>, limit: usize, sort: impl Fn(&Item) -> Option<String>) -> Listing {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = if more { rows.last().and_then(sort) } else { None };
    Listing { items: rows, next }
}

#[async_trait]
impl Records for SqliteRecords {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        let key = key.clone();
        self.database.read(move |db| find(db, &key)).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        let keys = keys.to_vec();
        self.database.read(move |db| keys.iter().map(|key| find(db, key)).collect()).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let (partition, prefix, after) = (partition.to_owned(), prefix.to_owned(), after.map(str::to_owned));
        let rows: Vec<Item> = self
            .database
            .read(move |db| {
                // Keys are text, so the highest character ends every prefix.
                let end = format!("{prefix}\u{10FFFF}");
                db.prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM items WHERE partition = ?1 AND sort >= ?2 AND sort <= ?3 AND sort > ?4
                     ORDER BY sort LIMIT ?5"
                ))?
                .query_map(params![partition, prefix, end, after.unwrap_or_default(), limit + 1], item)?
                .collect()
            })
            .await?;
        Ok(listing(rows, limit, |item| Some(item.draft.key.sort.clone())))
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let (partition, after) = (partition.to_owned(), after.map(str::to_owned));
        let name = match index {
            Index::Tenant => "tenant",
            Index::State => "state",
        };
        let (beyond, order) = if descending { ("<", "DESC") } else { (">", "ASC") };
        let rows: Vec<Item> = self
            .database
            .read(move |db| {
                db.prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM items WHERE {name}_partition = ?1
                     AND (?2 IS NULL OR {name}_sort {beyond} ?2) ORDER BY {name}_sort {order} LIMIT ?3"
                ))?
                .query_map(params![partition, after, limit + 1], item)?
                .collect()
            })
            .await?;
        Ok(listing(rows, limit, move |item| {
            let entry = match index {
                Index::Tenant => item.draft.tenant_index.as_ref(),
                Index::State => item.draft.state_index.as_ref(),
            };
            entry.map(|entry| entry.sort.clone())
        }))
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let batch = batch.clone();
        self.database.write(move |db| apply(db, &batch)).await
    }
}
