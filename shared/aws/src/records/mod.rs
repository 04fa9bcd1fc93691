//! Records as items of one DynamoDB table.
//!
//! The table has string keys `pk` and `sk`, two sparse indexes, `tenant` (`tenant_pk`, `tenant_sk`), which projects
//! all attributes, and `work` (`state_pk`, `state_sk`), which projects keys, and its time to live in `expires`. It is
//! assumed to be billed per request, without provisioned capacity.

mod index;
mod item;
mod write;

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder, types::KeysAndAttributes};
use everypage_core::ports::{
    Fault,
    records::{Batch, Index, Item, Key, Listing, Records, Written},
};
use futures::future::try_join_all;

use self::item::{Attributes, decode, key_attributes, text};
use crate::fault::fault;

const SERVICE: &str = "DynamoDB";
/// DynamoDB's limit for one BatchGetItem.
const KEYS_PER_CALL: usize = 100;

pub struct DynamoRecords {
    client: Client,
    table: String,
}

impl DynamoRecords {
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Item>, Fault> {
        let mut pending: Vec<Attributes> = keys.iter().map(key_attributes).collect();
        let mut found = Vec::with_capacity(keys.len());
        while !pending.is_empty() {
            let requested = pending.len();
            let request = KeysAndAttributes::builder().set_keys(Some(pending)).consistent_read(true).build();
            let request = request.map_err(|error| Fault::broken(SERVICE, error))?;
            let call = self.client.batch_get_item().request_items(&self.table, request).send();
            let response = call.await.map_err(|error| fault(SERVICE, error))?;
            for attributes in response.responses.unwrap_or_default().into_values().flatten() {
                found.push(decode(&attributes)?);
            }
            let mut unprocessed = response.unprocessed_keys.unwrap_or_default();
            pending = unprocessed.remove(&self.table).map(|rest| rest.keys).unwrap_or_default();
            // Keys beyond the size limit of a response are requested again; no progress is throttling.
            if pending.len() == requested {
                return Err(Fault::Throttled { service: SERVICE, retry_after: None });
            }
        }
        Ok(found)
    }

    /// Runs a query over DynamoDB's pages of 1 MB until it has `limit` items or there are no more.
    async fn query(
        &self,
        query: QueryFluentBuilder,
        mut start: Option<Attributes>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let mut items = Vec::new();
        loop {
            // At least 1: DynamoDB rejects 0.
            let missing = limit.saturating_sub(items.len()).clamp(1, 10_000);
            let page = query
                .clone()
                .table_name(&self.table)
                .limit(missing as i32)
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| fault(SERVICE, error))?;
            for attributes in page.items() {
                items.push(decode(attributes)?);
            }
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() || items.len() >= limit {
                let next = start.and(items.last()).map(|item| item.draft.key.sort.clone());
                return Ok(Listing { items, next });
            }
        }
    }
}

#[async_trait]
impl Records for DynamoRecords {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        let call = self.client.get_item().table_name(&self.table).consistent_read(true);
        let response = call.set_key(Some(key_attributes(key))).send().await;
        let response = response.map_err(|error| fault(SERVICE, error))?;
        response.item().map(decode).transpose()
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        // DynamoDB rejects duplicate keys, and returns items in any order.
        let distinct: Vec<Key> = keys.iter().cloned().collect::<HashSet<_>>().into_iter().collect();
        let parts = try_join_all(distinct.chunks(KEYS_PER_CALL).map(|part| self.get_batch(part))).await?;
        let found: HashMap<Key, Item> =
            parts.into_iter().flatten().map(|item| (item.draft.key.clone(), item)).collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        // DynamoDB rejects a start key outside of the key condition.
        let start = match after {
            Some(after) if after.starts_with(prefix) => Some(key_attributes(&Key::new(partition, after))),
            Some(after) if after > prefix => return Ok(Listing::default()),
            _ => None,
        };
        let query =
            self.client.query().consistent_read(true).expression_attribute_values(":pk", text(partition));
        // It also rejects an empty prefix.
        let query = if prefix.is_empty() {
            query.key_condition_expression("pk = :pk")
        } else {
            query
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":prefix", text(prefix))
        };
        self.query(query, start, limit).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.list_shards(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        match batch.changes.as_slice() {
            [] => Ok(Written::Applied),
            [change] => self.write_one(&batch.stamp, change).await,
            _ => self.write_all(batch).await,
        }
    }
}

#[cfg(test)]
mod tests;
