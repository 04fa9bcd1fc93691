//! Reads the events of a stream that were stored since it last read.
//!
//! Two writers may store events in another order than their times, so each poll reads a little of the
//! past again:
//!
//! ```text
//!   read every LATE_POLL_INTERVAL ├────────────── max_delay ──────────────┤
//!   read at each poll                                       ├── OVERLAP ──┤
//!   ──────────────────────────────────────────────────────────────────────┼───▶ time
//!                                                                      newest
//! ```

use std::{collections::HashMap, time::Duration};
use tokio_util::sync::CancellationToken;

use axum::response::sse;
use everypage_core::{
    event::{self, Aggregate},
    events::{listing, trail},
    ids::{EventId, JobId, TenantId},
    job::jobs,
    time::after,
};
use jiff::Timestamp;
use tokio::sync::watch;

use super::{id_of, message, time_of};
use crate::{Api, problem::Problem, shape};

/// Most events are stored at most this long after their time: each poll reads it again.
const OVERLAP: Duration = Duration::from_secs(3);
/// The longest that one write takes; an event whose write is retried is late by the pauses as well.
const MAX_WRITE: Duration = Duration::from_secs(10);
/// How often the stream looks for late events.
const LATE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// No stream starts further in the past, whatever `Last-Event-ID` is.
const MAX_PAST: Duration = Duration::from_secs(24 * 3600);
/// A stream ends after this time, so that a client whose key was revoked can't reconnect.
const MAX_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// How often the stream looks for events of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The wait after a notification, so that events stored close together are read together.
const GATHER: Duration = Duration::from_millis(100);
/// Events that are read and held at a time, however many the client missed.
const BATCH_SIZE: usize = 200;

pub struct Feed {
    api: Api,
    stop: CancellationToken,
    tenant: TenantId,
    job: Option<JobId>,
    /// Types of events that are sent, such as `job.*,dlq.added`; all if unset.
    kinds: Option<String>,
    /// The latest time of an event that was read.
    newest: Timestamp,
    /// No event is stored later than this after its time.
    max_delay: Duration,
    /// When `max_delay` of the past is read again.
    late_poll_at: Timestamp,
    /// Where the next batch starts; `None` when everything was read.
    place: Option<String>,
    ends_at: Timestamp,
    /// Events of this stream that were read, sent or not, and may be read again.
    seen: HashMap<EventId, Timestamp>,
    /// The newest of them: its place in the listing, and its id in the stream.
    last: Option<(String, String)>,
    /// Notifies of events that this process stored.
    news: watch::Receiver<()>,
    /// Events were read since the job's state was sent.
    owes_job: bool,
    job_has_ended: bool,
}

impl Feed {
    pub fn new(
        api: Api,
        stop: CancellationToken,
        tenant: TenantId,
        job: Option<JobId>,
        from: Option<Timestamp>,
    ) -> Self {
        let now = api.app.store.clock.now();
        let retries: Duration = api.app.settings.retry_intervals.iter().sum();
        Self {
            newest: from.map_or(now, |from| from.max(before(now, MAX_PAST))),
            max_delay: retries + MAX_WRITE,
            late_poll_at: now,
            place: None,
            ends_at: after(now, MAX_LIFETIME),
            news: api.app.store.watch_stored(),
            api,
            stop,
            tenant,
            job,
            kinds: None,
            seen: HashMap::new(),
            last: None,
            owes_job: true,
            job_has_ended: false,
        }
    }

    /// Sends events of these types only.
    pub fn only(self, kinds: Option<String>) -> Self {
        Self { kinds, ..self }
    }

