//! How far a page is while its job runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    providers::target::Target,
    read::{
        pages::Page,
        waiting::{WaitReason, Waiting},
    },
};

/// The progress of a page.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PageStatus {
    /// Not started yet: AI may still read it.
    Planned,
    /// A worker processes the page.
    Working,
    /// Between two rounds: no model could be called, or none gave the page's text.
    Waiting,
    /// Its text changes no more before the result is published.
    Settled,
}

impl PageStatus {
    /// The status of a page with this record, if a worker has touched it. `is_kept`: the plan keeps our own
    /// text for it.
    pub fn of(record: Option<&Page>, is_kept: bool, now: Timestamp) -> Self {
        match record {
            Some(page) if page.outcome.is_some() => Self::Settled,
            Some(page) if page.lease.as_ref().is_some_and(|lease| lease.is_valid(now)) => Self::Working,
            Some(page) if page.waiting.is_some() => Self::Waiting,
            // A worker released it, or was lost: its message comes back.
            Some(_) => Self::Planned,
            None if is_kept => Self::Settled,
            None => Self::Planned,
        }
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl std::fmt::Display for PageStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Why a page waits for its next round of model calls, and until when, as results show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Waiting)]
pub struct WaitingPage {
    pub reason: WaitReason,
    /// When the next round starts at the latest; it starts earlier when a model becomes available.
    pub until: Timestamp,
    // The model that is expected to be available first.
    #[serde(flatten)]
    pub target: Target,
    /// Rounds so far.
    pub rounds: u32,
}

impl From<Waiting> for WaitingPage {
    fn from(waiting: Waiting) -> Self {
        Self { reason: waiting.reason, until: waiting.until, target: waiting.target, rounds: waiting.rounds }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        event::Head,
        ids::{JobId, PageNumber},
        lease::Lease,
        providers::target::Provider,
        read::outcome::Settlement,
    };

    fn record(lease: Option<Lease>, waiting: Option<Waiting>, outcome: Option<Settlement>) -> Page {
        Page {
            job: JobId::new("j"),
            page: PageNumber::new(1).unwrap(),
            lease,
            outcome,
            text: None,
            message: None,
            earlier_calls: vec![],
            waiting,
            rounds: 0,
            first_round_at: None,
            redrive_count: 0,
            head: Head::default(),
        }
    }

    #[test]
    fn a_page_has_the_status_of_its_record() {
        let now = Timestamp::UNIX_EPOCH;
        let lease = || Some(Lease::new("a/1", now, Duration::from_secs(30)));
        let waiting = || {
            let target = Target::new(Provider::OpenAi, "m");
            Some(Waiting { until: now, reason: WaitReason::RateLimited, target, rounds: 1 })
        };
        let settled = || Some(Settlement::fallback("no model answered".into(), vec![], now, now));
        let later = crate::time::after(now, Duration::from_secs(60));
        for (expected, record, is_kept, at) in [
            (PageStatus::Planned, None, false, now),
            (PageStatus::Settled, None, true, now),
            (PageStatus::Planned, Some(record(None, None, None)), false, now),
            (PageStatus::Working, Some(record(lease(), None, None)), false, now),
            (PageStatus::Planned, Some(record(lease(), None, None)), false, later),
            (PageStatus::Waiting, Some(record(None, waiting(), None)), false, later),
            (PageStatus::Working, Some(record(lease(), waiting(), None)), false, now),
            (PageStatus::Settled, Some(record(lease(), None, settled())), false, now),
        ] {
            assert_eq!(PageStatus::of(record.as_ref(), is_kept, at), expected, "{record:?}");
        }
    }
}
