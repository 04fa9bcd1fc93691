//! Invariants of published events.

use std::collections::HashMap;

use crate::{
    event::Event,
    invariants::{Checked, check},
};

/// Every stored event was published at least once, in order per aggregate and without gaps.
pub fn published_in_order(published: &[Event], stored: &[Event]) -> Checked {
    let mut reached: HashMap<String, u64> = HashMap::new();
    for event in published {
        let last = reached.entry(event.aggregate.to_string()).or_default();
        check(event.sequence <= *last + 1, || {
            format!("{}: event {last} was published, then event {}", event.aggregate, event.sequence)
        })?;
        *last = event.sequence.max(*last);
    }
    for event in stored {
        let last = reached.get(&event.aggregate.to_string()).copied().unwrap_or(0);
        check(last >= event.sequence, || {
            format!("{}: event {} was never published", event.aggregate, event.sequence)
        })?;
    }
    Ok(())
}
