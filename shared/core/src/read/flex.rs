//! When a call uses the cheaper, slower tier of its provider.

use std::time::Duration;

use super::{outcome::CallResult, round::Round};
use crate::{ports::vision::ServiceTier, providers::target::Target, time::until};

/// A call of the flex tier is given up after this time.
pub(super) const FLEX_TIMEOUT: Duration = Duration::from_secs(300);
/// With less than this until the deadline, a page has no time for a call that may come to nothing.
const MIN_TIME_LEFT: Duration = Duration::from_secs(900);

/// Facts that decide about the tier of a call.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The job prefers a low price, and the model has the tier.
    is_wanted: bool,
    /// The model was called for this page: the cheap tier had its chance.
    was_called: bool,
    until_deadline: Duration,
    until_leaving: Duration,
}

fn tier(facts: Facts) -> ServiceTier {
    let has_time = facts.until_deadline >= MIN_TIME_LEFT && facts.until_leaving >= FLEX_TIMEOUT;
    match facts.is_wanted && !facts.was_called && has_time {
        true => ServiceTier::Flex,
        false => ServiceTier::Standard,
    }
}

impl Round<'_> {
    /// The tier of the next call to a model.
    pub(super) fn service_tier(&self, target: &Target) -> ServiceTier {
        let (task, now) = (self.task, self.now());
        let is_cheap = task.job.received.options.is_cheap();
        tier(Facts {
            is_wanted: is_cheap && task.reader.vision.has_flex(target),
            was_called: self
                .all_calls()
                .any(|call| call.target == *target && call.result != CallResult::BreakerOpen),
            until_deadline: until(now, task.deadline),
            until_leaving: until(now, task.leave_by),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheap_tier_is_used_once_and_only_with_time_to_spare() {
        let hour = Duration::from_secs(3600);
        let facts = Facts { is_wanted: true, was_called: false, until_deadline: hour, until_leaving: hour };
        assert_eq!(tier(facts), ServiceTier::Flex);
        let short = Duration::from_secs(200);
        for standard in [
            Facts { is_wanted: false, ..facts },
            Facts { was_called: true, ..facts },
            Facts { until_deadline: Duration::from_secs(800), ..facts },
            Facts { until_leaving: short, ..facts },
        ] {
            assert_eq!(tier(standard), ServiceTier::Standard, "{standard:?}");
        }
    }
}
