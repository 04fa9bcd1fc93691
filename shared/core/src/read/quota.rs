//! The rest of a provider's rate limits by its headers, as a value: how many calls may start now.
//!
//! Providers refill their limits continuously, and announce when a limit is full again. A limit that was
//! empty a moment ago has room for a call long before that:
//!
//! ```text
//!  left
//!  limit |                          ,--- full: what the header announces
//!        |                    ,----'
//!  1 call|- - - - - - -,-----' - - - - - the next call may start here
//!        |______,-----'
//!        +-------------------------------> time
//! ```

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    ports::vision::{Allowance, Quota},
    time::{after, until},
};

/// A call may start when this much of it is free: times are rounded on their way.
const NEARLY_ONE: f64 = 0.999;
/// What is missing may be less than a nanosecond's refill: who waits for no time at all waits forever.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// A limit with room for fewer calls may soon hold calls back.
const FEW_CALLS: f64 = 10.0;

/// What an average call takes of the limits that count tokens; `None` before that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokensPerCall {
    pub input: Option<f64>,
    pub output: Option<f64>,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Calls,
    InputTokens,
    OutputTokens,
}

/// The latest announcement of a provider, and what happened since.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    pub allowance: Allowance,
    /// When the call started whose response announced it. Whether a provider announces what was left then
    /// or what is left at the end of a call is not documented. With calls that come and go steadily, the
    /// refill during a call and the calls that started during it make up for each other.
    pub at: Timestamp,
    /// Calls that started since, without those that were refused.
    pub started_since: u64,
}

impl Announced {
    /// How long to wait until another call may start: `None` when it may start now. A process whose part of
    /// all calls in flight is `part` has that part of the limits.
    pub fn wait(&self, tokens: TokensPerCall, part: f64, now: Timestamp) -> Option<Duration> {
        self.limits(tokens, now).filter_map(|limit| limit.wait(part)).max()
    }

    /// How many calls per second the limits refill; `None` where that is not announced, or nothing is used.
    pub fn calls_per_second(&self, tokens: TokensPerCall, now: Timestamp) -> Option<f64> {
        let rates =
            self.limits(tokens, now).filter_map(|limit| Some(per_second(&limit.quota)? / limit.per_call));
        rates.min_by(f64::total_cmp)
    }

    /// Whether the limit of input tokens leaves fewer calls than the others, and not many.
    pub fn is_limited_by_tokens(&self, tokens: TokensPerCall, now: Timestamp) -> bool {
        let tightest = self.limits(tokens, now).min_by(|one, other| one.left().total_cmp(&other.left()));
        tightest.is_some_and(|limit| limit.counted == Counted::InputTokens && limit.left() < FEW_CALLS)
    }

    /// Whether all limits are full again, so that nothing follows from the announcement any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.allowance.quotas().map(|quota| after(self.at, quota.resets_in)).all(|full_at| now >= full_at)
    }

    /// The limits that are not full again.
    fn limits(&self, tokens: TokensPerCall, now: Timestamp) -> impl Iterator<Item = Limit> {
        let Announced { allowance, at, started_since } = *self;
        let limits = [
            (allowance.requests, Some(1.0), Counted::Calls),
            (allowance.tokens, tokens.input, Counted::InputTokens),
            (allowance.output_tokens, tokens.output, Counted::OutputTokens),
        ];
        limits.into_iter().filter_map(move |(quota, per_call, counted)| {
            let (quota, per_call) = quota.zip(per_call.filter(|per_call| *per_call >= 1.0))?;
            let full_at = after(at, quota.resets_in);
            (now < full_at).then(|| Limit {
                quota,
                per_call,
                counted,
                passed: until(at, now),
                until_full: until(now, full_at),
                started_since,
            })
        })
    }
}

/// One limit, some time after it was announced.
struct Limit {
    quota: Quota,
    /// What a call takes of it.
    per_call: f64,
    counted: Counted,
    passed: Duration,
    until_full: Duration,
    started_since: u64,
}

impl Limit {
    /// Calls that there is room for now, as announced and refilled since.
    fn left(&self) -> f64 {
        let refilled = self.passed.as_secs_f64() * per_second(&self.quota).unwrap_or_default();
        (self.quota.left as f64 + refilled) / self.per_call - self.started_since as f64
    }

    fn wait(&self, part: f64) -> Option<Duration> {
        let others = (self.started_since as f64 + NEARLY_ONE) * (1.0 / part.clamp(1e-6, 1.0) - 1.0);
        let missing = (NEARLY_ONE + others - self.left()) * self.per_call;
        if missing <= 0.0 {
            return None;
        }
        let wait = match per_second(&self.quota) {
            // More than the whole limit is never free: the call is tried when it is full.
            Some(rate) => {
                Duration::try_from_secs_f64(missing / rate).unwrap_or(self.until_full).min(self.until_full)
            }
            None => self.until_full,
        };
        Some(wait.max(MIN_WAIT))
    }
}

