//! The outbox: stored events are published, in order, at least once, never before they are stored.

use std::time::Duration;

use tracing::warn;

use super::webhooks;
use crate::{
    app::App,
    domain::event::Event,
    ports::{
        Fault,
        records::{Batch, Change, Draft, Index, Item, When, Written},
    },
    store::{decode, nodes, trail},
};

/// A bus that could not be reached is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// How often an index is looked at for what this process has just stored.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// As many as one write may change on AWS.
const AT_ONCE: usize = 100;

/// Publishes what `node` has stored and not yet published; answers how many that were.
///
/// An aggregate's times never run backwards and the outbox lists by time, so its events go out in
/// order. Those that another process stored before and has not published yet go out first. The
/// mark goes away after publishing: a crash in between publishes twice.
pub async fn relay(app: &App, node: &str) -> Result<usize, Fault> {
    let partition = format!("outbox#{node}");
    let mut published = 0;
    loop {
        let listing = app.records.list_index(Index::State, &partition, None, false, AT_ONCE).await?;
        if listing.items.is_empty() {
            return Ok(published);
        }
        let mut items: Vec<Item> = Vec::with_capacity(listing.items.len());
        for item in listing.items {
            let earlier = unpublished_before(app, &decode::<Event>(&item)?.value, &items).await?;
            items.extend(earlier);
            items.push(item);
        }
        let events =
            items.iter().map(|item| Ok(decode(item)?.value)).collect::<Result<Vec<Event>, Fault>>()?;
        // Before the marks go, so that no end is forgotten.
        webhooks::announce(app, &events).await?;
        app.bus.publish(&events).await?;
        published += events.len();
        for some in items.chunks(AT_ONCE) {
            unmark(app, some).await?;
        }
    }
}

/// Takes published events off the outbox, all in one write where nobody else is at it.
async fn unmark(app: &App, items: &[Item]) -> Result<(), Fault> {
    let change = |item: &Item| {
        let draft = Draft { state_index: None, ..item.draft.clone() };
        Change::Put { draft, when: When::Version(item.version) }
    };
    let batch = Batch { stamp: app.ids.fresh(), changes: items.iter().map(change).collect() };
    if app.records.write(&batch).await? == Written::Applied {
        return Ok(());
    }
    // Another process relayed some of them at the same moment: published twice, fine.
    for item in items {
        app.records.write(&Batch { stamp: app.ids.fresh(), changes: vec![change(item)] }).await?;
    }
    Ok(())
}

/// The events of the same aggregate that come before `event` and are neither published nor among
/// those about to be, oldest first.
async fn unpublished_before(app: &App, event: &Event, about_to_be: &[Item]) -> Result<Vec<Item>, Fault> {
    let mut earlier = Vec::new();
    for sequence in (1..event.sequence).rev() {
        let key = trail::key(&event.aggregate, sequence);
        if about_to_be.iter().any(|item| item.draft.key == key) {
            break;
        }
        match app.records.get(&key).await? {
            Some(item) if item.draft.state_index.is_some() => earlier.insert(0, item),
            _ => break,
        }
    }
    Ok(earlier)
}

/// Publishes what this process has just stored. An index lags behind its table: it is looked at a few
/// times, and what it hides even then is left to the sweep.
pub async fn relay_own(app: &App) -> Result<(), Fault> {
    for _ in 0..LOOKS {
        if relay(app, &app.node).await? > 0 {
            break;
        }
        app.clock.sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

/// Publishes what processes stored that have not been heard of for `silent`, and forgets them.
/// Where processes come and go without a word, each tells by [`nodes::seen`] that it is there.
pub async fn relay_silent(app: &App, silent: Duration) -> Result<usize, Fault> {
    let mut published = 0;
    for kept in nodes::silent(app, silent).await? {
        published += relay(app, &kept.value.node).await?;
        nodes::forget(app, &kept).await?;
    }
    Ok(published)
}

/// Relays this process's events as they come, for ever.
pub async fn run(app: &App) {
    loop {
        app.event_stored().await;
        // Nothing is lost: the marks stay.
        while let Err(fault) = relay(app, &app.node).await {
            warn!(%fault, "events not published yet");
            app.clock.sleep(AGAIN).await;
        }
    }
}
