//! New events of a job, read from its audit trail by polling.

use std::{collections::HashSet, time::Duration};

use everypage_core::{
    app::App,
    event::{Aggregate, Event, decode},
    events::trail,
    ids::{EventId, JobId, PageNumber},
    ports::Fault,
    read::outcome::PageEvent,
    time::after,
};
use jiff::Timestamp;

/// Each poll of the pages reads all their events, so large documents are polled less often: a
/// second apart for each of these.
const EVENTS_PER_SECOND: usize = 1000;

pub struct EventPoller<'a> {
    app: &'a App,
    job: JobId,
    seen: HashSet<EventId>,
    pages_due: Option<Timestamp>,
}

impl<'a> EventPoller<'a> {
    pub fn new(app: &'a App, job: &JobId) -> Self {
        Self { app, job: job.clone(), seen: HashSet::new(), pages_due: None }
    }

    /// Skips the events that exist already.
    pub async fn after_existing(app: &'a App, job: &JobId) -> Result<Self, Fault> {
        let mut poller = Self::new(app, job);
        poller.poll().await?;
        poller.pages_due = None;
        Ok(poller)
    }

    pub fn job(&self) -> &JobId {
        &self.job
    }

    /// Returns the events stored since the last call, the job's own first.
    pub async fn poll(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = trail::read(&self.app.store, &Aggregate::Job(self.job.clone())).await?;
        let now = self.app.store.clock.now();
        if self.pages_due.is_none_or(|due| due <= now) {
            let pages = trail::read_pages(&self.app.store, &self.job).await?;
            let pause = Duration::from_secs((pages.len() / EVENTS_PER_SECOND) as u64);
            self.pages_due = Some(after(now, pause));
            events.extend(pages);
        }
        events.retain(|event| self.seen.insert(event.id.clone()));
        Ok(events)
    }

    /// The page that this event settles.
    pub fn settled_page(&self, event: &Event) -> Option<PageNumber> {
        match &event.aggregate {
            Aggregate::Page(job, page) if *job == self.job => match decode(event) {
                Ok(PageEvent::Settled(_)) => Some(*page),
                Err(_) => None,
            },
            _ => None,
        }
    }
}
