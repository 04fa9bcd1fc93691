//! The in-flight limit of a model, across all workers.
//!
//! Each slot is a record of its own with a lease, so that workers rarely compete for the same
//! record and a dead worker's slot comes back by itself.

use jiff::Timestamp;

use crate::lease::Lease;

/// A slot that can be taken now, or `None` when all are held. The search starts at `roll`, so that
/// workers do not all compete for the first one.
pub fn free_slot(slots: &[Option<Lease>], now: Timestamp, roll: u64) -> Option<usize> {
    let count = slots.len();
    (0..count)
        .map(|step| ((roll % count as u64) as usize + step) % count)
        .find(|index| slots[*index].as_ref().is_none_or(|lease| !lease.is_valid(now)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slot_is_found_exactly_when_one_is_free(held in prop::collection::vec(0u64..20, 0..30), roll: u64) {
            let epoch = Timestamp::UNIX_EPOCH;
            let now = epoch + Duration::from_secs(10);
            let slots: Vec<Option<Lease>> = held
                .iter()
                .map(|until| (*until > 0).then(|| Lease::new("w", epoch, Duration::from_secs(*until))))
                .collect();
            match free_slot(&slots, now, roll) {
                Some(index) => prop_assert!(slots[index].as_ref().is_none_or(|lease| !lease.is_valid(now))),
                None => prop_assert!(slots.iter().all(|slot| slot.as_ref().is_some_and(|lease| lease.is_valid(now)))),
            }
        }
    }
}
