//! Leases: which worker may work on a record now.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::after;

/// A claim that expires by itself. It only avoids duplicate work: what makes claims *safe* is that
/// every later write is conditional on the record's version, which a newer claim has changed.
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

    /// A lease without a holder that has expired.
    pub fn expired() -> Self {
        Self { holder: String::new(), until: Timestamp::UNIX_EPOCH }
    }

    pub fn is_valid(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// Whether a worker may claim a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable {
    /// The worker may write its lease, on condition that the record has not changed since it was read.
    Yes,
    /// Another worker holds a valid lease.
    Busy { until: Timestamp },
    /// The work is finished.
    Done,
}

/// Decides whether a record can be claimed. Finished work never can, even if a lease is still valid;
/// an expired lease blocks no one.
pub fn claimable(done: bool, lease: Option<&Lease>, now: Timestamp) -> Claimable {
    match lease {
        _ if done => Claimable::Done,
        Some(lease) if lease.is_valid(now) => Claimable::Busy { until: lease.until },
        Some(_) | None => Claimable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stored record: a write must name its current version.
    #[derive(Clone, Default)]
    struct Record {
        version: u64,
        lease: Option<Lease>,
        done_by: Option<usize>,
    }

    proptest! {
        /// Workers read, claim, pause, resume late, renew and settle, in any order: the work is
        /// settled at most once, only by the latest claim, and never claimed again after that.
        #[test]
        fn only_the_latest_claim_settles_in_any_interleaving(
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
                    // Claim based on an earlier read, however old it is.
                    2 => if claimable(seen[worker].done_by.is_some(), seen[worker].lease.as_ref(), now) == Claimable::Yes
                        && seen[worker].version == record.version
                    {
                        prop_assert_eq!(record.done_by, None, "claimed although done");
                        prop_assert!(record.lease.as_ref().is_none_or(|lease| !lease.is_valid(now)), "two live leases");
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
