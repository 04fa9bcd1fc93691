//! The invariant of the result versions that a job publishes.

use super::ResultRef;
use crate::invariants::{Checked, check};

/// Each published version is one more than the version before it; no version is withdrawn.
pub fn versions_count_up(before: Option<&ResultRef>, next: Option<&ResultRef>) -> Checked {
    let number = |result: Option<&ResultRef>| result.map_or(0, |result| result.version);
    let (was, is) = (number(before), number(next));
    let same = before == next;
    check(same || is == was + 1, || format!("result version {was} was replaced by version {is}"))
}
