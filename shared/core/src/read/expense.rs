//! Spending of a budget, by finished calls and by those in flight: decisions without I/O.
//!
//! A call reserves the most that it can cost and settles what it did cost. A reservation ends by itself: one
//! whose worker died counts as spent, because its call may have been paid for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::money::MicroUsd;

/// One budget, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expenses {
    pub spent: MicroUsd,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// The responsible person was notified that it is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_notified: bool,
}

/// The money that one call may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: String,
    pub amount: MicroUsd,
    pub until: Timestamp,
}

impl Expenses {
    /// Counts reservations that have ended by themselves as spent.
    pub fn expire(&mut self, now: Timestamp) {
        let expired: Vec<Reservation> =
            self.reservations.extract_if(.., |reservation| reservation.until <= now).collect();
        for reservation in expired {
            self.spent += reservation.amount;
        }
    }

    fn reserved(&self) -> MicroUsd {
        let mut total = MicroUsd::default();
        for reservation in &self.reservations {
            total += reservation.amount;
        }
        total
    }

    /// The rest that is neither spent nor reserved by a call in flight.
    pub fn left(&self, limit: MicroUsd) -> MicroUsd {
        MicroUsd(limit.0.saturating_sub(self.spent.0).saturating_sub(self.reserved().0))
    }

    pub fn reserve(&mut self, reservation: Reservation) {
        self.reservations.push(reservation);
    }

    /// Ends a reservation with what the call cost. One that has ended by itself was counted in full.
    pub fn settle(&mut self, id: &str, cost: MicroUsd) {
        if let Some(at) = self.reservations.iter().position(|reservation| reservation.id == id) {
            self.reservations.remove(at);
            self.spent += cost;
        }
    }
}

/// The price of a call that was not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// With the longest answer that it may give.
    pub most: MicroUsd,
    /// With an answer that is long enough for most pages.
    pub least: MicroUsd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call may cost this much.
    Granted(MicroUsd),
    /// Calls in flight may leave enough; the first of them ends by then at the latest.
    Busy(Timestamp),
    /// Too little is left of the budget with this index, whatever the calls in flight cost.
    UsedUp { budget: usize },
}

/// Decides about a call under several budgets, each with its limit.
pub fn decide(budgets: &[(MicroUsd, &Expenses)], wanted: Wanted) -> Verdict {
    let mut granted = wanted.most;
    let mut busy: Option<Timestamp> = None;
    for (budget, (limit, expenses)) in budgets.iter().enumerate() {
        let left = expenses.left(*limit);
        if left >= wanted.least {
            granted = granted.min(left);
            continue;
        }
        if limit.0.saturating_sub(expenses.spent.0) < wanted.least.0 {
            return Verdict::UsedUp { budget };
        }
        let first = expenses.reservations.iter().map(|reservation| reservation.until).min();
        busy = busy.max(first);
    }
    busy.map_or(Verdict::Granted(granted), Verdict::Busy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::after;

    fn at(seconds: u64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, std::time::Duration::from_secs(seconds))
    }

    fn reservation(id: &str, amount: u64, until: u64) -> Reservation {
        Reservation { id: id.into(), amount: MicroUsd(amount), until: at(until) }
    }

    const WANTED: Wanted = Wanted { most: MicroUsd(100), least: MicroUsd(20) };

    #[test]
    fn a_call_gets_what_is_left_waits_or_is_refused() {
        let expenses = |spent, reserved| Expenses {
            spent: MicroUsd(spent),
            reservations: vec![reservation("a", reserved, 9)],
            is_notified: false,
        };
        let limit = MicroUsd(200);
        assert_eq!(decide(&[], WANTED), Verdict::Granted(MicroUsd(100)));
        assert_eq!(decide(&[(limit, &expenses(50, 50))], WANTED), Verdict::Granted(MicroUsd(100)));
        assert_eq!(decide(&[(limit, &expenses(100, 60))], WANTED), Verdict::Granted(MicroUsd(40)));
        assert_eq!(decide(&[(limit, &expenses(100, 90))], WANTED), Verdict::Busy(at(9)));
        assert_eq!(decide(&[(limit, &expenses(190, 0))], WANTED), Verdict::UsedUp { budget: 0 });
        let tighter = (MicroUsd(130), &expenses(50, 50));
        let both = [(limit, &Expenses::default()), tighter];
        assert_eq!(decide(&both, WANTED), Verdict::Granted(MicroUsd(30)), "the tighter budget decides");
    }

    #[test]
    fn a_reservation_whose_worker_died_counts_as_spent_and_is_gone() {
        let mut expenses =
            Expenses { spent: MicroUsd(1), reservations: vec![reservation("a", 50, 9)], is_notified: false };
        expenses.expire(at(8));
        assert_eq!(expenses.reservations.len(), 1);
        expenses.expire(at(9));
        assert_eq!(expenses, Expenses { spent: MicroUsd(51), ..Expenses::default() });
        expenses.settle("a", MicroUsd(3));
        assert_eq!(expenses.spent, MicroUsd(51), "it was counted already");
    }

    proptest! {
        /// Whatever calls ask for, cost (at most what was granted) and leave behind: never more than the limit,
        /// and nothing stays reserved.
        #[test]
        fn a_budget_is_never_overrun_and_never_leaks(
            limit in 0u64..2000,
            steps in prop::collection::vec((0u64..400, 0u64..400, 0u64..4, 0u64..60), 0..60),
        ) {
            let limit = MicroUsd(limit);
            let mut expenses = Expenses::default();
            let mut open: Vec<(String, u64)> = Vec::new();
            let mut now = 0;
            for (number, (most, least, kind, time)) in steps.into_iter().enumerate() {
                now += time;
                expenses.expire(at(now));
                match kind {
                    // A call ends, with any cost up to what it reserved.
                    0 if !open.is_empty() => {
                        let (id, amount) = open.remove(most as usize % open.len());
                        expenses.settle(&id, MicroUsd(least.min(amount)));
                    }
                    // A worker dies.
                    1 if !open.is_empty() => {
                        open.pop();
                    }
                    _ => {
                        let wanted = Wanted { most: MicroUsd(most.max(least)), least: MicroUsd(least) };
                        if let Verdict::Granted(amount) = decide(&[(limit, &expenses)], wanted) {
                            let id = number.to_string();
                            expenses.reserve(Reservation { id: id.clone(), amount, until: at(now + 30) });
                            open.push((id, amount.0));
                        }
                    }
                }
                prop_assert!(expenses.spent.0 + expenses.reserved().0 <= limit.0, "{expenses:?}");
            }
            expenses.expire(at(now + 30));
            prop_assert!(expenses.reservations.is_empty() && expenses.spent <= limit);
        }
    }
}
