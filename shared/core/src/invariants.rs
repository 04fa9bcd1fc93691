//! What must hold whatever happens, as plain functions: debug builds assert it of every write,
//! tests and the simulation ask it of the whole. Each answers with what is wrong, in words.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use crate::{
    document::Reason,
    events::event::Event,
    finish::result::ResultDocument,
    job::ResultRef,
    keys::record,
    lease::Lease,
    ports::records::Item,
    read::{
        breaker::{Breaker, State},
        outcome::Outcome,
    },
    time::after,
};

type Checked = Result<(), String>;

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Every page exactly once, in order, under its true number, with text or with why there is none.
pub fn whole(document: &ResultDocument) -> Checked {
    let numbers = document.pages.iter().map(|page| page.page.get());
    let total = document.metadata.total_pages;
    check(numbers.clone().is_sorted_by(|a, b| a < b) && document.pages.len() == total as usize, || {
        format!("a result of {total} pages has {:?}", numbers.collect::<Vec<_>>())
    })?;
    for page in &document.pages {
        let blank = page.reason == Reason::Blank;
        check(blank || !page.text.is_empty(), || format!("page {} has no text", page.page))?;
        let explained = !page.source.is_fallback() || page.why.is_some();
        check(explained, || format!("page {} fell back and nobody knows why", page.page))?;
    }
    Ok(())
}

/// A published version is followed by the next one, and never taken back.
pub fn versions_count_up(before: Option<&ResultRef>, next: Option<&ResultRef>) -> Checked {
    let number = |result: Option<&ResultRef>| result.map_or(0, |result| result.version);
    let (was, is) = (number(before), number(next));
    let same = before == next;
    check(same || is == was + 1, || format!("result version {was} was replaced by version {is}"))
}

/// What an AI has read is not read again, and never lost.
pub fn read_once(before: Option<&Outcome>, next: &Outcome) -> Checked {
    let lost = before.is_some_and(|before| before.is_ai() && before != next);
    check(!lost, || "a page that an AI had read was settled again".into())
}

/// A probe that may still be on its way is not joined by another. Clocks may disagree by `spread`.
pub fn one_probe(before: &Breaker, next: &Breaker, now: Timestamp, spread: Duration) -> Checked {
    match (&before.state, &next.state) {
        (State::HalfOpen { probe: Some(first), .. }, State::HalfOpen { probe: Some(second), .. }) => {
            check(first.holder == second.holder || !first.alive(after(now, spread)), || {
                format!("{} probes while {} does", second.holder, first.holder)
            })
        }
        _ => Ok(()),
    }
}

/// Failures that were in flight together count once: each that counts starts a new generation.
pub fn counted_once(before: &Breaker, next: &Breaker) -> Checked {
    check(next.failures <= before.failures || next.generation > before.generation, || {
        format!("failure {} was counted in generation {} again", next.failures, next.generation)
    })
}

/// No more calls to one model at once than there may be.
pub fn fits(in_flight: usize, cap: usize) -> Checked {
    check(in_flight <= cap, || format!("{in_flight} calls in flight where {cap} may be"))
}

/// Published in order per aggregate, none missing, each at least once.
pub fn published_in_order(published: &[Event], stored: &[Event]) -> Checked {
    let mut reached: HashMap<String, u64> = HashMap::new();
    for event in published {
        let last = reached.entry(event.aggregate.to_string()).or_default();
        check(event.sequence <= *last + 1, || {
            format!("{} jumped from event {last} to {}", event.aggregate, event.sequence)
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

/// No live lease, slot or password is left behind in the store.
pub fn nothing_is_held<'a>(items: impl IntoIterator<Item = &'a Item>, now: Timestamp) -> Checked {
    for Item { draft, .. } in items {
        let at = || format!("{}/{}", draft.key.partition, draft.key.sort);
        check(draft.key.sort != record::PASSWORD, || format!("a password is left: {}", at()))?;
        let body = || serde_json::from_str::<serde_json::Value>(&draft.body).unwrap_or_default();
        let lease = match &draft.key {
            key if key.partition.starts_with(record::SLOTS) => body(),
            key if key.sort.starts_with(record::PAGES) => body()["lease"].take(),
            key if key.sort == record::HEALING => body()["publisher"].take(),
            _ => continue,
        };
        let alive = serde_json::from_value(lease).is_ok_and(|lease: Lease| lease.alive(now));
        check(!alive, || format!("held at rest: {}", at()))?;
    }
    Ok(())
}

/// For debug builds: a promise that is broken here is found here.
pub(crate) fn assert(checked: impl FnOnce() -> Checked) {
    if cfg!(debug_assertions)
        && let Err(broken) = checked()
    {
        panic!("{broken}");
    }
}
