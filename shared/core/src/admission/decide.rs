//! Who is admitted next, as pure functions: by priority, fairly between tenants, and in time for a deadline that
//! the caller gave.
//!
//! **Between tenants** of one level, turns are taken by *place*. The line of a level has reached some place; a
//! tenant's document gets the place behind that, or behind the tenant's own last one. So the documents of a tenant
//! that hands in thousands stand one behind the other, and those of another tenant stand next to them.
//!
//! **Between levels**, the highest goes first, and every [`FAIR_TURN`]th document is of a lower one, of each in turn.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{JobId, Priority},
    job::Job,
    time::until,
};

/// One of so many admissions is of a lower level: lower levels never starve.
pub const FAIR_TURN: u64 = 5;
/// A document whose caller gave a deadline is admitted when this share of its time is left, and no later than
/// [`SHORTEST_WORK`] before its deadline.
const SHARE_FOR_WORK: u32 = 4;
const SHORTEST_WORK: Duration = Duration::from_secs(90);

/// A document in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub job: JobId,
    pub level: Priority,
    pub place: u64,
    pub received_at: Timestamp,
}

impl Waiting {
    /// `None` for a job that does not wait.
    pub fn of(job: &Job) -> Option<Self> {
        let place = job.place?;
        Some(Self { job: job.id.clone(), level: job.priority(), place, received_at: job.received_at })
    }

    fn order(&self) -> impl Ord + '_ {
        (self.place, self.received_at, &self.job)
    }
}

/// How far the line has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Documents admitted so far.
    pub admitted: u64,
    /// The place that each level has reached.
    pub reached: BTreeMap<u8, u64>,
    /// The level that was last admitted before a higher one.
    pub lower: u8,
}

impl Turn {
    /// The place of a tenant's next document, whose last one got `last`.
    pub fn next_place(&self, level: Priority, last: Option<u64>) -> u64 {
        let reached = self.reached.get(&level.level()).copied().unwrap_or(0);
        reached.max(last.unwrap_or(0)) + 1
    }

    /// Which document is admitted next; `None` if none waits.
    pub fn next<'a>(&self, waiting: &'a [Waiting]) -> Option<&'a Waiting> {
        let highest = waiting.iter().map(|one| one.level).max()?;
        let level = if self.is_fair() { self.lower_than(highest, waiting) } else { highest };
        waiting.iter().filter(|one| one.level == level).min_by(|a, b| a.order().cmp(&b.order()))
    }

    fn is_fair(&self) -> bool {
        (self.admitted + 1).is_multiple_of(FAIR_TURN)
    }

    /// The level below the one that had the last such turn, or the highest of the lower ones again.
    fn lower_than(&self, highest: Priority, waiting: &[Waiting]) -> Priority {
        let lower = || waiting.iter().map(|one| one.level).filter(|level| *level < highest);
        let next = lower().filter(|level| level.level() < self.lower).max();
        next.or_else(|| lower().max()).unwrap_or(highest)
    }

    /// The turn after `admitted`, one of `waiting`, was admitted.
    pub fn after(&self, admitted: &Waiting, waiting: &[Waiting]) -> Self {
        let mut next = self.clone();
        next.admitted += 1;
        let reached = next.reached.entry(admitted.level.level()).or_default();
        *reached = (*reached).max(admitted.place);
        if waiting.iter().any(|one| one.level > admitted.level) {
            next.lower = admitted.level.level();
        }
        next
    }
}

