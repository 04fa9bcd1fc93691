//! Jobs from submission to result: idempotency, selection, options, approval, cancellation.

use std::time::Duration;

use everypage_core::{
    document::Reason,
    ids::{JobId, TenantId},
    job::{JobOptions, State, Status, cancel::cancel, jobs},
    plan::decide,
    ports::{blobs::Blobs, clock::Clock},
    prepare,
    source::Source,
    tenants,
};
use everypage_testkit::{
    pdf::{FakeDocument, FakePage},
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, seconds},
    invariants,
};

use crate::sources;

#[tokio::test(start_paused = true)]
async fn the_same_request_makes_one_job() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let document = FakeDocument::graphics(1);
    let first = process.submit(&document).await.unwrap();
    let again = process.submit(&document).await.unwrap();
    assert!(!first.existed && again.existed);
    assert_eq!(first.job.id, again.job.id);
    let other =
        process.submit_with(&document, |options| options.job_timeout_ms += 1, None, None).await.unwrap();
    assert_ne!(other.job.id, first.job.id);
    // Twenty concurrent requests with one key.
    let requests = (0..20).map(|_| process.submit_with(&document, |_| {}, None, Some("order 7")));
    let mut ids: Vec<String> = futures::future::join_all(requests)
        .await
        .into_iter()
        .map(|submitted| submitted.unwrap().job.id.to_string())
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let reused = process.submit_with(&FakeDocument::graphics(2), |_| {}, None, Some("order 7")).await;
    assert!(reused.unwrap_err().to_string().contains("order 7"));
    // A day later it is a new request.
    harness.clock.sleep(Duration::from_secs(24 * 3600 + 1)).await;
    assert_ne!(process.submit(&document).await.unwrap().job.id, first.job.id);
}

#[tokio::test(start_paused = true)]
async fn a_page_selection_keeps_the_original_page_numbers() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let select = |options: &mut JobOptions| options.pages = "3-4,9".parse().unwrap();
    let id = process.submit_with(&FakeDocument::graphics(10), select, None, None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let numbers: Vec<u32> = process.result(&job).await.pages.iter().map(|page| page.page.get()).collect();
    assert_eq!(numbers, [3, 4, 9]);
    let none = |options: &mut JobOptions| options.pages = "50-".parse().unwrap();
    let id = process.submit_with(&FakeDocument::graphics(10), none, None, None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(job.failure.unwrap().reason.contains("the document has 10"));
}

#[tokio::test(start_paused = true)]
async fn without_an_api_key_every_page_is_mupdf_text() {
    let harness = Harness::new(&[("OPENAI_API_KEY", ""), ("ANTHROPIC_API_KEY", "")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::MUPDF; 4]);
    assert!(job.plan.unwrap().no_ai_reason.unwrap().contains("OPENAI_API_KEY"));
    assert!(harness.vision.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_tenant_can_override_settings() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let tenant = TenantId::new("local");
    let set = |name: &str, value: &str| vec![(name.to_owned(), Some(value.to_owned()))];
    tenants::change(&process.app.tenants, &tenant, &set("REQUEST_TIMEOUT", "4s"), "test").await.unwrap();
    tenants::change(&process.app.tenants, &tenant, &set("OPENAI_PRIMARY_MODEL", "my-own"), "test")
        .await
        .unwrap();
    tenants::change(&process.app.tenants, &tenant, &set("DEFAULT_RESPONSIBLE", "ann@example.org"), "test")
        .await
        .unwrap();
    for (name, value) in [("REQUEST_TIMEOUT", "soon"), ("OPENAI_API_KEY", "stolen"), ("PORT", "1")] {
        let refused = tenants::change(&process.app.tenants, &tenant, &set(name, value), "test")
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(name), "{refused}");
    }
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "my-own" => Reply::Hang,
        _ => Reply::Answer(read_by(target, page)),
    });
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let page = &process.result(&job).await.pages[0];
    assert_eq!(page.calls[0].target.model, "my-own");
    assert_eq!(page.calls[0].latency_ms, 4_000);
    assert_eq!(page.source, Source::AI);
    let left =
        tenants::change(&process.app.tenants, &tenant, &[("REQUEST_TIMEOUT".to_owned(), None)], "test")
            .await
            .unwrap();
    assert_eq!(left.variables.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_job_is_an_error_not_a_panic() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = JobId::new("unknown-job");
    assert!(
        cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann")
            .await
            .unwrap_err()
            .to_string()
            .contains("unknown-job")
    );
    assert!(jobs::find(&process.app.store, &id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_blank_page_is_a_page_of_the_result() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut document = FakeDocument::mixed(3);
    document.pages[1] = FakePage { text: String::new(), reason: Reason::Blank };
    let id = process.submit(&document).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 3).await;
    let page = &process.result(&job).await.pages[1];
    assert_eq!((page.has_text, page.text.as_str()), (true, ""));
}

#[tokio::test(start_paused = true)]
async fn an_expensive_plan_waits_for_approval_until_the_deadline() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.001"), ("JOB_TIMEOUT", "60s")]);
    let process = harness.start("a");
    let wait = |document| {
        let process = &process;
        async move { process.submit(&document).await.unwrap().job.id }
    };
    let id = wait(FakeDocument::graphics(5)).await;
    let approve = async {
        process.app.store.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(process.job(&id).await.status(), Status::AwaitingApproval);
        decide::decide(&process.app.planner, &id, "ann", decide::Decision::Approve).await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = approve => unreachable!() };
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 5);

    let id = wait(FakeDocument::graphics(6)).await;
    let reject = async {
        process.app.store.clock.sleep(Duration::from_secs(10)).await;
        let reason = "too expensive".to_owned();
        decide::decide(&process.app.planner, &id, "ann", decide::Decision::Reject { reason }).await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = reject => unreachable!() };
    assert_eq!(job.status(), Status::Rejected);

    let id = wait(FakeDocument::graphics(7)).await;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 7).await;
    assert_eq!(process.result(&job).await.metadata.final_timeout_fallback_pages, 7);
}

