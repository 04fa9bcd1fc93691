//! Who may work on something just now.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::after;

/// A claim that ends by itself. It only spares double work: what makes it *safe* is that every
/// later write is conditional on the record's version, which a newer claim has changed.
///
/// ```text
///  claim          renew           worker killed        until            successor claims
///    |--------------|------------------x - - - - - - - - -|---------------------|---->
///    version 1      version 2                                                  version 3
///                                      a write with version 2 is refused from here on
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub holder: String,
    pub until: Timestamp,
}

impl Lease {
    pub fn new(holder: impl Into<String>, now: Timestamp, time: Duration) -> Self {
        Self { holder: holder.into(), until: after(now, time) }
    }

    /// Nobody's.
    pub fn over() -> Self {
        Self { holder: String::new(), until: Timestamp::UNIX_EPOCH }
    }

    pub fn alive(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// What somebody who wants to work on something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable {
    /// Write your lease, on condition that nobody wrote since you looked.
    Yes,
    /// Somebody is at it.
    Busy { until: Timestamp },
    /// There is nothing left to do.
    Done,
}

/// Done is done, whoever still holds a lease; a lease that has run out binds nobody.
pub fn claimable(done: bool, lease: Option<&Lease>, now: Timestamp) -> Claimable {
    match lease {
        _ if done => Claimable::Done,
        Some(lease) if lease.alive(now) => Claimable::Busy { until: lease.until },
        Some(_) | None => Claimable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record as a store keeps it: written only by who knows its version.
    #[derive(Clone, Default)]
    struct Record {
        version: u64,
        lease: Option<Lease>,
        done_by: Option<usize>,
    }

    proptest! {
        /// Workers look, claim, fall asleep, wake up late, renew and settle, in any order: the work
        /// is settled at most once, only by the latest claim, and never claimed again after that.
        #[test]
        fn whatever_workers_do_only_the_latest_claim_settles(
            steps in prop::collection::vec((0usize..4, 0u8..5, 0u64..50), 1..300)
        ) {
            let mut record = Record::default();
            let mut seen: [Record; 4] = Default::default();
            let mut claims: [Option<u64>; 4] = [None; 4];
            let mut latest_claim = None;
            let mut now = Timestamp::UNIX_EPOCH;
            for (worker, action, time) in steps {
                match action {
                    0 => now = after(now, Duration::from_secs(time)),
                    1 => seen[worker] = record.clone(),
                    // Claim by what was seen, however long ago that was.
                    2 => if claimable(seen[worker].done_by.is_some(), seen[worker].lease.as_ref(), now) == Claimable::Yes
                        && seen[worker].version == record.version
                    {
                        prop_assert_eq!(record.done_by, None, "claimed although done");
                        prop_assert!(record.lease.as_ref().is_none_or(|lease| !lease.alive(now)), "two live leases");
                        record.version += 1;
                        record.lease = Some(Lease::new(worker.to_string(), now, Duration::from_secs(30)));
                        claims[worker] = Some(record.version);
                        latest_claim = Some(worker);
                    },
                    3 => if claims[worker] == Some(record.version) {
                        record.version += 1;
                        record.lease = Some(Lease::new(worker.to_string(), now, Duration::from_secs(30)));
                        claims[worker] = Some(record.version);
                    },
                    _ => if claims[worker] == Some(record.version) {
                        prop_assert_eq!(record.done_by, None, "settled twice");
                        prop_assert_eq!(latest_claim, Some(worker), "a stale holder settled");
                        record.version += 1;
                        record.done_by = Some(worker);
                        record.lease = None;
                    },
                }
            }
        }
    }
}
