//! The two indexes, in shards.
//!
//! DynamoDB takes 1,000 write units a second for one partition of an index, and throttles the writes of the table
//! beyond that. All events of a tenant are in one partition of the port's index; here they are spread over
//! [`SHARDS`] partitions by their key, and a listing merges them.
//!
//! The index `tenant` projects whole items. The index `work` has keys only, because most of what is listed there,
//! such as unpublished events, is never read through it: its items are read from the table, so a listing has no
//! outdated ones.

use std::collections::VecDeque;

use aws_sdk_dynamodb::types::AttributeValue;
use everypage_core::ports::{
    Fault,
    records::{Index, IndexEntry, Item, Key, Listing, Records},
};
use futures::future::try_join_all;

use super::{
    DynamoRecords, SERVICE,
    item::{Attributes, decode, text},
};
use crate::fault::fault;

/// Partitions of DynamoDB for one of the port's. It may grow: an item is found in any shard that is listed.
const SHARDS: u64 = 8;
/// Between the port's partition and the number of the shard.
const SEPARATOR: char = '~';

/// The partition under which the index lists the item with that key; always the same, so that no write moves it.
pub fn sharded(partition: &str, key: &Key) -> String {
    // FNV-1a, whose upper bits are the better ones.
    let bytes = key.partition.bytes().chain([0]).chain(key.sort.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{partition}{SEPARATOR}{}", (hash >> 32) % SHARDS)
}

/// The port's partition of a stored one. Items of version 0.1 have no shard.
pub fn unsharded(stored: &str) -> &str {
    match stored.rsplit_once(SEPARATOR) {
        Some((partition, shard)) if shard.parse().is_ok_and(|shard: u64| shard < SHARDS) => partition,
        _ => stored,
    }
}

/// The name of an index in DynamoDB, and the prefix of its attributes.
fn names(index: Index) -> (&'static str, &'static str) {
    match index {
        Index::Tenant => ("tenant", "tenant"),
        Index::State => ("work", "state"),
    }
}

fn entry_of(index: Index, item: &Item) -> Option<&IndexEntry> {
    match index {
        Index::Tenant => item.draft.tenant_index.as_ref(),
        Index::State => item.draft.state_index.as_ref(),
    }
}

/// What is listed.
struct Query<'a> {
    index: Index,
    partition: &'a str,
    after: Option<&'a str>,
    descending: bool,
}

/// One partition of DynamoDB, as far as it was read.
struct Shard {
    partition: String,
    start: Option<Attributes>,
    entries: VecDeque<Entry>,
    is_read: bool,
}

struct Entry {
    sort: String,
    attributes: Attributes,
}

impl Shard {
    fn all(partition: &str) -> Vec<Self> {
        let shards = (0..SHARDS).map(|shard| format!("{partition}{SEPARATOR}{shard}"));
        let shard = |partition| Self { partition, start: None, entries: VecDeque::new(), is_read: false };
        shards.chain([partition.to_owned()]).map(shard).collect()
    }

    fn needs_entries(&self) -> bool {
        self.entries.is_empty() && !self.is_read
    }
}

/// The shard whose first entry comes next.
fn next_shard(shards: &mut [Shard], descending: bool) -> Option<&mut Shard> {
    let with_entries = shards.iter_mut().filter(|shard| !shard.entries.is_empty());
    let first = |shard: &&mut Shard| shard.entries[0].sort.clone();
    if descending { with_entries.max_by_key(first) } else { with_entries.min_by_key(first) }
}

impl DynamoRecords {
    pub(super) async fn list_shards(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let query = Query { index, partition, after, descending };
        let (limit, mut shards) = (limit.max(1), Shard::all(partition));
        let mut items = Vec::new();
        loop {
            let entries = self.merge(&query, &mut shards, limit - items.len()).await?;
            let position = entries.last().map(|entry| entry.sort.clone());
            items.extend(self.resolve(&query, entries).await?);
            let has_more = shards.iter().any(|shard| !shard.is_read || !shard.entries.is_empty());
            if !has_more {
                return Ok(Listing { items, next: None });
            }
            if items.len() >= limit {
                return Ok(Listing { items, next: position });
            }
        }
    }

