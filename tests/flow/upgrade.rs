//! Records and events of version 0.1, as that version wrote them.

use std::path::PathBuf;

use everypage_core::{
    billing::{
        account::{AccountEvent, Cause},
        accounts,
    },
    dead_letters::{DeadLetter, DeadLetterEvent},
    event::{self, Event, Head},
    finish::{healing, result::ResultDocument},
    ids::{JobId, TenantId},
    intake::uploads::Upload,
    job::{Job, JobEvent, Plan, State, jobs, message::PageMessage},
    keys::{index, record},
    ports::records::{Change, Draft, IndexEntry, When},
    prepare::StoredPage,
    providers::target::Provider,
    read::{
        breaker::{Breaker, State as BreakerState},
        pages::Page,
    },
    recover::backfill,
    source::Source,
    tenants::{
        api_keys::{self, ApiKey},
        caller::{Caller, Role},
    },
};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/core/fixtures/0.1");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Decodes a record, and what is made of it when it is written again.
macro_rules! decoded {
    ($name:literal as $type:ty) => {{
        let value: $type =
            serde_json::from_str(&fixture($name)).unwrap_or_else(|error| panic!("{}: {error}", $name));
        let again: $type = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
        assert!(value == again, "{} changes when it is written", $name);
        value
    }};
}

#[test]
fn records_are_decoded() {
    let job = decoded!("job.json" as Job);
    assert_eq!((job.state, job.received.options.provider), (State::Audited, Provider::OpenAi));
    assert_eq!(job.plan.unwrap().provider, Provider::OpenAi);
    assert_eq!(job.result.unwrap().metadata.missing_pages, 0);
    assert_eq!(decoded!("plan.json" as Plan).ai_pages, 2);

    let page = decoded!("page.json" as Page);
    let outcome = page.outcome.unwrap();
    assert_eq!((outcome.source, outcome.calls.len()), (Source::MUPDF_FALLBACK, 2));
    assert_eq!(outcome.fallback_reason.as_deref(), Some("no model gave the page's text"));
    let page = decoded!("page-open.json" as Page);
    assert_eq!((page.earlier_calls.len(), page.redrive_count), (2, 2));

    let dead_letter = decoded!("dead-letter.json" as DeadLetter);
    assert_eq!((dead_letter.receive_count, dead_letter.is_waiting()), (1, true));
    let dead_letter = decoded!("dead-letter-revived.json" as DeadLetter);
    assert_eq!((dead_letter.redrive_count, dead_letter.revived.unwrap().redrive_count), (1, 2));

    let upload = decoded!("upload.json" as Upload);
    let overrides = upload.overrides.unwrap();
    let of = |name: &str| overrides.get(name).map(String::as_str);
    assert_eq!((of("provider"), of("force"), of("pages")), (Some("anthropic"), Some("true"), Some("1-3")));
    assert_eq!((of("engine"), of("again")), (None, None));

    let breaker = decoded!("breaker.json" as serde_json::Value);
    let breaker: Breaker = serde_json::from_value(breaker["breaker"].clone()).unwrap();
    assert!(matches!(breaker.state, BreakerState::Open { .. }));

    decoded!("api-key.json" as ApiKey);
    decoded!("page-message.json" as PageMessage);
    assert_eq!(decoded!("stored-pages.json" as Vec<StoredPage>).len(), 3);
}

#[test]
fn results_are_decoded_and_their_lists_of_pages_are_counted() {
    let document = decoded!("result.json" as ResultDocument);
    assert_eq!((document.pages.len(), document.metadata.missing_pages), (1, 0));
    let document = decoded!("result-with-lists.json" as ResultDocument);
    let metadata = &document.metadata;
    assert_eq!((metadata.missing_pages, metadata.timeout_fallback_pages), (1, 2));
    let numbers = |pages: &[everypage_core::ids::PageNumber]| pages.iter().map(|page| page.get()).collect();
    let numbers: (Vec<u32>, Vec<u32>) =
        (numbers(&metadata.missing_page_numbers), numbers(&metadata.timeout_fallback_page_numbers));
    assert_eq!(numbers, (vec![5], vec![4, 5]));
    assert_eq!(document.pages[0].fallback_reason.as_deref(), Some("the deadline came before an answer"));
}

#[test]
fn a_trail_verifies_and_replays() {
    let events = decoded!("trail.json" as Vec<Event>);
    event::verify(&events, &Head::of(events.last().unwrap())).unwrap();
    for event in &events {
        event::decode::<JobEvent>(event).unwrap();
    }
    let job = Job::replay(&events).unwrap().unwrap();
    assert_eq!(job.state, State::Audited);
    assert_eq!(
        job.plan.unwrap().no_ai_reason.as_deref(),
        Some("no API key is set (OPENAI_API_KEY or ANTHROPIC_API_KEY)")
    );
    let added: Vec<DeadLetterEvent> = serde_json::from_str(&fixture("dead-letter-events.json")).unwrap();
    assert!(matches!(&added[..], [DeadLetterEvent::Added { receive_count: 4, .. }]));
}

#[tokio::test(start_paused = true)]
async fn a_publication_that_was_interrupted_is_found() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let job = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let body = format!(
        r#"{{"job":"{job}","told":3,"publisher":{{"holder":"b/1","until":"2020-01-01T00:00:00Z"}}}}"#
    );
    let draft = Draft {
        state_index: Some(IndexEntry::new(index::HEALING, format!("2020-01-01T00:00:00.000Z#{job}"))),
        ..Draft::new(record::healing(&job), body)
    };
    process.app.store.write(vec![Change::Put { draft, when: When::Absent }]).await.unwrap();
    assert_eq!(healing::abandoned(&process.app.store, 10).await.unwrap(), [job]);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_ended_under_version_0_1_are_found_by_retention() {
    let harness = Harness::new(&[("DATA_RETENTION", "30d")]);
    let process = harness.start("a");
    let app = &process.app;
    let mut old = Vec::new();
    for (number, tenant) in
        [(0, "acme"), (1, "acme"), (2, "local")].into_iter().chain((3..150).map(|n| (n, "globex")))
    {
        let mut job: Job = serde_json::from_str(&fixture("job.json")).unwrap();
        job.id = JobId::new(format!("{number:03}"));
        job.received.tenant = TenantId::new(tenant);
        let listed =
            IndexEntry::new(index::jobs(&job.received.tenant), format!("{:.3}#{}", job.received_at, job.id));
        // Not listed by its state, as that version wrote it.
        let body = serde_json::to_string(&job).unwrap();
        let draft = Draft { tenant_index: Some(listed), ..Draft::new(record::job(&job.id), body) };
        old.push(Change::Put { draft, when: When::Absent });
    }
    for some in old.chunks(50) {
        app.store.write(some.to_vec()).await.unwrap();
    }
    let caller = |tenant: &str| Caller { tenant: TenantId::new(tenant), user: "u".into(), role: Role::User };
    api_keys::create(&app.store, caller("acme"), "k", "ann").await.unwrap();
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let granted = AccountEvent::Added { credits: 1, cause };
    accounts::change(&app.store, &TenantId::new("globex"), "ann", &granted).await.unwrap();
    let mut listed = Vec::new();
    for _ in 0..6 {
        listed.push(backfill::list_ended_jobs(&app.store, &app.settings).await.unwrap());
    }
    assert_eq!(listed, [2, 100, 47, 1, 0, 0]);
    assert_eq!(jobs::ended(&app.store, 1000).await.unwrap().len(), 150);
}
