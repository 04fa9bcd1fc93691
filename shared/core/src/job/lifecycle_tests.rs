use super::*;
use crate::{
    document::ImageStyle,
    event::Actor,
    ids::TenantId,
    job::{DocumentInfo, JobOptions, PageSelection, RequestSource, ResultMetadata},
    money::MicroUsd,
    providers::target::{Provider, Tier},
    settings::AiPages,
};
use proptest::prelude::*;
use std::time::Duration;

fn received() -> JobEvent {
    JobEvent::Received(Received {
        tenant: TenantId::new("local"),
        user: None,
        source: RequestSource::Cli,
        document: DocumentInfo { name: "a.pdf".into(), bytes: 1, sha256: "00".into() },
        options: JobOptions {
            pages: PageSelection::all(),
            ai_pages: AiPages::Graphics,
            image_for_all: false,
            tier: Tier::Primary,
            provider: Provider::OpenAi,
            image: ImageStyle::default(),
            job_timeout_ms: 300_000,
            deadline_given: false,
            priority: Priority::Normal,
            patience: Default::default(),
            failover: Default::default(),
            budget_usd: None,
            cost: Default::default(),
        },
        traceparent: None,
        idempotency_key: "k".into(),
    })
}

fn plan(version: u32) -> Plan {
    Plan {
        version,
        tier: Tier::Primary,
        provider: Provider::OpenAi,
        priority: None,
        ai_pages: 1,
        image_pages: 1,
        reasons: Default::default(),
        estimated_credits: 1,
        estimated_cost_micro_usd: MicroUsd(5),
        manifest: "m".into(),
        approval: None,
        prepaid: false,
        no_ai_reason: None,
    }
}

fn result(version: u32) -> ResultRef {
    ResultRef { version, sha256: "ab".into(), metadata: ResultMetadata::default() }
}

fn survey() -> Survey {
    Survey {
        document_pages: 1,
        ranges: vec![],
        text_only: 1,
        has_graphics: 0,
        unreadable: 0,
        complete: true,
        ocr: Default::default(),
    }
}

fn every_event() -> Vec<JobEvent> {
    let at = Timestamp::UNIX_EPOCH;
    vec![
        received(),
        JobEvent::Acked { deadline: at, place: None },
        JobEvent::Understood(survey()),
        JobEvent::Proposed(plan(1)),
        JobEvent::Modified { plan: plan(2), deadline: at, by: "ann".into(), calls: None },
        JobEvent::Approved { by: "policy".into(), credits: 0 },
        JobEvent::Rejected { by: "ann".into(), reason: "too expensive".into() },
        JobEvent::DeadlineReached {},
        JobEvent::CancelRequested { by: "ann".into() },
        JobEvent::Executed(result(1)),
        JobEvent::Audited { credits: 1, cost_micro_usd: MicroUsd(5), pages_digest: "d".into() },
        JobEvent::Cancelled { result: None },
        JobEvent::Failed(Failure { code: "not_a_pdf".into(), reason: "no".into() }),
        JobEvent::Redriven { deadline: at, by: "ann".into(), place: Some(2) },
        JobEvent::Healed { result: result(2), pages_digest: "e".into() },
        JobEvent::DeadlineMoved { deadline: at, by: "ann".into() },
        JobEvent::Acked { deadline: at, place: Some(1) },
        JobEvent::Admitted { deadline: at },
    ]
}

struct Trail {
    job: Option<Job>,
    events: Vec<Event>,
}

impl Trail {
    fn new() -> Self {
        Self { job: None, events: vec![] }
    }

    fn apply(&mut self, event: &JobEvent) -> Result<State, Illegal> {
        let id = JobId::new("j");
        let correlation = CorrelationId::new("c");
        let at = Timestamp::UNIX_EPOCH;
        let mut next = Job::apply(self.job.as_ref(), &id, &correlation, event, at)?;
        let head = self.job.as_ref().map(|job| job.head.clone()).unwrap_or_default();
        let metadata = next.metadata(Actor::Intake, "test");
        let event_id = crate::ids::EventId::new(self.events.len().to_string());
        let (stored, head) = head.append(Aggregate::Job(id), event_id, event, at, correlation, metadata);
        next.head = head;
        self.events.push(stored);
        let state = next.state;
        self.job = Some(next);
        Ok(state)
    }
}

#[test]
fn a_job_without_incidents_goes_from_received_to_audited() {
    let mut trail = Trail::new();
    let events = every_event();
    let states: Vec<State> =
        [0, 1, 2, 3, 5, 9, 10].iter().map(|index| trail.apply(&events[*index]).unwrap()).collect();
    use State::*;
    assert_eq!(states, [Received, Acked, Understood, Proposed, Approved, Executed, Audited]);
    assert_eq!(trail.job.unwrap().status(), Status::Success);
}

