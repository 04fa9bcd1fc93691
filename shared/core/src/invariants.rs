//! Checks of what must hold at any time: debug builds assert them on every write, tests and the
//! simulation apply them to the whole store. Each check returns a description of the violation. The
//! checks of a room are in its `invariants.rs`.

use jiff::Timestamp;

use crate::{keys::record, lease::Lease, ports::records::Item, read::slot::Group};

pub type Checked = Result<(), String>;

pub fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Panics in debug builds if the check fails, so that a violation is found where it happens.
pub(crate) fn assert(checked: impl FnOnce() -> Checked) {
    if cfg!(debug_assertions)
        && let Err(broken) = checked()
    {
        panic!("{broken}");
    }
}

/// The store holds no valid lease, slot or password; for checks after all work has ended.
pub fn nothing_is_held<'a>(items: impl IntoIterator<Item = &'a Item>, now: Timestamp) -> Checked {
    for Item { draft, .. } in items {
        let at = || format!("{}/{}", draft.key.partition, draft.key.sort);
        check(draft.key.sort != record::PASSWORD, || format!("a password was not deleted: {}", at()))?;
        let body = || serde_json::from_str::<serde_json::Value>(&draft.body).unwrap_or_default();
        let leases = match &draft.key {
            key if key.partition.starts_with(record::SLOTS) => {
                let group: Group = serde_json::from_str(&draft.body)
                    .map_err(|error| format!("{} is no group of slots: {error}", at()))?;
                group.shares.into_iter().map(|share| share.lease).collect()
            }
            key if key.sort.starts_with(record::PAGES) => lease(body()["lease"].take()),
            key if key.sort == record::HEALING => lease(body()["publisher"].take()),
            _ => continue,
        };
        for lease in leases {
            check(!lease.is_valid(now), || {
                format!("still leased although no work is running: {} by {}", at(), lease.holder)
            })?;
        }
    }
    Ok(())
}

fn lease(body: serde_json::Value) -> Vec<Lease> {
    serde_json::from_value(body).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        ports::records::Draft,
        providers::target::{Provider, Target},
    };

    #[test]
    fn a_slot_that_is_held_is_found() {
        let (now, target) = (Timestamp::UNIX_EPOCH, Target::new(Provider::OpenAi, "m"));
        let item = |group: &Group| {
            let draft = Draft::new(record::slots(&target, 0), serde_json::to_string(group).unwrap());
            Item { draft, version: 1, stamp: String::new() }
        };
        let held = Group::default().with("a", 2, now, Duration::from_secs(60));
        assert!(nothing_is_held(&[item(&held)], now).unwrap_err().contains("slots#"));
        assert_eq!(nothing_is_held(&[item(&held.with("a", 0, now, Duration::ZERO))], now), Ok(()));
    }
}
