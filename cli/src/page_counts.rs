//! How many pages of running jobs are done, being read and waiting: one line for all documents.

use std::collections::BTreeMap;

use everypage_core::{
    finish::{page_status::WaitingPage, provisional::PageCounts},
    job::Job,
    read::waiting::WaitReason,
};
use jiff::Timestamp;

use crate::human;

/// The pages of one running job.
#[derive(Clone, Debug, Default)]
pub struct JobPages {
    pub total: usize,
    /// Pages with their final text.
    pub done: usize,
    /// Pages that a worker processes.
    pub working: usize,
    pub waiting: Vec<WaitingPage>,
}

impl JobPages {
    /// `None` before the text of the document is read.
    pub fn new(job: &Job, counts: PageCounts) -> Option<Self> {
        let total = job.survey.as_ref()?.page_count() as usize;
        // Before there is a plan, any page may be sent to AI.
        let for_ai = job.plan.as_ref().map_or(total, |plan| plan.ai_pages as usize);
        let unread = for_ai.saturating_sub(counts.settled);
        Some(Self {
            total,
            done: total.saturating_sub(unread),
            working: counts.working,
            waiting: counts.waiting.into_iter().map(|(_, waiting)| waiting).collect(),
        })
    }

    /// The pages of a job that has ended.
    pub fn all_done(self) -> Self {
        Self { total: self.total, done: self.total, ..Self::default() }
    }

    /// The pages of several jobs together.
    pub fn sum<'a>(jobs: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for job in jobs {
            sum.total += job.total;
            sum.done += job.done;
            sum.working += job.working;
            sum.waiting.extend(job.waiting.iter().cloned());
        }
        sum
    }

    /// `24 of 40 pages done, 4 being read, 12 waiting (rate limited, next in 8.0 s)`.
    pub fn line(&self, now: Timestamp) -> String {
        let pages = human::count(self.total, "page", "pages");
        let mut facts = vec![format!("{} of {pages} done", self.done)];
        if self.working > 0 {
            facts.push(format!("{} being read", self.working));
        }
        if let Some((reason, next)) = self.most_common_wait() {
            let next = match next > now {
                true => format!("next in {}", human::between(now, next)),
                false => "next any moment".to_owned(),
            };
            facts.push(format!("{} waiting ({}, {next})", self.waiting.len(), in_words(reason)));
        }
        facts.join(", ")
    }

    /// The reason for which most pages wait, and when the first waiting page continues.
    pub fn most_common_wait(&self) -> Option<(WaitReason, Timestamp)> {
        let mut counts: BTreeMap<&str, (usize, WaitReason)> = BTreeMap::new();
        for page in &self.waiting {
            counts.entry(page.reason.name()).or_insert((0, page.reason)).0 += 1;
        }
        let (_, reason) = counts.into_values().max_by_key(|(count, _)| *count)?;
        let next = self.waiting.iter().map(|page| page.until).min()?;
        Some((reason, next))
    }
}

/// Why a page waits, in words.
pub fn in_words(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::RateLimited => "rate limited",
        WaitReason::BreakerOpen => "models in cooldown",
        WaitReason::CallFailed => "calls failed",
        WaitReason::NoSlot => "all slots taken",
        WaitReason::QuotaUsedUp => "rate limit used up",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everypage_core::{
        providers::target::{Provider, Target},
        time::after,
    };

    use super::*;

    fn waiting(reason: WaitReason, seconds: u64) -> WaitingPage {
        WaitingPage {
            reason,
            until: after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds)),
            target: Target::new(Provider::OpenAi, "m"),
            rounds: 1,
        }
    }

    #[test]
    fn the_line_has_the_most_common_reason_and_the_next_time() {
        let one = JobPages {
            total: 30,
            done: 20,
            working: 4,
            waiting: vec![
                waiting(WaitReason::CallFailed, 8),
                waiting(WaitReason::RateLimited, 30),
                waiting(WaitReason::RateLimited, 40),
            ],
        };
        let other = JobPages { total: 10, done: 4, ..JobPages::default() };
        let sum = JobPages::sum([&one, &other]);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            sum.line(now),
            "24 of 40 pages done, 4 being read, 3 waiting (rate limited, next in 8.0 s)"
        );
        let later = after(now, Duration::from_secs(9));
        assert!(sum.line(later).ends_with("(rate limited, next any moment)"));
        assert_eq!(other.line(now), "4 of 10 pages done");
    }
}
