//! One document from submission to result, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod breakers;
mod budget;
mod countdown;
mod dead_letters;
mod deadline;
mod deletion;
mod delivery;
mod end_now;
mod failover;
mod flex;
mod healing;
mod hedging;
mod jobs;
mod ocr;
mod pacing;
mod quotas;
mod retention;
mod upgrade;
mod verification;

use everypage_core::{finish::result::ResultDocument, source::Source};

/// The source of each page's text.
fn sources(document: &ResultDocument) -> Vec<Source> {
    document.pages.iter().map(|page| page.source).collect()
}