#[tokio::test(start_paused = true)]
async fn a_page_without_an_image_is_still_planned_for_ai() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.job(&id).await;
    let range = prepare::inspect(&process.app.preparer, &job).await.unwrap().remove(0);
    prepare::read_range(&process.app.preparer, &job, &range).await.unwrap();
    // Page 2 of this range could not be rendered.
    prepare::render_range(&process.app.preparer, &job, &range).await.unwrap();
    let key = format!("jobs/{id}/images/1-3.json");
    let mut images: Vec<serde_json::Value> =
        serde_json::from_slice(&harness.blobs.get(&key).await.unwrap().unwrap()).unwrap();
    images.remove(1);
    harness.blobs.delete(&key).await.unwrap();
    harness.blobs.put_new(&key, serde_json::to_vec(&images).unwrap()).await.unwrap();
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::AI; 3]);
    assert_eq!(document.metadata.ai_pages, 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_and_keeps_finished_pages() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "2")]);
    harness.vision.set_behaviour(
        |target, page| {
            if page <= 2 { Reply::Answer(read_by(target, page)) } else { Reply::Hang }
        },
    );
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(6)).await.unwrap().job.id;
    let stop = async {
        process.app.store.clock.sleep(Duration::from_secs(5)).await;
        cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = stop => unreachable!() };
    assert_eq!((job.state, job.status()), (State::Cancelled, Status::Cancelled));
    assert!(seconds(harness.clock.as_ref()) < 6.5);
    invariants::result_is_whole(&process.app, &job, 6).await;
    invariants::trail_verifies(&process.app, &job).await;
    let (ai, fallback) = (Source::AI, Source::MUPDF_FALLBACK);
    let expected = [ai, ai, fallback, fallback, fallback, fallback];
    assert_eq!(sources(&process.result(&job).await), expected);
    process.work_for(Duration::from_secs(120)).await;
    assert!(harness.queue.is_empty());
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}
