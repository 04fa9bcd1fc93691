//! How many calls per second a model answers while it refuses others: what its rate limit lets through.

use std::{collections::VecDeque, time::Duration};

use jiff::Timestamp;

use crate::time::{after, until};

/// Answers of this time count.
const WINDOW: Duration = Duration::from_secs(15);
/// A shorter time says little.
const MIN_OBSERVED: Duration = Duration::from_secs(3);
/// A refusal that is older says nothing about now.
pub(super) const LIMITED_FOR: Duration = Duration::from_secs(30);
const MAX_ANSWERS: usize = 1024;

/// The latest answers and refusals of one model, as one process has seen them.
#[derive(Default)]
pub struct Throughput {
    answers: VecDeque<Timestamp>,
    first_refused_at: Option<Timestamp>,
    refused_at: Option<Timestamp>,
}

impl Throughput {
    pub fn answered(&mut self, now: Timestamp) {
        self.answers.push_back(now);
        let is_old = |at: &Timestamp| now >= after(*at, WINDOW);
        while self.answers.len() > MAX_ANSWERS || self.answers.front().is_some_and(is_old) {
            self.answers.pop_front();
        }
    }

    pub fn refused(&mut self, now: Timestamp) {
        if !self.is_limited(now) {
            self.first_refused_at = Some(now);
        }
        self.refused_at = Some(now);
    }

    /// Whether calls were refused lately.
    pub fn is_limited(&self, now: Timestamp) -> bool {
        self.refused_at.is_some_and(|at| now < after(at, LIMITED_FOR))
    }

    /// Answers per second since calls have been refused; `None` when none was refused lately.
    pub fn while_limited(&self, now: Timestamp) -> Option<f64> {
        let since = self.first_refused_at.filter(|_| self.is_limited(now))?;
        let observed = until(since, now);
        if observed < MIN_OBSERVED {
            return None;
        }
        let observed = observed.min(WINDOW);
        let answers = self.answers.iter().filter(|at| until(**at, now) < observed).count();
        // Half an answer more: none in a short time does not mean none ever.
        Some((answers as f64 + 0.5) / observed.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    #[test]
    fn what_a_limit_lets_through_is_counted_from_the_first_refusal() {
        let mut throughput = Throughput::default();
        for _ in 0..10 {
            throughput.answered(at(0.0));
        }
        assert_eq!(throughput.while_limited(at(1.0)), None, "nothing was refused");
        throughput.refused(at(1.0));
        for second in 2..=40 {
            throughput.answered(at(f64::from(second)));
            throughput.refused(at(f64::from(second) + 0.1));
        }
        let rate = throughput.while_limited(at(40.2)).unwrap();
        assert!((0.9..1.2).contains(&rate), "{rate}");
        assert_eq!(throughput.while_limited(at(80.0)), None, "a refusal of long ago");
    }
}
