//! When a page has its next round, when it waits for a model instead of calling the next one, and when it
//! is given up.

use std::time::Duration;

use jiff::Timestamp;

use super::{budget::MIN_CALL_TIME, latency::Latency, waiting::WaitReason};
use crate::{
    backoff::cooldown,
    providers::target::Target,
    settings::Patience,
    time::{after, until},
};

/// The pause before the next round after calls that failed: half a second, doubled with each round.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(8);

/// What a round found out about one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It can't or won't read this page.
    Refused,
    /// It can't be used until a person changes the settings.
    Misconfigured,
    /// It may be called from then on.
    AvailableAt(Timestamp, WaitReason),
}

impl StepState {
    /// Whether the model can be called without its breaker's probe, now or after a pause.
    pub fn is_available_without_probe(&self) -> bool {
        matches!(self, Self::AvailableAt(_, reason) if *reason != WaitReason::BreakerOpen)
    }
}

/// Why no further round would give the page's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    Refused,
    Misconfigured,
    /// `PATIENCE` is over.
    Impatient,
    /// No call could end before the deadline.
    NoTime,
}

impl GiveUp {
    /// For people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Refused => "every model refused this page",
            Self::Misconfigured => "no model can be used with the present settings",
            Self::Impatient => "no model gave the page's text before PATIENCE ended",
            Self::NoTime => "no model could be called again before the deadline",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRound<'a> {
    At(Timestamp, WaitReason, &'a Target),
    GiveUp(GiveUp),
}

/// A page after a round that did not give its text.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Rounds so far, with this one.
    pub rounds: u32,
    pub first_round_at: Timestamp,
    /// Whether a model was called for it.
    pub was_called: bool,
    pub patience: Patience,
    pub deadline: Timestamp,
    pub now: Timestamp,
    /// From 0 to 1: pages that failed together do not come back together.
    pub jitter: f64,
}

/// Decides what happens after a round: the earliest moment at which one of the models may be called, or the
/// reason to give the page up.
pub fn next_round<'a>(page: &Page, steps: &'a [(Target, StepState)]) -> NextRound<'a> {
    let pause = cooldown(page.rounds, FIRST_PAUSE, MAX_PAUSE);
    let times = steps.iter().filter_map(|(target, state)| match state {
        StepState::AvailableAt(at, reason) => {
            let spread = match reason {
                WaitReason::CallFailed => pause.mul_f64(0.5 + page.jitter / 2.0),
                WaitReason::RateLimited
                | WaitReason::BreakerOpen
                | WaitReason::NoSlot
                | WaitReason::QuotaUsedUp => Duration::from_millis(200).mul_f64(page.jitter),
            };
            Some((after((*at).max(page.now), spread), *reason, target))
        }
        StepState::Refused | StepState::Misconfigured => None,
    });
    let Some((at, reason, target)) = times.min_by_key(|(at, ..)| *at) else {
        let is_misconfigured = steps.iter().any(|(_, state)| *state == StepState::Misconfigured);
        return NextRound::GiveUp(if is_misconfigured { GiveUp::Misconfigured } else { GiveUp::Refused });
    };
    // A page that no model was called for had no round yet.
    let has_its_turn = page.was_called || !reason.is_turn();
    if at > patient_until(page) && has_its_turn {
        return NextRound::GiveUp(GiveUp::Impatient);
    }
    if after(at, MIN_CALL_TIME) >= page.deadline {
        return NextRound::GiveUp(GiveUp::NoTime);
    }
    NextRound::At(at, reason, target)
}

/// Until when a page waits for a model.
pub fn patient_until(page: &Page) -> Timestamp {
    match page.patience {
        Patience::Deadline => Timestamp::MAX,
        Patience::For(time) => after(page.first_round_at, time),
        Patience::OneRound => page.now,
    }
}

/// The work in front of a model.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Pages that wait for it, at most.
    pub pages: u64,
    /// Calls to it that may be in flight.
    pub limit: u32,
    pub latency: Option<Latency>,
    /// Calls that its rate limit lets through, where one is known.
    pub calls_per_second: Option<f64>,
    /// When its pause ends; now, if it is only busy.
    pub free_at: Timestamp,
}

