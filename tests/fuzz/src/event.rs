use everypage_core::{
    dead_letters::DeadLetterEvent,
    event::{self, Event, Head},
    job::{Job, JobEvent},
    read::{breaker::BreakerEvent, outcome::PageEvent},
};

/// A trail as JSON: its hashes can be recomputed, its events decoded and its job replayed, and a trail with
/// a changed event never verifies.
pub fn event(data: &[u8]) {
    let Ok(events) = serde_json::from_slice::<Vec<Event>>(data) else { return };
    for event in &events {
        let written = serde_json::to_vec(event).unwrap_or_default();
        let again = serde_json::from_slice::<Event>(&written);
        assert!(again.is_ok_and(|again| again == *event), "an event changes when it is written and read");
        assert_eq!(event.compute_hash(), event.compute_hash());
        let _ = event::decode::<JobEvent>(event);
        let _ = event::decode::<PageEvent>(event);
        let _ = event::decode::<BreakerEvent>(event);
        let _ = event::decode::<DeadLetterEvent>(event);
    }
    if let Ok(Some(job)) = Job::replay(&events) {
        let _ = (job.status(), job.is_over());
    }
    let Some(last) = events.last() else { return };
    let head = Head { sequence: last.sequence, hash: last.hash.clone(), at: None };
    if event::verify(&events, &head).is_ok() {
        let mut changed = events.clone();
        changed[0].kind.push('x');
        assert!(event::verify(&changed, &head).is_err(), "a changed trail verifies");
    }
}
