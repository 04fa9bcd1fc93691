//! Events as they happen, as server-sent events.
//!
//! A stream reads the store, not the bus: what it sends is stored, by whichever process, and who
//! comes back with `Last-Event-ID` misses nothing. Each event is sent at least once; two writers may
//! store theirs in another order than their times, so a little of the past is always read again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use everypage_core::{
    app::{App, Stop},
    domain::{
        event::{self, Aggregate},
        ids::{EventId, JobId, TenantId},
        job::Job,
    },
    ports::clock::after,
    store::{jobs, listing},
};
use futures::stream;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    Api,
    problem::{self, Problem},
    shape,
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Each holds a connection for as long as somebody listens.
const MOST_STREAMS: usize = 256;
/// An event may be stored so much later than its time says.
const OVERLAP: Duration = Duration::from_secs(3);
/// What other processes store is looked for so often.
const LOOK: Duration = Duration::from_secs(2);
/// Events that come close together are sent together.
const GATHER: Duration = Duration::from_millis(100);
/// Something is said at least so often, so that nobody in between takes the connection for dead.
const SILENCE: Duration = Duration::from_secs(15);
const AT_ONCE: usize = 200;

#[derive(Clone)]
pub struct Streams {
    stop: Stop,
    room: Arc<Semaphore>,
}

impl Streams {
    pub fn new(stop: Stop) -> Self {
        Self { stop, room: Arc::new(Semaphore::new(MOST_STREAMS)) }
    }

    pub fn are_ending(&self) -> bool {
        self.stop.is_asked()
    }
}

/// Does the client want a stream, and nothing else as much?
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// The events of a tenant, or of one of its jobs, from now on or from where the client was.
pub async fn answer(
    api: &Api,
    tenant: TenantId,
    job: Option<JobId>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let Some(streams) = api.streams.clone() else {
        let detail = "this service sends no streams; ask for application/json and come back";
        return Err(Problem::new(&problem::NOT_ACCEPTABLE, detail));
    };
    let Ok(permit) = streams.room.clone().try_acquire_owned() else {
        let detail = format!("{MOST_STREAMS} streams are open already");
        return Err(Problem::new(&problem::TOO_MANY_REQUESTS, detail).with_header("retry-after", "10"));
    };
    let from = match headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default()) {
        None => None,
        Some(id) => Some(time_of(id).ok_or_else(|| {
            Problem::mistake("Last-Event-ID", "it is not the id of an event of this stream")
        })?),
    };
    let app = api.app.clone();
    let mut feed = Feed {
        newest: from.unwrap_or_else(|| app.clock.now()),
        news: app.news(),
        app,
        tenant,
        job,
        sent: HashMap::new(),
        waiting: Some("retry: 2000\n\n".to_owned()),
        is_over: false,
        stop: streams.stop,
        _permit: permit,
    };
    match from {
        // What is there already is no news: the job as it is says it all.
        None => drop(feed.gather().await?),
        Some(_) => {
            let missed = feed.gather().await?;
            feed.waiting.get_or_insert_default().push_str(&missed);
        }
    }
    if let Some(job) = feed.seen_job().await? {
        let over = job.state.is_terminal();
        // A browser that comes back to a job that has ended has seen all, and need not come again.
        if over && from.is_some() && feed.waiting.as_ref().is_some_and(|text| !text.contains("data:")) {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        feed.push_job(api, job).await?;
    }
    let api = api.clone();
    let body = stream::unfold((feed, api), |(mut feed, api)| async move {
        let text = feed.next(&api).await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), (feed, api)))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The id of an event in a stream begins with its time.
fn id_of(event: &event::Event) -> String {
    format!("{:.3}_{}", event.timestamp, event.id)
}

fn time_of(id: &str) -> Option<Timestamp> {
    id.split_once('_')?.0.parse().ok()
}

fn write(id: Option<String>, kind: &str, data: &impl Serialize) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    // JSON has no line breaks of its own.
    format!("{id}event: {kind}\ndata: {}\n\n", serde_json::to_string(data).unwrap_or_default())
}

struct Feed {
    app: Arc<App>,
    tenant: TenantId,
    job: Option<JobId>,
    /// The latest time of an event that was seen.
    newest: Timestamp,
    /// Those that may be read again.
    sent: HashMap<EventId, Timestamp>,
    news: watch::Receiver<()>,
    /// To be sent next.
    waiting: Option<String>,
    is_over: bool,
    stop: Stop,
    _permit: OwnedSemaphorePermit,
}

impl Feed {
    /// What is to be sent next; `None` at the end. A fault ends it too: who listens comes back.
    async fn next(&mut self, api: &Api) -> Option<String> {
        if let Some(text) = self.waiting.take() {
            return Some(text);
        }
        let quiet_until = after(self.app.clock.now(), SILENCE);
        loop {
            if self.is_over || self.stop.is_asked() {
                return None;
            }
            let app = self.app.clone();
            tokio::select! {
                biased;
                () = self.stop.asked() => return None,
                _ = self.news.changed() => app.clock.sleep(GATHER).await,
                () = app.clock.sleep(LOOK) => {}
            }
            let mut text = self.gather().await.ok()?;
            if !text.is_empty() {
                if let Some(job) = self.seen_job().await.ok()? {
                    self.push_job(api, job).await.ok()?;
                    text.push_str(&self.waiting.take().unwrap_or_default());
                }
                return Some(text);
            }
            if app.clock.now() >= quiet_until {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    /// Events that were stored since the last time.
    async fn gather(&mut self) -> Result<String, Problem> {
        self.news.mark_unchanged();
        let mut text = String::new();
        let since = self.newest.checked_sub(OVERLAP).unwrap_or(Timestamp::MIN);
        let mut place = Some(format!("{since:.3}"));
        while place.is_some() {
            let piece = listing::tenant_events(&self.app, &self.tenant, place, AT_ONCE, |_| true).await?;
            for event in piece.items {
                self.newest = self.newest.max(event.timestamp);
                let is_ours = match (&self.job, &event.aggregate) {
                    (None, _) => true,
                    (Some(wanted), Aggregate::Job(job) | Aggregate::Page(job, _)) => wanted == job,
                    (Some(_), _) => false,
                };
                if is_ours && self.sent.insert(event.id.clone(), event.timestamp).is_none() {
                    let kind = event.kind.clone();
                    text.push_str(&write(Some(id_of(&event)), &kind, &shape::Event::from(event)));
                }
            }
            place = piece.next;
        }
        let since = self.newest.checked_sub(OVERLAP).unwrap_or(Timestamp::MIN);
        self.sent.retain(|_, time| *time >= since);
        Ok(text)
    }

    /// The job as it is now, where this is the stream of one; `None` also when it was deleted.
    async fn seen_job(&mut self) -> Result<Option<Job>, Problem> {
        let Some(id) = &self.job else { return Ok(None) };
        let found = jobs::find(&self.app, id).await?;
        self.is_over = found.as_ref().is_none_or(|kept| kept.value.state.is_terminal());
        Ok(found.map(|kept| kept.value))
    }

    async fn push_job(&mut self, api: &Api, job: Job) -> Result<(), Problem> {
        let text = write(None, "job", &api.view(job).await?);
        self.waiting.get_or_insert_default().push_str(&text);
        Ok(())
    }
}
