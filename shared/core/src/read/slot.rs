//! The in-flight slots of a model, in groups: which process has how many of them.
//!
//! The slots of a model are counted, not numbered. Group 0 has the first 32, group 1 the next 32, and so
//! on up to the limit, so that no record is written by every worker. A process has as many slots of a
//! group as it needs, under one lease, and gives them to its pages without another write.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{lease::Lease, time::after};

/// Slots of one group.
pub const GROUP_SIZE: u32 = 32;

/// Groups that a limit needs.
pub fn groups(limit: u32) -> u32 {
    limit.div_ceil(GROUP_SIZE)
}

/// Slots of group `group` under a limit.
fn capacity(group: u32, limit: u32) -> u32 {
    limit.saturating_sub(group * GROUP_SIZE).min(GROUP_SIZE)
}

/// The slots of one process in one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    #[serde(flatten)]
    pub lease: Lease,
    pub slots: u32,
}

/// One group of slots, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotGroup {
    pub shares: Vec<Share>,
}

impl SlotGroup {
    /// Slots that processes have now.
    pub fn in_use(&self, now: Timestamp) -> u32 {
        self.shares.iter().filter(|share| share.lease.is_valid(now)).map(|share| share.slots).sum()
    }

    fn of_others(&self, node: &str, now: Timestamp) -> u32 {
        let others =
            self.shares.iter().filter(|share| share.lease.holder != node && share.lease.is_valid(now));
        others.map(|share| share.slots).sum()
    }

    /// How many slots `node` can have in this group: as many as it wants, of those that no other has.
    pub fn available(&self, node: &str, wanted: u32, group: u32, limit: u32, now: Timestamp) -> u32 {
        wanted.min(capacity(group, limit).saturating_sub(self.of_others(node, now)))
    }

    /// How many of its `slots` slots a process may use under a limit that may have been lowered since it took
    /// them: all, or its part of what the group has now.
    pub fn usable(&self, node: &str, slots: u32, group: u32, limit: u32, now: Timestamp) -> u32 {
        let (capacity, taken) = (capacity(group, limit), slots.saturating_add(self.of_others(node, now)));
        if taken <= capacity {
            return slots;
        }
        (u64::from(slots) * u64::from(capacity) / u64::from(taken)) as u32
    }

    /// The group with `slots` slots of `node`, leased for `time`. Expired shares of others are dropped.
    pub fn with(&self, node: &str, slots: u32, now: Timestamp, time: Duration) -> SlotGroup {
        let valid = |share: &&Share| share.lease.holder != node && share.lease.is_valid(now);
        let mut shares: Vec<Share> = self.shares.iter().filter(valid).cloned().collect();
        if slots > 0 {
            shares.push(Share { lease: Lease { holder: node.to_owned(), until: after(now, time) }, slots });
        }
        SlotGroup { shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        invariants::nothing_is_held,
        keys::record,
        ports::records::{Draft, Item},
        providers::target::{Provider, Target},
    };
    use proptest::prelude::*;

    #[test]
    fn the_groups_of_a_limit_have_as_many_slots_together() {
        for limit in [1, 2, 31, 32, 33, 64, 100, 1000] {
            let total: u32 = (0..groups(limit)).map(|group| capacity(group, limit)).sum();
            assert_eq!(total, limit);
            assert_eq!(capacity(groups(limit), limit), 0);
        }
    }

    #[test]
    fn a_lowered_limit_is_shared_by_the_processes() {
        let (now, lease) = (Timestamp::UNIX_EPOCH, Duration::from_secs(60));
        let both = SlotGroup::default().with("a", 16, now, lease).with("b", 8, now, lease);
        assert_eq!(both.usable("a", 16, 0, 32, now), 16);
        assert_eq!((both.usable("a", 16, 0, 12, now), both.usable("b", 8, 0, 12, now)), (8, 4));
        assert_eq!(both.usable("a", 16, 1, 12, now), 0, "the group is beyond the limit");
    }

    #[test]
    fn a_slot_that_is_held_is_found() {
        let (now, target) = (Timestamp::UNIX_EPOCH, Target::new(Provider::OpenAi, "m"));
        let item = |group: &SlotGroup| {
            let draft = Draft::new(record::slots(&target, 0), serde_json::to_string(group).unwrap());
            Item { draft, version: 1, stamp: String::new() }
        };
        let held = SlotGroup::default().with("a", 2, now, Duration::from_secs(60));
        assert!(nothing_is_held(&[item(&held)], now).unwrap_err().contains("slots#"));
        assert_eq!(nothing_is_held(&[item(&held.with("a", 0, now, Duration::ZERO))], now), Ok(()));
    }

    proptest! {
        /// Processes take, give back and let expire in any order: together they never have more slots than
        /// the group has.
        #[test]
        fn no_more_slots_are_taken_than_there_are(
            steps in prop::collection::vec((0usize..4, 0u32..40, 0u64..30), 1..200), limit in 1u32..40
        ) {
            let nodes = ["a", "b", "c", "d"];
            let (mut group, mut now) = (SlotGroup::default(), Timestamp::UNIX_EPOCH);
            for (node, wanted, seconds) in steps {
                now = after(now, Duration::from_secs(seconds));
                let slots = group.available(nodes[node], wanted, 0, limit, now);
                group = group.with(nodes[node], slots, now, Duration::from_secs(60));
                prop_assert!(group.in_use(now) <= limit.min(GROUP_SIZE));
                for lowered in 0..limit {
                    let usable = |share: &Share| group.usable(&share.lease.holder, share.slots, 0, lowered, now);
                    let valid = group.shares.iter().filter(|share| share.lease.is_valid(now));
                    prop_assert!(valid.map(usable).sum::<u32>() <= lowered);
                }
            }
        }
    }
}
