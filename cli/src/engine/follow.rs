//! The events of a job as they come, from a store that tells nobody.

use std::{collections::HashSet, time::Duration};

use everypage_core::{
    app::App,
    domain::{
        event::{Aggregate, Event},
        ids::{EventId, JobId, PageNumber},
    },
    ports::{Fault, clock::after},
    store::trail,
};
use jiff::Timestamp;

/// Each look at the pages reads all their events: a large document is looked at less often.
const A_SECOND_PER: usize = 1000;

pub struct Follow<'a> {
    app: &'a App,
    job: JobId,
    seen: HashSet<EventId>,
    pages_due: Option<Timestamp>,
}

impl<'a> Follow<'a> {
    pub fn new(app: &'a App, job: &JobId) -> Self {
        Self { app, job: job.clone(), seen: HashSet::new(), pages_due: None }
    }

    /// Without what is there already.
    pub async fn from_now_on(app: &'a App, job: &JobId) -> Result<Self, Fault> {
        let mut follow = Self::new(app, job);
        follow.news().await?;
        follow.pages_due = None;
        Ok(follow)
    }

    pub fn job(&self) -> &JobId {
        &self.job
    }

    /// What was stored since the last call, the job's own first.
    pub async fn news(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = trail::read(self.app, &Aggregate::Job(self.job.clone())).await?;
        let now = self.app.clock.now();
        if self.pages_due.is_none_or(|due| due <= now) {
            let pages = trail::read_pages(self.app, &self.job).await?;
            let pause = Duration::from_secs((pages.len() / A_SECOND_PER) as u64);
            self.pages_due = Some(after(now, pause));
            events.extend(pages);
        }
        events.retain(|event| self.seen.insert(event.id.clone()));
        Ok(events)
    }

    /// The page whose text this event says to be settled.
    pub fn settles(&self, event: &Event) -> Option<PageNumber> {
        match &event.aggregate {
            Aggregate::Page(job, page) if *job == self.job && event.kind == "page.settled" => Some(*page),
            _ => None,
        }
    }
}