/// Whether the model can read all pages that wait for it before the deadline. Then a page waits for it;
/// otherwise the next models take their share.
pub fn reads_all_in_time(queue: &Queue, deadline: Timestamp) -> bool {
    // Nothing is known before the first answer: it is waited for.
    let Some(call) = queue.latency.map(|latency| latency.median()) else {
        return queue.free_at < deadline;
    };
    let waves = queue.pages / u64::from(queue.limit.max(1)) + 1;
    let by_limit = queue.calls_per_second.map(|rate| queue.pages as f64 / rate.max(1e-6));
    let by_limit = by_limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let needed =
        call.saturating_mul(u32::try_from(waves).unwrap_or(u32::MAX)).max(by_limit.unwrap_or_default());
    // A quarter more, because calls fail and some are slow.
    after(queue.free_at, needed.saturating_add(needed / 4)) <= deadline
}

/// A page looks again for its turn at the latest after this time: the model may have become faster.
const MAX_TURN_PAUSE: Duration = Duration::from_secs(10);

/// How soon a page is to look again that finds `waiting` others waiting for a slot, so that its turn does not come within
/// `patience`; `None` where it may, or where too little is known.
pub fn turn_pause(queue: &Queue, waiting: u32, patience: Duration) -> Option<Duration> {
    let call = queue.latency?.median().as_secs_f64().max(0.001);
    let per_second = f64::from(queue.limit.max(1)) / call;
    let per_second = queue.calls_per_second.map_or(per_second, |limit| limit.min(per_second)).max(1e-6);
    let time = |pages: f64| Duration::try_from_secs_f64(pages / per_second).unwrap_or(Duration::MAX);
    // Half of the time that the pages in front of it need: they may be fewer.
    (time(f64::from(waiting) + 1.0) > patience)
        .then(|| (time(queue.pages as f64) / 2).clamp(patience / 2, MAX_TURN_PAUSE))
}

/// A page waits for its model at least this long before another provider takes it.
const MIN_SHARED_WAIT: Duration = Duration::from_secs(2);
/// And as long as this many calls.
const SHARED_WAIT_CALLS: u32 = 4;

