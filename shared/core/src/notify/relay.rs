//! The outbox: stored events are published, in order, at least once, never before they are stored.

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

/// A bus that could not be reached is tried again after this.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often the index is asked for what this process has stored and does not remember.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// As many as one write may change on AWS.
const BATCH_SIZE: usize = 100;

/// Publishes what this process has stored, as it remembers it.
pub async fn relay_own(publisher: &Publisher) -> Result<(), Fault> {
    let _turn = publisher.store.outbox.turn.lock().await;
    loop {
        let waiting = publisher.store.outbox.waiting();
        if waiting.is_empty() {
            break;
        }
        for some in waiting.chunks(BATCH_SIZE) {
            publish(publisher, some.to_vec()).await?;
            publisher.store.outbox.forget(some);
        }
    }
    let now = publisher.store.clock.now();
    if publisher.store.outbox.needs_index_scan(now, POLL_INTERVAL) {
        relay(publisher, &publisher.store.node).await?;
        publisher.store.outbox.mark_scanned(now);
    }
    Ok(())
}

/// Publishes what `node` has stored and not yet published; answers how many that were.
pub async fn relay(publisher: &Publisher, node: &str) -> Result<usize, Fault> {
    let (partition, mut after, mut published) = (index::outbox(node), None, 0);
    loop {
        let listing = publisher
            .store
            .records
            .list_index(Index::State, &partition, after.as_deref(), false, BATCH_SIZE)
            .await?;
        // The index lags behind: some of these may be published by now.
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

/// An aggregate's times never run backwards and these are sorted by time, so its events go out in
/// order. Those that another process stored before and has not published yet go out first. The
/// mark goes away after publishing: a crash in between publishes twice.
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
    // Before the marks go, so that no end is forgotten.
    deliver::announce(publisher, &events).await?;
    publisher.bus.publish(&events).await?;
    for some in items.chunks(BATCH_SIZE) {
        unmark(&publisher.store, some).await?;
    }
    Ok(events.len())
}

/// Takes published events off the outbox, all in one write where nobody else is at it.
async fn unmark(store: &Store, items: &[Item]) -> Result<(), Fault> {
    let change = |item: &Item| {
        let draft = Draft { state_index: None, ..item.draft.clone() };
        Change::Put { draft, when: When::Version(item.version) }
    };
    let changes = items.iter().map(change).collect();
    if store.write(changes).await? == Written::Applied {
        return Ok(());
    }
    // Another process relayed some of them at the same moment: published twice, fine.
    for item in items {
        store.write(vec![change(item)]).await?;
    }
    Ok(())
}

/// The events of the same aggregate that come before `event` and are neither published nor among
/// those about to be, oldest first.
async fn unpublished_before(store: &Store, event: &Event, about_to_be: &[Item]) -> Result<Vec<Item>, Fault> {
    let mut earlier = Vec::new();
    for sequence in (1..event.sequence).rev() {
        let key = record::event(&event.aggregate, sequence);
        if about_to_be.iter().any(|item| item.draft.key == key) {
            break;
        }
        match store.records.get(&key).await? {
            Some(item) if trail::is_unpublished(&item.draft) => earlier.insert(0, item),
            _ => break,
        }
    }
    Ok(earlier)
}

/// Publishes what processes stored that have not been heard of for `silent`, and forgets them.
/// Where processes come and go without a word, each tells by [`nodes::seen`] that it is there.
pub async fn relay_silent(publisher: &Publisher, silent: Duration) -> Result<usize, Fault> {
    let mut published = 0;
    for kept in nodes::silent(&publisher.store, silent).await? {
        published += relay(publisher, &kept.value.node).await?;
        nodes::forget(&publisher.store, &kept).await?;
    }
    Ok(published)
}

/// Relays this process's events as they come, for ever.
pub async fn run(publisher: &Publisher) {
    loop {
        tokio::select! {
            biased;
            () = publisher.store.outbox.added() => {}
            () = publisher.store.clock.sleep(POLL_INTERVAL) => {}
        }
        // Nothing is lost: the marks stay.
        while let Err(fault) = relay_own(publisher).await {
            warn!(%fault, "events not published yet");
            publisher.store.clock.sleep(RETRY_INTERVAL).await;
        }
    }
}
