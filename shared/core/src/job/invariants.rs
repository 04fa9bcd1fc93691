//! What must hold for every version of a result that a job publishes.

use super::ResultRef;
use crate::invariants::{Checked, check};

/// A published version is followed by the next one, and never taken back.
pub fn versions_count_up(before: Option<&ResultRef>, next: Option<&ResultRef>) -> Checked {
    let number = |result: Option<&ResultRef>| result.map_or(0, |result| result.version);
    let (was, is) = (number(before), number(next));
    let same = before == next;
    check(same || is == was + 1, || format!("result version {was} was replaced by version {is}"))
}
