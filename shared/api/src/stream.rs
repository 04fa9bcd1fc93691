//! Events as they happen, as server-sent events.
//!
//! A stream reads the store, not the bus: what it sends is stored, by whichever process, and who
//! comes back with `Last-Event-ID` misses nothing. Each event is sent at least once; two writers may
//! store theirs in another order than their times, so a little of the past is always read again.
//!
//! ```text
//!   read again        every so often ├──────────────── late ────────────────┤
//!   at each look                                              ├── overlap ──┤
//!   ────────────────────────────────────────────────────────────────────────┼───▶ time
//!                                                                        newest
//! ```

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
/// An event is stored later than its time says: mostly not by much, so this is read at each look.
const OVERLAP: Duration = Duration::from_secs(3);
/// One whose write was tried again comes later by all the pauses in between, and by no more than this.
const SLOW_WRITE: Duration = Duration::from_secs(10);
/// Those are looked for so often.
const LOOK_BACK: Duration = Duration::from_secs(5);
/// No stream goes back further, whatever the client has seen last.
const MOST_PAST: Duration = Duration::from_secs(24 * 3600);
/// Then a stream ends, and who comes back shows a key that is still in force.
const LIFE: Duration = Duration::from_secs(5 * 60);
/// What other processes store is looked for so often.
const LOOK: Duration = Duration::from_secs(2);
/// Events that come close together are sent together.
const GATHER: Duration = Duration::from_millis(100);
/// Something is said at least so often, so that nobody in between takes the connection for dead.
const SILENCE: Duration = Duration::from_secs(15);
/// Events that are read and sent together, however many were missed.
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
    let last = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let from = last.map(|id| {
        let bad = || Problem::mistake("Last-Event-ID", "it is not the id of an event of this stream");
        time_of(id).ok_or_else(bad)
    });
    let from = from.transpose()?;
    let app = api.app.clone();
    let now = app.clock.now();
    let slow: Duration = app.settings.retry_intervals.iter().sum();
    let mut feed = Feed {
        newest: from.map_or(now, |from| from.max(before(now, MOST_PAST))),
        late: slow + SLOW_WRITE,
        look_back_at: now,
        place: None,
        ends_at: after(now, LIFE),
        news: app.news(),
        app,
        tenant,
        job,
        sent: HashMap::new(),
        waiting: Some("retry: 2000\n".to_owned()),
        owes_job: true,
        is_over: false,
        stop: streams.stop,
        _permit: permit,
    };
    match last {
        None => {
            // What is there already is no news: the job as it is says it all.
            feed.skip().await?;
            // Who hears nothing before the stream ends still knows where they were.
            feed.push(format!("id: {now:.3}_\n\n"));
            if let Some(job) = feed.job_now(api).await? {
                feed.push(job);
            }
        }
        Some(last) => {
            feed.push("\n".to_owned());
            // A browser that comes back to a job that has ended has seen all, and need not come again.
            if feed.has_ended_with(last).await? {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            feed.place = Some(feed.since(feed.late));
        }
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
    /// No event is stored so much later than its time says.
    late: Duration,
    /// When that much of the past is read again.
    look_back_at: Timestamp,
    /// Where reading goes on at once; `None` when all was read for now.
    place: Option<String>,
    ends_at: Timestamp,
    /// Those that may be read again.
    sent: HashMap<EventId, Timestamp>,
    news: watch::Receiver<()>,
    /// To be sent next.
    waiting: Option<String>,
    /// Events were sent, and not yet what the job is after them.
    owes_job: bool,
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
            let is_done = self.is_over && self.place.is_none();
            if is_done || self.stop.is_asked() || self.app.clock.now() >= self.ends_at {
                return None;
            }
            let app = self.app.clone();
            if self.place.is_none() {
                tokio::select! {
                    biased;
                    () = self.stop.asked() => return None,
                    _ = self.news.changed() => app.clock.sleep(GATHER).await,
                    () = app.clock.sleep(LOOK) => {}
                }
            }
            let mut text = self.gather().await.ok()?;
            self.owes_job |= !text.is_empty();
            if self.owes_job && self.place.is_none() {
                text.push_str(&self.job_now(api).await.ok()?.unwrap_or_default());
            }
            if !text.is_empty() {
                return Some(text);
            }
            if app.clock.now() >= quiet_until {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    fn push(&mut self, text: String) {
        self.waiting.get_or_insert_default().push_str(&text);
    }

    /// The place in the tenant's events that is so long before the newest.
    fn since(&self, time: Duration) -> String {
        format!("{:.3}", before(self.newest, time))
    }

    /// Passes over what is there.
    async fn skip(&mut self) -> Result<(), Problem> {
        loop {
            self.gather().await?;
            if self.place.is_none() {
                return Ok(());
            }
        }
    }

    /// Some of the events that were stored since the last time; more of them where `place` is set then.
    async fn gather(&mut self) -> Result<String, Problem> {
        self.news.mark_unchanged();
        let mut text = String::new();
        let place = self.place.take().unwrap_or_else(|| {
            let now = self.app.clock.now();
            let back = if now >= self.look_back_at { self.late } else { OVERLAP };
            if back > OVERLAP {
                self.look_back_at = after(now, LOOK_BACK);
            }
            self.since(back)
        });
        let piece = listing::tenant_events(&self.app, &self.tenant, Some(place), AT_ONCE, |_| true).await?;
        for event in piece.items {
            self.newest = self.newest.max(event.timestamp);
            if self.is_ours(&event) && self.sent.insert(event.id.clone(), event.timestamp).is_none() {
                let kind = event.kind.clone();
                text.push_str(&write(Some(id_of(&event)), &kind, &shape::Event::from(event)));
            }
        }
        self.place = piece.next;
        let since = before(self.newest, self.late);
        self.sent.retain(|_, time| *time >= since);
        Ok(text)
    }

    fn is_ours(&self, event: &event::Event) -> bool {
        match (&self.job, &event.aggregate) {
            (None, _) => true,
            (Some(wanted), Aggregate::Job(job) | Aggregate::Page(job, _)) => wanted == job,
            (Some(_), _) => false,
        }
    }

    /// Has the job, where this is the stream of one, ended, and is nothing of it listed after this id?
    async fn has_ended_with(&self, last: &str) -> Result<bool, Problem> {
        let Some(id) = &self.job else { return Ok(false) };
        let Some(job) = jobs::find(&self.app, id).await? else { return Ok(true) };
        let (Some(time), Some(end)) = (time_of(last), job.value.head.at) else { return Ok(false) };
        // Ids tell milliseconds.
        let (time, end) = (time.as_millisecond(), end.as_millisecond());
        if !job.value.state.is_terminal() || time != end {
            return Ok(job.value.state.is_terminal() && time > end);
        }
        let mut place = last.split_once('_').map(|(time, _)| time.to_owned());
        let mut newest = None;
        while place.is_some() {
            let piece = listing::tenant_events(&self.app, &self.tenant, place, AT_ONCE, |_| true).await?;
            place = piece.next;
            for event in piece.items {
                if event.timestamp.as_millisecond() > end {
                    place = None;
                    break;
                }
                if self.is_ours(&event) {
                    newest = Some(id_of(&event));
                }
            }
        }
        Ok(newest.as_deref() == Some(last))
    }

    /// The job as it is now, where this is the stream of one; `None` also when it was deleted.
    async fn job_now(&mut self, api: &Api) -> Result<Option<String>, Problem> {
        self.owes_job = false;
        let Some(id) = &self.job else { return Ok(None) };
        let found = jobs::find(&self.app, id).await?;
        self.is_over = found.as_ref().is_none_or(|kept| kept.value.state.is_terminal());
        let Some(kept) = found else { return Ok(None) };
        Ok(Some(write(None, "job", &api.view(kept.value).await?)))
    }
}

fn before(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}