/// How fast a limit refills; `None` where its size is not announced.
fn per_second(quota: &Quota) -> Option<f64> {
    let missing = quota.limit?.checked_sub(quota.left).filter(|missing| *missing > 0)?;
    Some(missing as f64 / quota.resets_in.as_secs_f64().max(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    fn quota(left: u64, limit: Option<u64>, seconds: u64) -> Option<Quota> {
        Some(Quota { left, limit, resets_in: Duration::from_secs(seconds) })
    }

    fn announced(requests: Option<Quota>, tokens: Option<Quota>) -> Announced {
        let allowance = Allowance { requests, tokens, ..Allowance::default() };
        Announced { allowance, at: at(0.0), started_since: 0 }
    }

    /// Calls that take this many input tokens.
    fn input(tokens: f64) -> TokensPerCall {
        TokensPerCall { input: Some(tokens), output: None }
    }

    const UNKNOWN: TokensPerCall = TokensPerCall { input: None, output: None };

    fn seconds(wait: Option<Duration>) -> f64 {
        (wait.map_or(0.0, |wait| wait.as_secs_f64()) * 10.0).round() / 10.0
    }

    #[test]
    fn a_call_may_start_when_there_is_room_for_it_and_not_when_the_limit_is_full() {
        let empty = announced(quota(0, Some(10), 10), None);
        assert_eq!(seconds(empty.wait(UNKNOWN, 1.0, at(0.0))), 1.0);
        assert_eq!(seconds(empty.wait(UNKNOWN, 1.0, at(0.4))), 0.6);
        assert_eq!(empty.wait(UNKNOWN, 1.0, at(1.0)), None);
        let one_started = Announced { started_since: 1, ..empty };
        assert_eq!(seconds(one_started.wait(UNKNOWN, 1.0, at(1.0))), 1.0);
        assert_eq!(seconds(empty.wait(UNKNOWN, 0.5, at(0.0))), 2.0, "another process takes the other half");
        let some = announced(quota(3, Some(10), 7), None);
        assert_eq!(some.wait(UNKNOWN, 1.0, at(0.0)), None);
        assert_eq!(seconds(Announced { started_since: 3, ..some }.wait(UNKNOWN, 1.0, at(0.0))), 1.0);
    }

    /// After 2.997 s, 0.999 of a call is free, except for a rounding error.
    #[test]
    fn a_wait_is_never_shorter_than_a_timer_can_be() {
        let empty = announced(quota(0, Some(2), 6), None);
        assert_eq!(empty.wait(UNKNOWN, 1.0, at(2.997)), Some(MIN_WAIT));
        assert_eq!(empty.wait(UNKNOWN, 1.0, at(2.998)), None);
    }

    #[test]
    fn the_tightest_limit_is_known() {
        let by_tokens = announced(quota(9, Some(10), 10), quota(2000, Some(10_000), 10));
        assert!(by_tokens.is_limited_by_tokens(input(1000.0), at(0.0)));
        assert!(!by_tokens.is_limited_by_tokens(input(10.0), at(0.0)));
        assert!(!by_tokens.is_limited_by_tokens(UNKNOWN, at(0.0)));
        assert!(!by_tokens.is_limited_by_tokens(input(1000.0), at(10.0)), "full again");
        assert!(!by_tokens.is_over(at(9.0)) && by_tokens.is_over(at(10.0)));
    }

    #[test]
    fn without_its_size_a_limit_is_waited_for_until_it_is_full() {
        let empty = announced(quota(0, None, 10), None);
        assert_eq!(seconds(empty.wait(UNKNOWN, 1.0, at(4.0))), 6.0);
        assert_eq!(empty.wait(UNKNOWN, 1.0, at(10.0)), None);
    }

    #[test]
    fn tokens_count_once_it_is_known_how_many_a_call_takes() {
        let few = announced(quota(9, Some(10), 1), quota(500, Some(10_500), 10));
        assert_eq!(few.wait(UNKNOWN, 1.0, at(0.0)), None);
        assert_eq!(seconds(few.wait(input(2500.0), 1.0, at(0.0))), 2.0);
        assert_eq!(few.wait(input(400.0), 1.0, at(0.0)), None);
        assert_eq!(seconds(few.wait(input(1e9), 1.0, at(0.0))), 10.0, "larger than the limit");
    }

    /// A limit of 8,000 output tokens per minute leaves four answers of 500, however many input tokens are left.
    #[test]
    fn the_tokens_of_answers_are_a_limit_of_their_own() {
        let announced = Announced {
            allowance: Allowance {
                tokens: quota(400_000, Some(500_000), 12),
                output_tokens: quota(2000, Some(8000), 45),
                ..Allowance::default()
            },
            at: at(0.0),
            started_since: 4,
        };
        let tokens = TokensPerCall { input: Some(3000.0), output: Some(500.0) };
        assert_eq!(seconds(announced.wait(tokens, 1.0, at(0.0))), 3.7);
        assert_eq!(announced.wait(TokensPerCall { output: Some(50.0), ..tokens }, 1.0, at(0.0)), None);
        assert_eq!(announced.wait(input(3000.0), 1.0, at(0.0)), None);
        assert_eq!(announced.calls_per_second(tokens, at(0.0)).unwrap().round(), 0.0);
        // A shorter request does not help there.
        assert!(!announced.is_limited_by_tokens(tokens, at(0.0)));
        assert!(!announced.is_over(at(44.0)) && announced.is_over(at(45.0)));
    }
}
