//! Events as they are stored, as server-sent events (`text/event-stream`).
//!
//! A stream polls the store and does not listen to the bus: it sends what any process has stored, and a
//! client that reconnects with `Last-Event-ID` misses nothing. Each event is sent at least once.

mod feed;

use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use axum::{
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{ACCEPT, CACHE_CONTROL},
    },
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use everypage_core::{
    event,
    ids::{JobId, TenantId},
};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::{
    Api, Shares,
    problem::{Code, Problem},
};
use feed::Feed;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Each stream holds a connection while its client listens.
const MAX_STREAMS: usize = 256;
/// So that one tenant leaves some to the others.
const MAX_STREAMS_PER_TENANT: usize = 64;
/// The pause after which a client reconnects.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);
/// A comment is sent after so much silence, so that no proxy closes the connection as idle.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub struct Streams {
    stop: CancellationToken,
    slots: Arc<Semaphore>,
    shares: Arc<Shares<TenantId>>,
}

impl Streams {
    pub fn new(stop: CancellationToken) -> Self {
        let shares = Arc::new(Shares::new(MAX_STREAMS_PER_TENANT));
        Self { stop, slots: Arc::new(Semaphore::new(MAX_STREAMS)), shares }
    }

    pub fn are_ending(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Whether the client accepts a stream by name; `*/*` gets JSON.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Streams the events of a tenant, or of one of its jobs, from now on or after `Last-Event-ID`.
///
/// Fails where the service has no streams, where [`MAX_STREAMS`] are open, and for a `Last-Event-ID` that
/// no stream sent.
pub async fn respond(
    api: &Api,
    tenant: TenantId,
    job: Option<JobId>,
    kind: Option<String>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let Some(streams) = api.streams.clone() else {
        let detail = "this service has no event streams; send Accept: application/json and poll";
        return Err(Problem::new(Code::NotAcceptable, detail));
    };
    let too_many = |detail| Problem::new(Code::TooManyRequests, detail).with_header("retry-after", "10");
    let Some(share) = streams.shares.take(tenant.clone()) else {
        let detail = format!("{MAX_STREAMS_PER_TENANT} streams of this tenant are open already");
        return Err(too_many(detail));
    };
    let Ok(slot) = streams.slots.clone().try_acquire_owned() else {
        return Err(too_many(format!("{MAX_STREAMS} streams are open already")));
    };
    let last = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let from = last.map(|id| {
        let bad = || Problem::invalid("Last-Event-ID", "not the id of an event of this stream");
        time_of(id).ok_or_else(bad)
    });
    let from = from.transpose()?;
    let now = api.app.store.clock.now();
    let mut feed = Feed::new(api.clone(), streams.stop, tenant, job, from).only(kind);
    let start = sse::Event::default().retry(RECONNECT_AFTER);
    let mut first = Vec::new();
    match last {
        None => {
            // Stored events are not news: the job's current state covers them.
            feed.skip().await?;
            // An id before any event: a client that receives none still knows where to resume.
            first.push(start.id(format!("{now:.3}_")));
            first.extend(feed.current_job().await?);
        }
        Some(last) => {
            // 204 makes a browser stop reconnecting: the client has the last event of an ended job.
            if feed.ended_with(last).await? {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            first.push(start);
            feed.resume();
        }
    }
    let batches = stream::unfold((feed, (slot, share)), |(mut feed, held)| async move {
        Some((feed.next().await?, (feed, held)))
    });
    let batches = stream::iter([first]).chain(batches);
    let events = batches.flat_map(|batch| stream::iter(batch.into_iter().map(Ok::<_, Infallible>)));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    let headers = [(CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, Sse::new(events).keep_alive(keep_alive)).into_response())
}

/// The id of an event in a stream: its time, then its own id.
fn id_of(event: &event::Event) -> String {
    format!("{:.3}_{}", event.timestamp, event.id)
}

fn time_of(id: &str) -> Option<Timestamp> {
    id.split_once('_')?.0.parse().ok()
}

fn message(id: Option<String>, kind: &str, data: &impl Serialize) -> Result<sse::Event, Problem> {
    let event = id.map_or_else(sse::Event::default, |id| sse::Event::default().id(id));
    event.event(kind).json_data(data).map_err(Problem::internal)
}