/// Whether the model's rate limit makes the pages wait for so long that another provider, which is free, should take
/// its share of them.
pub fn is_worth_sharing(queue: &Queue, now: Timestamp) -> bool {
    let call = queue.latency.map_or(Duration::ZERO, |latency| latency.median());
    let by_limit = queue.calls_per_second.map_or(0.0, |rate| queue.pages as f64 / rate.max(1e-6));
    let waves = queue.pages as f64 / f64::from(queue.limit.max(1)) * call.as_secs_f64();
    let longer = Duration::try_from_secs_f64((by_limit - waves).max(0.0)).unwrap_or(Duration::MAX);
    until(now, queue.free_at).saturating_add(longer) > (call * SHARED_WAIT_CALLS).max(MIN_SHARED_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::target::Provider;

    fn at(seconds: f64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    fn page() -> Page {
        Page {
            rounds: 1,
            first_round_at: at(0.0),
            was_called: true,
            patience: Patience::Deadline,
            deadline: at(300.0),
            now: at(10.0),
            jitter: 1.0,
        }
    }

    fn steps(states: &[StepState]) -> Vec<(Target, StepState)> {
        let target = |index: usize| Target::new(Provider::OpenAi, format!("m{index}"));
        states.iter().enumerate().map(|(index, state)| (target(index), *state)).collect()
    }

    #[test]
    fn the_next_round_is_when_the_first_model_may_be_called() {
        use StepState::*;
        use WaitReason::*;
        let soonest = |states: &[StepState], page: Page| match next_round(&page, &steps(states)) {
            NextRound::At(at, reason, target) => Ok((at, reason, target.model.clone())),
            NextRound::GiveUp(why) => Err(why),
        };
        let failed = AvailableAt(at(10.0), CallFailed);
        assert_eq!(soonest(&[failed], page()), Ok((at(10.5), CallFailed, "m0".into())));
        assert_eq!(soonest(&[failed], Page { rounds: 3, ..page() }).unwrap().0, at(12.0));
        assert_eq!(soonest(&[failed], Page { rounds: 30, ..page() }).unwrap().0, at(18.0));
        let open = AvailableAt(at(40.0), BreakerOpen);
        let limited = AvailableAt(at(14.0), RateLimited);
        assert_eq!(soonest(&[open, limited, Refused], page()), Ok((at(14.2), RateLimited, "m1".into())));
        // What does not pass is not waited for.
        assert_eq!(soonest(&[Refused, Refused], page()), Err(GiveUp::Refused));
        assert_eq!(soonest(&[Refused, Misconfigured], page()), Err(GiveUp::Misconfigured));
        assert_eq!(soonest(&[Misconfigured, open], page()).unwrap().0, at(40.2));
        // Patience and time end.
        assert_eq!(
            soonest(&[failed], Page { patience: Patience::OneRound, ..page() }),
            Err(GiveUp::Impatient)
        );
        // Without patience too, a page has the round that its turn brings.
        let busy = AvailableAt(at(12.0), NoSlot);
        let one_round = Page { patience: Patience::OneRound, ..page() };
        assert_eq!(soonest(&[busy], one_round), Err(GiveUp::Impatient));
        assert!(soonest(&[busy], Page { was_called: false, ..one_round }).is_ok());
        assert_eq!(soonest(&[open], Page { was_called: false, ..one_round }), Err(GiveUp::Impatient));
        let minute = Patience::For(Duration::from_secs(30));
        assert_eq!(soonest(&[open], Page { patience: minute, ..page() }), Err(GiveUp::Impatient));
        assert!(soonest(&[limited], Page { patience: minute, ..page() }).is_ok());
        assert_eq!(soonest(&[open], Page { deadline: at(40.0), ..page() }), Err(GiveUp::NoTime));
    }

    #[test]
    fn a_page_waits_inside_the_worker_only_where_its_turn_comes_soon() {
        let (latency, seconds) =
            (Some(Latency { median_ms: 500, high_ms: 900, samples: 9 }), Duration::from_secs_f64);
        let queue = Queue { pages: 400, limit: 24, latency, calls_per_second: None, free_at: at(0.0) };
        let pause = |queue: Queue, waiting| turn_pause(&queue, waiting, seconds(5.0));
        assert_eq!(pause(queue, 200), None, "48 calls per second");
        assert_eq!(pause(Queue { pages: 384, ..queue }, 240), Some(seconds(4.0)));
        // A model that takes one call at a time.
        let collapsed = Queue { limit: 1, ..queue };
        assert_eq!((pause(collapsed, 9), pause(collapsed, 10)), (None, Some(MAX_TURN_PAUSE)));
        assert_eq!(pause(Queue { pages: 11, ..collapsed }, 10), Some(seconds(2.75)));
        let limited = Queue { calls_per_second: Some(1.0), ..queue };
        assert_eq!((pause(limited, 4), pause(limited, 5)), (None, Some(MAX_TURN_PAUSE)));
        assert_eq!(pause(Queue { latency: None, ..collapsed }, 90), None, "nothing is known of it");
    }

    #[test]
    fn pages_are_shared_where_a_rate_limit_makes_them_wait_for_long() {
        let latency = Some(Latency { median_ms: 500, high_ms: 900, samples: 9 });
        let queue = Queue { pages: 40, limit: 10, latency, calls_per_second: None, free_at: at(0.0) };
        let shares = |queue: Queue| is_worth_sharing(&queue, at(0.0));
        assert!(!shares(queue), "no rate limit: it is only busy");
        assert!(shares(Queue { calls_per_second: Some(1.0), ..queue }));
        assert!(!shares(Queue { calls_per_second: Some(15.0), ..queue }));
        assert!(!shares(Queue { pages: 3, calls_per_second: Some(2.0), ..queue }));
        // A pause counts as well. Where calls take long, pages wait longer.
        assert!(!shares(Queue { free_at: at(2.0), ..queue }));
        assert!(shares(Queue { free_at: at(2.1), ..queue }));
        let slow = Some(Latency { median_ms: 5000, high_ms: 9000, samples: 9 });
        assert!(!shares(Queue { free_at: at(20.0), latency: slow, ..queue }));
        assert!(shares(Queue { free_at: at(9.0), latency: None, ..queue }));
    }

    #[test]
    fn a_page_waits_for_its_model_while_that_can_read_all_pages_in_time() {
        let latency = Some(Latency { median_ms: 1000, high_ms: 2000, samples: 9 });
        let queue = Queue { pages: 100, limit: 10, latency, calls_per_second: None, free_at: at(0.0) };
        assert!(reads_all_in_time(&Queue { calls_per_second: Some(1.0), ..queue }, at(125.0)));
        assert!(!reads_all_in_time(&Queue { calls_per_second: Some(1.0), ..queue }, at(124.0)));
        assert!(reads_all_in_time(&queue, at(14.0)));
        assert!(!reads_all_in_time(&queue, at(13.0)));
        assert!(!reads_all_in_time(&Queue { free_at: at(5.0), ..queue }, at(14.0)));
        assert!(reads_all_in_time(&Queue { latency: None, ..queue }, at(6.0)));
        assert!(!reads_all_in_time(&Queue { latency: None, free_at: at(7.0), ..queue }, at(6.0)));
        assert!(!reads_all_in_time(&Queue { pages: u64::MAX, ..queue }, at(1e9)));
    }
}
