#![allow(clippy::unwrap_used)]
use everypage_core::{dead_letters::DeadLetter, event, event::{Event, Head}, job::Job, job::Plan, finish::result::ResultDocument, read::pages::Page};
fn load(f: &str) -> Vec<u8> { std::fs::read(format!("{}/../../fuzz/corpus/{f}", env!("CARGO_MANIFEST_DIR"))).unwrap() }
#[test]
fn parses() {
    serde_json::from_slice::<Job>(&load("record/job.json")).unwrap();
    serde_json::from_slice::<Plan>(&load("record/plan.json")).unwrap();
    serde_json::from_slice::<Page>(&load("record/page.json")).unwrap();
    serde_json::from_slice::<ResultDocument>(&load("record/result.json")).unwrap();
    serde_json::from_slice::<DeadLetter>(&load("record/dead-letter.json")).unwrap();
    for f in ["event/first.json", "event/trail.json"] {
        let events: Vec<Event> = serde_json::from_slice(&load(f)).unwrap();
        let last = events.last().unwrap();
        let head = Head { sequence: last.sequence, hash: last.hash.clone(), at: None };
        event::verify(&events, &head).unwrap();
        assert!(Job::replay(&events).unwrap().is_some());
    }
}