    /// Waits for events; `None` at the end of the stream. A fault ends it too: the client reconnects.
    pub async fn next(&mut self) -> Option<Vec<sse::Event>> {
        let clock = self.api.app.store.clock.clone();
        loop {
            let is_done = self.job_has_ended && self.place.is_none();
            if is_done || self.stop.is_cancelled() || clock.now() >= self.ends_at {
                return None;
            }
            if self.place.is_none() {
                tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return None,
                    _ = self.news.changed() => clock.sleep(GATHER).await,
                    () = clock.sleep(POLL_INTERVAL) => {}
                }
            }
            let mut batch = self.read().await.ok()?;
            if self.owes_job && self.place.is_none() {
                batch.extend(self.current_job().await.ok()?);
            }
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Passes over every stored event.
    pub async fn skip(&mut self) -> Result<(), Problem> {
        loop {
            self.read().await?;
            if self.place.is_none() {
                return Ok(());
            }
        }
    }

    /// Starts where the client was, and early enough for events that were stored late.
    pub fn resume(&mut self) {
        self.place = Some(self.place_before(self.max_delay));
    }

    /// The place in the tenant's events that lies `time` before the newest.
    fn place_before(&self, time: Duration) -> String {
        format!("{:.3}", before(self.newest, time))
    }

    /// Reads up to [`BATCH_SIZE`] events that were stored since the last read; sets `place` when there
    /// are more.
    async fn read(&mut self) -> Result<Vec<sse::Event>, Problem> {
        self.news.mark_unchanged();
        let place = self.place.take().unwrap_or_else(|| {
            let now = self.api.app.store.clock.now();
            match now >= self.late_poll_at {
                true => {
                    self.late_poll_at = after(now, LATE_POLL_INTERVAL);
                    self.place_before(self.max_delay)
                }
                false => self.place_before(OVERLAP),
            }
        });
        let app = &self.api.app;
        let page =
            listing::tenant_events(&app.store, &self.tenant, Some(place), BATCH_SIZE, |_| true).await?;
        let mut batch = Vec::new();
        for event in page.items {
            self.newest = self.newest.max(event.timestamp);
            if !self.is_ours(&event) || self.seen.insert(event.id.clone(), event.timestamp).is_some() {
                continue;
            }
            // The job has changed, whether or not its client wants this event.
            self.owes_job = true;
            let position = trail::place(&event);
            let (id, kind) = (id_of(&event), event.kind.clone());
            self.last = self.last.take().max(Some((position, id.clone())));
            if self.kinds.as_ref().is_none_or(|kinds| event::matches_kind(kinds, &kind)) {
                batch.push(message(Some(id), &kind, &shape::Event::from(event))?);
            }
        }
        self.place = page.next;
        let since = before(self.newest, self.max_delay);
        self.seen.retain(|_, time| *time >= since);
        Ok(batch)
    }

    fn is_ours(&self, event: &event::Event) -> bool {
        match (&self.job, &event.aggregate) {
            (None, _) => true,
            (Some(wanted), Aggregate::Job(job) | Aggregate::Page(job, _)) => wanted == job,
            (Some(_), _) => false,
        }
    }

    /// Whether this is the stream of a job that has ended, and its last event has this id.
    pub async fn ended_with(&self, last: &str) -> Result<bool, Problem> {
        let Some(id) = &self.job else { return Ok(false) };
        let app = &self.api.app;
        let Some(job) = jobs::find(&app.store, id).await? else { return Ok(true) };
        let (Some(time), Some(end)) = (time_of(last), job.value.head.at) else { return Ok(false) };
        // Ids have milliseconds.
        let (time, end) = (time.as_millisecond(), end.as_millisecond());
        if !job.value.state.is_terminal() || time != end {
            return Ok(job.value.state.is_terminal() && time > end);
        }
        let mut place = last.split_once('_').map(|(time, _)| time.to_owned());
        let mut newest = None;
        while place.is_some() {
            let page = listing::tenant_events(&app.store, &self.tenant, place, BATCH_SIZE, |_| true).await?;
            place = page.next;
            for event in page.items {
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

    /// The job in its current state, where this is the stream of one; `None` also when it was deleted. It has the
    /// id of the last event that was read: a client that wants none of the last events has seen them too.
    pub async fn current_job(&mut self) -> Result<Option<sse::Event>, Problem> {
        self.owes_job = false;
        let Some(id) = &self.job else { return Ok(None) };
        let found = jobs::find(&self.api.app.store, id).await?;
        self.job_has_ended = found.as_ref().is_none_or(|kept| kept.value.state.is_terminal());
        let Some(kept) = found else { return Ok(None) };
        let id = self.last.as_ref().map(|(_, id)| id.clone());
        Ok(Some(message(id, "job", &self.api.view(kept.value).await?)?))
    }
}

fn before(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}
