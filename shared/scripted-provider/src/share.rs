//! A share of calls, written `3%`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{GrammarError, random::Stream};

/// In hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Share(u16);

const ALL: u16 = 10_000;

impl Share {
    /// Rounds to hundredths of a percent; above 100 % is all.
    pub fn percent(percent: f64) -> Self {
        Self((percent * 100.0).round().clamp(0.0, f64::from(ALL)) as u16)
    }

    /// Does this call, counted from 0 at its rule, belong to the share? Spread at random, the same
    /// in every run.
    pub(super) fn contains(self, rule: usize, call: u64) -> bool {
        Stream::Share { rule: rule as u64 }.uniform(call) * f64::from(ALL) < f64::from(self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 100.0)
    }
}

impl FromStr for Share {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent
            .map(Self::percent)
            .ok_or_else(|| GrammarError::new(text, "is not a share, such as 3% or 0.5%"))
    }
}

impl TryFrom<String> for Share {
    type Error = GrammarError;

    fn try_from(text: String) -> Result<Self, GrammarError> {
        text.parse()
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        share.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_many_calls_is_that_share_without_a_pattern() {
        for percent in [3.0, 10.0, 50.0] {
            let share = Share::percent(percent);
            let taken: Vec<u64> = (0..10_000).filter(|call| share.contains(0, *call)).collect();
            let expected = percent * 100.0;
            assert!((taken.len() as f64 - expected).abs() < 0.15 * expected, "{percent}%: {}", taken.len());
            let gaps: std::collections::BTreeSet<u64> =
                taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps.len() > 4, "{percent}%: the same gaps each time");
        }
    }

    #[test]
    fn the_ends_are_none_and_all() {
        assert!((0..1000).all(|call| !Share::percent(0.0).contains(0, call)));
        assert!((0..1000).all(|call| Share::percent(100.0).contains(0, call)));
    }

    /// A benchmark with 40 pages should see the weather that its script has.
    #[test]
    fn the_first_forty_calls_have_their_part() {
        for rule in 0..6 {
            let share = Share::percent(3.0);
            assert!((0..40).any(|call| share.contains(rule, call)), "rule {rule}");
        }
    }
}
