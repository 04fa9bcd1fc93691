//! Statistics of a tenant's jobs over a period, computed from the jobs.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    events::Store,
    ids::TenantId,
    job::{Job, Status, jobs},
    money::MicroUsd,
    ports::Fault,
    time::until,
};

/// Jobs that are read, the newest ones: statistics must not cost more than the work itself.
const MAX_JOBS: usize = 5_000;
const BATCH_SIZE: usize = 500;

/// One bucket of time; a job counts in the bucket in which it was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    pub jobs: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Rejected or cancelled.
    pub stopped: u32,
    pub pages: u64,
    /// Pages with an AI's text.
    pub ai_pages: u64,
    /// Pages that were planned for AI and fell back.
    pub fallback_pages: u64,
    pub cost: MicroUsd,
    /// Durations from receipt to end of the jobs that have ended, sorted.
    times: Vec<Duration>,
}

impl Span {
    fn add(&mut self, job: &Job) {
        self.jobs += 1;
        match job.status() {
            Status::Success => self.succeeded += 1,
            Status::Failed => self.failed += 1,
            Status::Rejected | Status::Cancelled => self.stopped += 1,
            Status::Queued | Status::Processing | Status::AwaitingApproval => {}
        }
        if let Some(result) = &job.result {
            self.pages += u64::from(result.metadata.total_pages);
            self.ai_pages += u64::from(result.metadata.final_ai_pages);
            self.fallback_pages += u64::from(result.metadata.mupdf_fallback_count);
            self.cost += result.metadata.cost_micro_usd;
        }
        if let Some(end) = job.finished_at {
            let time = until(job.received_at, end);
            self.times.insert(self.times.partition_point(|other| *other <= time), time);
        }
    }

    /// The duration within which this share of the jobs ended, such as 0.95; none where no job has ended.
    pub fn within(&self, part: f64) -> Option<Duration> {
        let rank = (self.times.len() as f64 * part).ceil() as usize;
        self.times.get(rank.clamp(1, self.times.len().max(1)) - 1).copied()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub from: Timestamp,
    pub each: Duration,
    pub spans: Vec<Span>,
    pub total: Span,
    /// False when there were more jobs than are read: the older ones are missing.
    pub complete: bool,
}

/// The last `window` up to now, in `count` buckets of equal length.
pub async fn figures(
    store: &Store,
    tenant: &TenantId,
    window: Duration,
    count: usize,
) -> Result<Figures, Fault> {
    let now = store.clock.now();
    let from = now.checked_sub(window).unwrap_or(Timestamp::MIN);
    let each = window / count.max(1) as u32;
    let mut figures =
        Figures { from, each, spans: vec![Span::default(); count], total: Span::default(), complete: true };
    let (mut after, mut seen) = (None, 0);
    loop {
        let piece = jobs::list_page(store, tenant, after, BATCH_SIZE, |_| true).await?;
        for job in &piece.items {
            if job.received_at < from {
                return Ok(figures);
            }
            let index = until(from, job.received_at).as_nanos() / each.as_nanos().max(1);
            let index = usize::try_from(index).unwrap_or(usize::MAX).min(count.saturating_sub(1));
            if let Some(span) = figures.spans.get_mut(index) {
                span.add(job);
            }
            figures.total.add(job);
        }
        seen += piece.items.len();
        match piece.next {
            None => return Ok(figures),
            Some(_) if seen >= MAX_JOBS => {
                figures.complete = false;
                return Ok(figures);
            }
            Some(next) => after = Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_jobs_ended_within_the_time_of_the_last_of_them() {
        let seconds = |all: &[u64]| Span {
            times: all.iter().map(|seconds| Duration::from_secs(*seconds)).collect(),
            ..Span::default()
        };
        let hundred: Vec<u64> = (1..=100).collect();
        for (span, part, expected) in [
            (seconds(&[]), 0.5, None),
            (seconds(&[7]), 0.5, Some(7)),
            (seconds(&[7]), 0.99, Some(7)),
            (seconds(&[1, 2, 3, 4]), 0.5, Some(2)),
            (seconds(&hundred), 0.95, Some(95)),
            (seconds(&hundred), 1.0, Some(100)),
        ] {
            assert_eq!(span.within(part), expected.map(Duration::from_secs), "{part} of {span:?}");
        }
    }
}
