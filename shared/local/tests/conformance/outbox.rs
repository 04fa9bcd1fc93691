//! Events of processes that ended before they published them.

use std::{path::Path, sync::Arc};

use everypage_core::{
    app::Outside,
    billing::{
        account::{AccountEvent, Cause},
        accounts,
    },
    ids::TenantId,
    ports::{ocr::NoOcr, traces::NoTraces},
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_testkit::{
    clock::ManualClock,
    memory::{MemoryPayments, RecordingHooks},
    pdf::FakePdf,
    vision::FakeVision,
};

use crate::folder;

async fn start(folder: &Path) -> LocalBackend {
    let outside = Outside {
        pdf: Arc::new(FakePdf::default()),
        ocr: Arc::new(NoOcr),
        vision: Arc::new(FakeVision::healthy(Arc::new(ManualClock::default()))),
        hooks: Arc::new(RecordingHooks::default()),
        payments: Arc::new(MemoryPayments::default()),
        notifiers: vec![],
        traces: Arc::new(NoTraces),
    };
    let settings =
        Settings::read(|name| (name == "OPENAI_API_KEY").then(|| "k".to_owned())).unwrap().settings;
    LocalBackend::open(folder, settings, outside).await.unwrap()
}

async fn grant(process: &LocalBackend, tenant: &str) {
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let event = AccountEvent::Added { credits: 1, cause };
    accounts::change(&process.app.store, &TenantId::new(tenant), "ann", &event).await.unwrap();
}

#[tokio::test]
async fn events_of_a_command_that_failed_after_its_write_are_published_by_the_next_process() {
    let folder = folder();
    let unregistered = start(&folder).await;
    grant(&unregistered, "globex").await;
    drop(unregistered);
    let failed = start(&folder).await;
    failed.register().unwrap();
    grant(&failed, "acme").await;
    // It ends as a program does that reports an error: its lock file is removed.
    drop(failed);
    let alive = start(&folder).await;
    alive.register().unwrap();
    grant(&alive, "initech").await;

    let next = start(&folder).await;
    let mut published = next.bus.subscribe();
    next.recover_jobs().await.unwrap();
    let mut tenants: Vec<String> = std::iter::from_fn(|| published.try_recv().ok())
        .map(|event| event.metadata.tenant.to_string())
        .collect();
    tenants.sort();
    assert_eq!(tenants, ["acme", "globex"], "a living process publishes its own");
}