    /// Takes the next `limit` entries of all shards, in order.
    async fn merge(
        &self,
        query: &Query<'_>,
        shards: &mut [Shard],
        limit: usize,
    ) -> Result<Vec<Entry>, Fault> {
        // Entries are spread evenly; what is read beyond the limit is read in vain.
        let page = limit.div_ceil(SHARDS as usize) + 1;
        let mut entries = Vec::new();
        while entries.len() < limit {
            if shards.iter().any(Shard::needs_entries) {
                let needed = shards.iter_mut().filter(|shard| shard.needs_entries());
                try_join_all(needed.map(|shard| self.read_shard(query, shard, page))).await?;
                continue;
            }
            match next_shard(shards, query.descending) {
                Some(shard) => entries.extend(shard.entries.pop_front()),
                None => break,
            }
        }
        Ok(entries)
    }

    async fn read_shard(&self, query: &Query<'_>, shard: &mut Shard, limit: usize) -> Result<(), Fault> {
        let (name, attribute) = names(query.index);
        let call = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(name)
            .scan_index_forward(!query.descending)
            .limit(limit.min(10_000) as i32)
            .set_exclusive_start_key(shard.start.take())
            .expression_attribute_values(":pk", text(&shard.partition));
        let call = match query.after {
            None => call.key_condition_expression(format!("{attribute}_pk = :pk")),
            Some(after) => {
                let beyond = if query.descending { "<" } else { ">" };
                call.key_condition_expression(format!(
                    "{attribute}_pk = :pk AND {attribute}_sk {beyond} :after"
                ))
                .expression_attribute_values(":after", AttributeValue::S(after.to_owned()))
            }
        };
        let response = call.send().await.map_err(|error| fault(SERVICE, error))?;
        let sort_attribute = format!("{attribute}_sk");
        for attributes in response.items.unwrap_or_default() {
            let sort = attributes.get(&sort_attribute).and_then(|value| value.as_s().ok()).cloned();
            let sort = sort.ok_or_else(|| {
                Fault::broken(SERVICE, format!("an item of the index {name} has no {sort_attribute}"))
            })?;
            shard.entries.push_back(Entry { sort, attributes });
        }
        shard.start = response.last_evaluated_key.filter(|key| !key.is_empty());
        shard.is_read = shard.start.is_none();
        Ok(())
    }

