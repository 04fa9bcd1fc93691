//! Who may work on something just now.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ports::clock::after;

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

    pub fn alive(&self, now: Timestamp) -> bool {
        now < self.until
    }
}
