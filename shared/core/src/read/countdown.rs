//! The countdown of a job: which pages of a range are not settled, and which ranges have such pages.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{ids::PageNumber, job::Job};

/// The run of a job that a countdown belongs to. A modified plan and a redriven job count down again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub redrives: u32,
    pub plan: u32,
}

impl Run {
    /// The current run of a job; `None` if it has no plan.
    pub fn of(job: &Job) -> Option<Self> {
        let plan = job.plan.as_ref()?.version;
        Some(Self { redrives: job.redrives, plan })
    }
}

/// What is left: of a range its pages, of a job its ranges, each named by its first page. A set and not a
/// number, so that what is removed twice counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Countdown {
    pub run: Run,
    pub left: BTreeSet<PageNumber>,
}

impl Countdown {
    pub fn new(run: Run, left: BTreeSet<PageNumber>) -> Self {
        Self { run, left }
    }

    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The countdown without `settled`; `None` if none of them is left.
    pub fn without(&self, settled: &BTreeSet<PageNumber>) -> Option<Self> {
        if self.left.is_disjoint(settled) {
            return None;
        }
        Some(Self { run: self.run, left: &self.left - settled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(numbers: &[u32]) -> BTreeSet<PageNumber> {
        numbers.iter().filter_map(|number| PageNumber::new(*number)).collect()
    }

    #[test]
    fn a_page_that_is_settled_twice_counts_once() {
        let countdown = Countdown::new(Run { redrives: 0, plan: 1 }, pages(&[1, 2]));
        let one_left = countdown.without(&pages(&[1])).unwrap();
        assert_eq!((one_left.without(&pages(&[1])), one_left.is_over()), (None, false));
        assert!(one_left.without(&pages(&[1, 2])).unwrap().is_over());
    }
}
