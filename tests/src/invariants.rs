//! Invariants of a job that has ended, and of the store when all work is done.

use std::collections::HashMap;

use everypage_core::{
    app::App,
    event::Event,
    events::invariants as event_invariants,
    finish::{
        format::Format, invariants as result_invariants, result::ResultDocument, results, verify::verify_job,
    },
    ids::PageNumber,
    invariants,
    job::{Job, State},
    source::Source,
};
use everypage_testkit::{memory::MemoryRecords, vision::FakeVision};
use jiff::Timestamp;

/// The result has every page exactly once, in order, under its own number, with text.
pub async fn result_is_whole(app: &App, job: &Job, pages: u32) {
    let document =
        results::read_document(app.blobs.as_ref(), job, None).await.expect("readable").expect("published");
    assert_eq!(result_invariants::whole(&document), Ok(()));
    assert_eq!(document.metadata.total_pages, pages);
    for page in &document.pages {
        if page.source == Source::AI {
            assert!(
                page.text.contains(&format!("page {} read by", page.page)),
                "page {} has the text of another page",
                page.page
            );
        }
    }
    for (version, format) in
        (1..=document.version).flat_map(|v| Format::derived().map(move |(format, _)| (v, format)))
    {
        let bytes = results::read(app.blobs.as_ref(), job, format, Some(version)).await.expect("readable");
        assert!(bytes.is_some_and(|bytes| !bytes.is_empty()), "version {version} has no {format:?}");
    }
}

/// Replaying the events gives the stored state, and every hash is correct.
pub async fn trail_verifies(app: &App, job: &Job) {
    let report = verify_job(&app.store, app.blobs.as_ref(), &job.id).await.expect("readable");
    assert_eq!(report.findings, Vec::<String>::new());
}

/// No valid lease, slot or password is left.
pub fn nothing_is_held(records: &MemoryRecords, now: Timestamp) {
    assert_eq!(invariants::nothing_is_held(&records.dump(), now), Ok(()));
}

/// No page was paid for again once its text was stored: at most one good answer per page, apart from
/// `lost` answers whose worker was killed before it stored them.
pub fn paid_once(vision: &FakeVision, lost: usize) {
    let mut answers: HashMap<u32, usize> = HashMap::new();
    for (_, page) in vision.calls() {
        *answers.entry(page).or_default() += 1;
    }
    let extra: usize = answers.values().map(|count| count - 1).sum();
    assert!(extra <= lost, "{extra} calls too many: {answers:?}");
}

/// No page was answered again once its text was known, apart from `lost` answers whose worker was killed
/// before it stored them.
pub fn answered_once(vision: &FakeVision, lost: usize) {
    let mut answers: HashMap<u32, usize> = HashMap::new();
    for (_, page) in vision.answers() {
        *answers.entry(page).or_default() += 1;
    }
    let extra: usize = answers.values().map(|count| count - 1).sum();
    assert!(extra <= lost, "{extra} answers too many: {answers:?}");
}

/// Every page that was sent to a model has a model's text, and every answer is in the result with its cost, apart
/// from `lost` ones.
pub fn read_and_recorded(document: &ResultDocument, vision: &FakeVision, sent: u32, lost: usize) {
    let from: Vec<Source> = document.pages.iter().map(|page| page.source).collect();
    assert_eq!(from.iter().filter(|source| **source == Source::AI).count(), sent as usize, "{from:?}");
    let calls = document.pages.iter().flat_map(|page| &page.calls);
    let recorded = calls.filter(|call| call.cost_micro_usd.0 > 0 && !call.is_estimated).count();
    let answers = vision.answers().len();
    assert!(
        recorded <= answers && recorded + lost >= answers,
        "{recorded} of {answers} answers are recorded"
    );
}

/// Events were published in order per aggregate, each at least once.
pub fn published_in_order(published: &[Event], trail: &[Event]) {
    assert_eq!(event_invariants::published_in_order(published, trail), Ok(()));
}

pub fn succeeded(job: &Job) {
    assert_eq!(job.state, State::Audited, "{:?}", job.failure);
}

pub fn page(number: u32) -> PageNumber {
    PageNumber::new(number).expect("pages count from 1")
}