    /// The items of entries, without those that are no longer listed there.
    async fn resolve(&self, query: &Query<'_>, entries: Vec<Entry>) -> Result<Vec<Item>, Fault> {
        if query.index == Index::Tenant {
            return entries.iter().map(|entry| decode(&entry.attributes)).collect();
        }
        let key = |entry: &Entry| {
            let find = |name: &str| entry.attributes.get(name).and_then(|value| value.as_s().ok()).cloned();
            Some(Key::new(find("pk")?, find("sk")?))
        };
        let keys: Vec<Key> = entries.iter().filter_map(key).collect();
        let found = self.get_many(&keys).await?;
        let is_listed = |(item, entry): &(Item, &Entry)| {
            entry_of(query.index, item)
                .is_some_and(|listed| listed.partition == query.partition && listed.sort == entry.sort)
        };
        let found = found.into_iter().zip(&entries).filter_map(|(item, entry)| Some((item?, entry)));
        Ok(found.filter(is_listed).map(|(item, _)| item).collect())
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::config::http::HttpResponse;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_clients::{bodies, clients, response};

    #[test]
    fn entries_are_spread_over_all_shards_and_keep_theirs() {
        let mut counts = [0; SHARDS as usize];
        for job in 0..100 {
            for page in 0..20 {
                let key = Key::new(format!("job#01J{job:05}"), format!("pagelog#{page:010}#0000000001"));
                let stored = sharded("events#acme", &key);
                assert_eq!(stored, sharded("events#acme", &key));
                assert_eq!(unsharded(&stored), "events#acme");
                counts[stored.rsplit_once(SEPARATOR).unwrap().1.parse::<usize>().unwrap()] += 1;
            }
        }
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
    }

    #[test]
    fn only_a_shard_is_taken_off_a_partition() {
        for partition in ["jobs#open", "outbox#a~b", "events#x~8", "events#x~", ""] {
            assert_eq!(unsharded(partition), partition);
        }
    }

    fn page(sorts: &[&str], has_more: bool) -> HttpResponse {
        let items: Vec<Value> = sorts
            .iter()
            .map(|sort| {
                json!({"pk": {"S": "p"}, "sk": {"S": sort}, "version": {"N": "1"}, "stamp": {"S": "s"},
                    "body": {"S": "1"}, "tenant_pk": {"S": "jobs#t~0"}, "tenant_sk": {"S": sort}})
            })
            .collect();
        let mut body = json!({ "Items": items });
        if has_more {
            body["LastEvaluatedKey"] = json!({"pk": {"S": "p"}, "sk": {"S": sorts.last()}});
        }
        response(200, &body.to_string())
    }

    /// Eight shards and the partition without one, of which only the first two have entries.
    fn listing(first: &[&str], has_more: bool, second: &[&str]) -> Vec<HttpResponse> {
        let empty = (2..=SHARDS).map(|_| page(&[], false));
        [page(first, has_more), page(second, false)].into_iter().chain(empty).collect()
    }

    async fn list(
        responses: Vec<HttpResponse>,
        descending: bool,
        limit: usize,
    ) -> (Vec<String>, Option<String>, Vec<Value>) {
        let (clients, sent) = clients(responses);
        let records = DynamoRecords::new(clients.dynamodb, "t");
        let listing = records.list_index(Index::Tenant, "jobs#t", None, descending, limit).await.unwrap();
        let sorts = listing.items.into_iter().map(|item| item.draft.key.sort).collect();
        (sorts, listing.next, bodies(&sent))
    }

    #[tokio::test]
    async fn shards_are_merged_and_only_an_exhausted_one_is_read_again() {
        let mut responses = listing(&["1", "3"], true, &["2", "5", "6"]);
        responses.push(page(&["4", "7"], false));
        let (sorts, next, sent) = list(responses, false, 5).await;
        assert_eq!(sorts, ["1", "2", "3", "4", "5"]);
        assert_eq!(next.as_deref(), Some("5"));
        assert_eq!(sent.len(), SHARDS as usize + 2);
        assert_eq!(sent[SHARDS as usize + 1]["ExclusiveStartKey"]["sk"]["S"], "3");
    }

    #[tokio::test]
    async fn a_descending_list_ends_without_a_cursor() {
        let (sorts, next, _) = list(listing(&["3", "1"], false, &["2"]), true, 10).await;
        assert_eq!(sorts, ["3", "2", "1"]);
        assert_eq!(next, None);
    }

    #[tokio::test]
    async fn an_item_that_left_the_work_index_is_replaced_by_the_next() {
        let keys = |sorts: &[&str], has_more: bool| {
            let items: Vec<Value> = sorts
                .iter()
                .map(|sort| json!({"pk": {"S": "p"}, "sk": {"S": sort}, "state_pk": {"S": "open~0"}, "state_sk": {"S": sort}}))
                .collect();
            let mut body = json!({ "Items": items });
            if has_more {
                body["LastEvaluatedKey"] = json!({"pk": {"S": "p"}, "sk": {"S": sorts.last()}});
            }
            response(200, &body.to_string())
        };
        let found = |sort: &str, listed: Option<&str>| {
            let mut item = json!({"pk": {"S": "p"}, "sk": {"S": sort}, "version": {"N": "2"},
                "stamp": {"S": "s"}, "body": {"S": "1"}});
            if let Some(partition) = listed {
                item["state_pk"] = json!({"S": partition});
                item["state_sk"] = json!({ "S": sort });
            }
            response(200, &json!({"Responses": {"t": [item]}, "UnprocessedKeys": {}}).to_string())
        };
        let mut responses = vec![keys(&["1", "2"], false)];
        responses.extend((1..=SHARDS).map(|_| keys(&[], false)));
        responses.extend([found("1", None), found("2", Some("open~0"))]);
        let (clients, sent) = clients(responses);
        let records = DynamoRecords::new(clients.dynamodb, "t");
        let listing = records.list_index(Index::State, "open", None, false, 1).await.unwrap();
        assert_eq!(listing.items[0].draft.key.sort, "2");
        assert_eq!(listing.items[0].draft.state_index, Some(IndexEntry::new("open", "2")));
        assert_eq!((listing.items.len(), listing.next), (1, None));
        assert_eq!(bodies(&sent)[0]["IndexName"], "work");
    }
}
