//! Who publishes what was read after its job's result was published. However many pages come late, one
//! of their readers publishes for all, again and again until nothing more was told meanwhile.
//!
//! Whoever publishes keeps its own message until it has finished: should it die, that message comes
//! back and with it somebody who publishes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Kept, decode, encode};
use crate::{
    app::App,
    domain::{ids::JobId, lease::Lease},
    ports::{
        Fault,
        records::{Batch, Change, Draft, Key, When, Written},
    },
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Healing {
    /// How often somebody told that there is something to publish.
    told: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publisher: Option<Lease>,
}

/// The right to publish, and what was told by then.
pub struct Turn {
    job: JobId,
    kept: Kept<Healing>,
}

fn key(job: &JobId) -> Key {
    Key::new(format!("job#{job}"), "healing")
}

async fn find(app: &App, job: &JobId) -> Result<Kept<Healing>, Fault> {
    let found = app.records.get(&key(job)).await?.as_ref().map(decode).transpose()?;
    Ok(found.unwrap_or(Kept { value: Healing::default(), version: 0 }))
}

async fn store(
    app: &App,
    job: &JobId,
    before: &Kept<Healing>,
    value: Healing,
) -> Result<Option<Kept<Healing>>, Fault> {
    let when = if before.version == 0 { When::Absent } else { When::Version(before.version) };
    let put = Change::Put { draft: Draft::new(key(job), encode(&value)?), when };
    let written = app.records.write(&Batch { stamp: app.ids.fresh(), changes: vec![put] }).await?;
    Ok((written == Written::Applied).then_some(Kept { value, version: when.next_version() }))
}

fn has_publisher(app: &App, healing: &Healing) -> bool {
    healing.publisher.as_ref().is_some_and(|lease| lease.alive(app.clock.now()))
}

/// Does somebody publish just now?
pub async fn is_under_way(app: &App, job: &JobId) -> Result<bool, Fault> {
    Ok(has_publisher(app, &find(app, job).await?.value))
}

/// Tells that a page was stored. The answer is the caller's turn to publish, for `time`; `None` when
/// somebody is at it, who will publish this too.
pub async fn tell(app: &App, job: &JobId, holder: &str, time: Duration) -> Result<Option<Turn>, Fault> {
    loop {
        let kept = find(app, job).await?;
        let theirs = has_publisher(app, &kept.value);
        let publisher = match theirs {
            true => kept.value.publisher.clone(),
            false => Some(Lease::new(holder, app.clock.now(), time)),
        };
        let next = Healing { told: kept.value.told + 1, publisher };
        if let Some(kept) = store(app, job, &kept, next).await? {
            return Ok((!theirs).then(|| Turn { job: job.clone(), kept }));
        }
    }
}

/// Ends a turn after a publication that was begun in it; a turn anew when more was told meanwhile. One
/// that ran out and was taken over is over.
pub async fn finish(app: &App, turn: Turn, time: Duration) -> Result<Option<Turn>, Fault> {
    let Turn { job, kept: mut held } = turn;
    let Some(holder) = held.value.publisher.as_ref().map(|lease| lease.holder.clone()) else {
        return Ok(None);
    };
    let told = held.value.told;
    loop {
        let done = held.value.told == told;
        let publisher = (!done).then(|| Lease::new(&holder, app.clock.now(), time));
        let next = Healing { publisher, ..held.value.clone() };
        if let Some(kept) = store(app, &job, &held, next).await? {
            return Ok((!done).then_some(Turn { job, kept }));
        }
        held = find(app, &job).await?;
        if held.value.publisher.as_ref().is_none_or(|lease| lease.holder != holder) {
            return Ok(None);
        }
    }
}