#[test]
fn the_transitions_are_exactly_those_of_the_diagram() {
    use State::*;
    let diagram = [
        (Received, Acked),
        (Acked, Understood),
        (Understood, Proposed),
        (Proposed, Approved),
        (Proposed, Modified),
        (Proposed, Rejected),
        (Modified, Approved),
        (Approved, Executed),
        (Executed, Audited),
        (Failed, Acked),
    ];
    for &from in State::ALL {
        for &to in State::ALL {
            let open = !from.is_terminal();
            let expected = diagram.contains(&(from, to))
                || (to == Cancelled && open && from != Executed)
                || (to == Failed && open);
            assert_eq!(from.may_become(to), expected, "{from} → {to}");
        }
    }
}

#[test]
fn a_job_is_cancelled_or_timed_out_once_and_only_while_it_runs() {
    let events = every_event();
    let mut trail = Trail::new();
    for index in [0, 1] {
        trail.apply(&events[index]).unwrap();
    }
    trail.apply(&events[8]).unwrap();
    assert_eq!(trail.job.as_ref().unwrap().halt, Some(Halt::Cancelled));
    assert!(trail.apply(&events[7]).is_err());
}

#[test]
fn a_job_that_waits_is_admitted_once_and_not_opened_before() {
    let events = every_event();
    let mut trail = Trail::new();
    trail.apply(&events[0]).unwrap();
    trail.apply(&events[16]).unwrap();
    assert_eq!(trail.job.as_ref().unwrap().status(), Status::Queued);
    assert!(trail.apply(&events[2]).is_err(), "work before admission");
    trail.apply(&events[17]).unwrap();
    let admitted = trail.job.clone().unwrap();
    assert_eq!((admitted.status(), admitted.is_waiting()), (Status::Processing, false));
    assert_eq!(admitted.run_started_at(), Timestamp::UNIX_EPOCH);
    assert!(trail.apply(&events[17]).is_err(), "admitted twice");
    trail.apply(&events[2]).unwrap();
}

#[test]
fn a_cancelled_job_is_not_admitted() {
    let events = every_event();
    let mut trail = Trail::new();
    for index in [0, 16, 8] {
        trail.apply(&events[index]).unwrap();
    }
    assert!(trail.apply(&events[17]).is_err());
}

#[test]
fn a_job_of_a_version_without_admission_has_started_when_it_was_accepted() {
    let events = every_event();
    let mut trail = Trail::new();
    for index in [0, 1] {
        trail.apply(&events[index]).unwrap();
    }
    let job = trail.job.clone().unwrap();
    assert_eq!((job.is_waiting(), job.run_started_at()), (false, Timestamp::UNIX_EPOCH));
    assert!(trail.apply(&events[17]).is_err(), "it did not wait");
}

#[test]
fn a_deadline_moves_only_while_the_job_runs() {
    let events = every_event();
    let mut trail = Trail::new();
    for index in [0, 1] {
        trail.apply(&events[index]).unwrap();
    }
    let moved = JobEvent::DeadlineMoved { deadline: Timestamp::MIN, by: "ann".into() };
    trail.apply(&moved).unwrap();
    assert_eq!(trail.job.as_ref().unwrap().deadline, Timestamp::MIN);
    trail.apply(&events[7]).unwrap();
    assert!(trail.apply(&moved).is_err());
}

proptest! {
    /// After any sequence of events, a job changed by legal transitions only and its trail rebuilds it.
    #[test]
    fn replaying_the_trail_gives_the_stored_job(picks in prop::collection::vec(0usize..18, 0..60)) {
        let events = every_event();
        let mut trail = Trail::new();
        for pick in picks {
            let before = trail.job.clone();
            match trail.apply(&events[pick]) {
                Ok(_) => {}
                Err(_) => prop_assert_eq!(&before, &trail.job),
            }
        }
        prop_assert_eq!(Job::replay(&trail.events).unwrap(), trail.job.clone());
        if let Some(job) = &trail.job {
            prop_assert_eq!(crate::event::verify(&trail.events, &job.head), Ok(()));
        }
    }

    #[test]
    fn any_change_to_a_stored_event_is_detected(pick in 0usize..6, field in 0u8..4) {
        let events = every_event();
        let mut trail = Trail::new();
        for index in [0, 1, 2, 3, 5, 9] {
            trail.apply(&events[index]).unwrap();
        }
        let head = trail.job.unwrap().head;
        let event = &mut trail.events[pick];
        match field {
            0 => event.kind.push('x'),
            1 => event.data = serde_json::json!({"forged": true}),
            2 => event.timestamp += Duration::from_millis(1),
            _ => { trail.events.remove(pick); }
        }
        prop_assert!(crate::event::verify(&trail.events, &head).is_err());
    }
}
