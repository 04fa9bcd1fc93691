//! The outbox: stored events are published, in order, at least once, never before they are stored.

use tracing::warn;

use crate::{
    app::App,
    domain::event::Event,
    ports::{
        Fault,
        records::{Batch, Change, Draft, Index, When},
    },
    store::decode,
};

const AT_ONCE: usize = 100;

/// Publishes what `node` has stored and not yet published; answers how many that were.
///
/// The outbox lists events by time, and an aggregate's times never run backwards, so each
/// aggregate's events go out in their order. The mark goes away after publishing: a crash in
/// between publishes twice.
pub async fn relay(app: &App, node: &str) -> Result<usize, Fault> {
    let partition = format!("outbox#{node}");
    let mut published = 0;
    loop {
        let listing = app
            .records
            .list_index(Index::State, &partition, None, false, AT_ONCE)
            .await?;
        if listing.items.is_empty() {
            return Ok(published);
        }
        let mut events: Vec<Event> = Vec::with_capacity(listing.items.len());
        for item in &listing.items {
            events.push(decode(item)?.value);
        }
        app.bus.publish(&events).await?;
        published += events.len();
        let changes = listing
            .items
            .into_iter()
            .map(|item| Change::Put {
                draft: Draft {
                    state_index: None,
                    ..item.draft
                },
                when: When::Version(item.version),
            })
            .collect();
        app.records
            .write(&Batch {
                stamp: app.ids.fresh(),
                changes,
            })
            .await?;
    }
}

/// Relays this process's events as they come, for ever.
pub async fn run(app: &App) {
    loop {
        app.event_stored().await;
        if let Err(fault) = relay(app, &app.node).await {
            // Nothing is lost: the marks stay, and the next event or start tries again.
            warn!(%fault, "events not published yet");
        }
    }
}
