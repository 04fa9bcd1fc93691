//! Checks of what must hold at any time: debug builds assert them on every write, tests and the
//! simulation apply them to the whole store. Each check returns a description of the violation. The
//! checks of a room are in its `invariants.rs`.

use jiff::Timestamp;

use crate::{keys::record, lease::Lease, ports::records::Item};

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

/// The store holds no valid lease, slot, seat or password; for checks after all work has ended.
pub fn nothing_is_held<'a>(items: impl IntoIterator<Item = &'a Item>, now: Timestamp) -> Checked {
    for Item { draft, .. } in items {
        let at = || format!("{}/{}", draft.key.partition, draft.key.sort);
        check(draft.key.sort != record::PASSWORD, || format!("a password was not deleted: {}", at()))?;
        let has_seat = draft.key.partition == record::SEATS && !draft.body.contains(r#""jobs":[]"#);
        check(!has_seat, || format!("a seat was not given back: {}", draft.body))?;
        let body = || serde_json::from_str::<serde_json::Value>(&draft.body).unwrap_or_default();
        let leases: Vec<Lease> = match &draft.key {
            key if key.partition.starts_with(record::SLOTS) => {
                let shares = serde_json::from_value(body()["shares"].take());
                shares.map_err(|error| format!("{} is no group of slots: {error}", at()))?
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
