//! Publishes the events in the outbox to the event bus: in order, at least once, after they are stored.

use std::time::Duration;

use tracing::warn;

use crate::{
    event::Event,
    events::{Store, nodes, trail},
    keys::{index, record},
    notify::{Publisher, deliver},
    ports::{
        Fault,
        records::{Change, Draft, Index, Item, Key, When, Written},
    },
    records::decode,
};

/// Pause before a retry when the bus could not be reached.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often the index is scanned for events that this process stored but does not have in memory.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// The limit of items in one transaction on AWS.
const BATCH_SIZE: usize = 100;

/// Publishes the events that this process stored: those in memory, and periodically those in the index.
pub async fn relay_own(publisher: &Publisher) -> Result<(), Fault> {
    let _publishing = publisher.store.outbox.publishing.lock().await;
    loop {
        let waiting = publisher.store.outbox.waiting();
        if waiting.is_empty() {
            break;
        }
        for batch in waiting.chunks(BATCH_SIZE) {
            publish(publisher, batch.to_vec()).await?;
            publisher.store.outbox.remove(batch);
        }
    }
    let now = publisher.store.clock.now();
    if publisher.store.outbox.needs_index_scan(now, POLL_INTERVAL) {
        relay(publisher, &publisher.store.node).await?;
        publisher.store.outbox.mark_scanned(now);
    }
    Ok(())
}

/// Publishes the unpublished events that `node` stored; returns how many.
pub async fn relay(publisher: &Publisher, node: &str) -> Result<usize, Fault> {
    let (partition, mut after, mut published) = (index::outbox(node), None, 0);
    loop {
        let listing = publisher
            .store
            .records
            .list_index(Index::State, &partition, after.as_deref(), false, BATCH_SIZE)
            .await?;
        // The index is eventually consistent: some of these may be published already.
        let keys: Vec<Key> = listing.items.into_iter().map(|item| item.draft.key).collect();
        let items = publisher.store.records.get_many(&keys).await?.into_iter().flatten();
        let items: Vec<Item> = items.filter(|item| trail::is_unpublished(&item.draft)).collect();
        published += publish(publisher, items).await?;
        after = listing.next;
        if after.is_none() {
            return Ok(published);
        }
    }
}

/// Publishes events and removes their outbox marks; returns how many were published.
///
/// The times of an aggregate's events never decrease and `stored` is sorted by time, so its events are
/// published in order. Earlier events that another process stored and has not published yet are published
/// first. The marks are removed last: after a crash in between, events are published twice.
async fn publish(publisher: &Publisher, stored: Vec<Item>) -> Result<usize, Fault> {
    let mut items: Vec<Item> = Vec::with_capacity(stored.len());
    for item in stored {
        let earlier = unpublished_before(&publisher.store, &decode::<Event>(&item)?.value, &items).await?;
        items.extend(earlier);
        items.push(item);
    }
    if items.is_empty() {
        return Ok(0);
    }
    let events = items.iter().map(|item| Ok(decode(item)?.value)).collect::<Result<Vec<Event>, Fault>>()?;
    // Before the marks are removed, so that no webhook is lost.
    deliver::enqueue(publisher, &events).await?;
    publisher.bus.publish(&events).await?;
    for batch in items.chunks(BATCH_SIZE) {
        unmark(&publisher.store, batch).await?;
    }
    Ok(events.len())
}

/// Removes published events from the outbox: in one transaction, or one by one if that is refused.
async fn unmark(store: &Store, items: &[Item]) -> Result<(), Fault> {
    let change = |item: &Item| {
        let draft = Draft { state_index: None, ..item.draft.clone() };
        Change::Put { draft, when: When::Version(item.version) }
    };
    let changes = items.iter().map(change).collect();
    if store.write(changes).await? == Written::Applied {
        return Ok(());
    }
    // Another process published some of them concurrently, which is allowed.
    for item in items {
        store.write(vec![change(item)]).await?;
    }
    Ok(())
}

/// The unpublished events of the same aggregate before `event` that are not in `batch`, oldest first.
async fn unpublished_before(store: &Store, event: &Event, batch: &[Item]) -> Result<Vec<Item>, Fault> {
    let mut earlier = Vec::new();
    for sequence in (1..event.sequence).rev() {
        let key = record::event(&event.aggregate, sequence);
        if batch.iter().any(|item| item.draft.key == key) {
            break;
        }
        match store.records.get(&key).await? {
            Some(item) if trail::is_unpublished(&item.draft) => earlier.insert(0, item),
            _ => break,
        }
    }
    Ok(earlier)
}

/// Publishes the events of processes that have not reported by [`nodes::record_heartbeat`] for `silent`, and deletes
/// their records; returns how many events were published. On AWS, processes end without notice.
pub async fn relay_silent(publisher: &Publisher, silent: Duration) -> Result<usize, Fault> {
    let mut published = 0;
    for node in nodes::list_silent(&publisher.store, silent).await? {
        published += relay(publisher, &node.value.node).await?;
        nodes::delete(&publisher.store, &node).await?;
    }
    Ok(published)
}

/// Publishes the events of this process as they are stored, until it is dropped.
pub async fn run(publisher: &Publisher) {
    loop {
        tokio::select! {
            biased;
            () = publisher.store.outbox.added() => {}
            () = publisher.store.clock.sleep(POLL_INTERVAL) => {}
        }
        // No event is lost: the marks stay until it is published.
        while let Err(fault) = relay_own(publisher).await {
            warn!(%fault, "events not published yet");
            publisher.store.clock.sleep(RETRY_INTERVAL).await;
        }
    }
}