/// When a job is admitted whatever the room; `None` if its time runs from admission.
pub fn due_at(job: &Job) -> Option<Timestamp> {
    if !job.has_given_deadline() {
        return None;
    }
    let time = until(job.received_at, job.deadline);
    let work = (time / SHARE_FOR_WORK).max(SHORTEST_WORK);
    Some(job.deadline.checked_sub(work).unwrap_or(job.received_at))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A line with the documents of several tenants, as it is kept in the records.
    #[derive(Default)]
    struct Line {
        turn: Turn,
        last: BTreeMap<(Priority, u8), u64>,
        waiting: Vec<Waiting>,
        handed_in: u32,
    }

    impl Line {
        fn hand_in(&mut self, level: Priority, tenant: u8) -> JobId {
            let last = self.last.get(&(level, tenant)).copied();
            let place = self.turn.next_place(level, last);
            self.last.insert((level, tenant), place);
            self.handed_in += 1;
            let job = JobId::new(format!("{tenant}-{:05}", self.handed_in));
            let received_at = Timestamp::UNIX_EPOCH + Duration::from_secs(u64::from(self.handed_in));
            self.waiting.push(Waiting { job: job.clone(), level, place, received_at });
            job
        }

        fn admit(&mut self) -> Option<Waiting> {
            let next = self.turn.next(&self.waiting)?.clone();
            self.turn = self.turn.after(&next, &self.waiting);
            self.waiting.retain(|one| one.job != next.job);
            Some(next)
        }
    }

    fn tenant(one: &Waiting) -> &str {
        one.job.as_str().split('-').next().unwrap_or_default()
    }

    #[test]
    fn a_tenant_with_one_document_does_not_wait_for_the_thousand_of_another() {
        let mut line = Line::default();
        for _ in 0..1000 {
            line.hand_in(Priority::Normal, 1);
        }
        for _ in 0..10 {
            line.admit();
        }
        let late = line.hand_in(Priority::Normal, 2);
        let next: Vec<JobId> = (0..2).filter_map(|_| line.admit()).map(|one| one.job).collect();
        assert!(next.contains(&late), "{next:?}");
    }

    #[test]
    fn every_fifth_document_is_of_a_lower_level_of_each_in_turn() {
        let mut line = Line::default();
        for level in [Priority::Urgent, Priority::Normal, Priority::Low] {
            (0..20).for_each(|_| drop(line.hand_in(level, 1)));
        }
        let levels: Vec<u8> = (0..20).filter_map(|_| line.admit()).map(|one| one.level.level()).collect();
        assert_eq!(levels, [5, 5, 5, 5, 2, 5, 5, 5, 5, 1, 5, 5, 5, 5, 2, 5, 5, 5, 5, 1]);
    }

    #[test]
    fn after_an_idle_time_no_tenant_is_owed_a_turn() {
        let mut line = Line::default();
        // Tenant 1 was alone for long.
        for _ in 0..100 {
            line.hand_in(Priority::Normal, 1);
            line.admit();
        }
        for _ in 0..4 {
            line.hand_in(Priority::Normal, 1);
            line.hand_in(Priority::Normal, 2);
        }
        let order: String = (0..8).filter_map(|_| line.admit()).map(|one| tenant(&one).to_owned()).collect();
        assert_eq!(order, "12121212");
    }

    proptest! {
        /// Each document in line, of whatever level, is admitted after a bounded number of others, whatever else is
        /// handed in meanwhile.
        #[test]
        fn no_document_starves(
            first in prop::collection::vec((0usize..5, 0u8..4), 1..40),
            later in prop::collection::vec((0usize..5, 0u8..4), 400),
        ) {
            let mut line = Line::default();
            for (level, tenant) in &first {
                line.hand_in(Priority::ALL[*level], *tenant);
            }
            let mut old: BTreeSet<JobId> = line.waiting.iter().map(|one| one.job.clone()).collect();
            // Each level gets a turn of at least 1 in 20; at most the others of its level are before it, and
            // one of each other tenant for each of those.
            for (level, tenant) in later.iter().cycle().take(20 * 40 * 4) {
                line.hand_in(Priority::ALL[*level], *tenant);
                let admitted = line.admit();
                old.remove(&admitted.unwrap().job);
            }
            prop_assert!(old.is_empty(), "left after many turns: {old:?}");
        }

        /// While two tenants have documents of one level in line, neither gets more than one turn more.
        #[test]
        fn tenants_take_turns(early in 0usize..50, both in prop::collection::vec(any::<bool>(), 1..60)) {
            let mut line = Line::default();
            (0..early).for_each(|_| drop(line.hand_in(Priority::Normal, 1)));
            (0..early / 2).for_each(|_| drop(line.admit()));
            for second in &both {
                line.hand_in(Priority::Normal, if *second { 2 } else { 1 });
            }
            let (mut ones, mut twos) = (0i32, 0i32);
            let has = |line: &Line, name: &str| line.waiting.iter().any(|one| tenant(one) == name);
            while has(&line, "1") && has(&line, "2") {
                let next = line.admit().unwrap();
                if tenant(&next) == "1" { ones += 1 } else { twos += 1 }
                prop_assert!((ones - twos).abs() <= 1, "{ones} and {twos}");
            }
        }
    }
}
