//! Stories of one document, from submission to result, on virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    domain::{
        document::{PageReading, Reason},
        ids::{DeadLetterId, JobId, PageNumber, Priority, TenantId},
        job::{Failure, Job, State, Status},
        outcome::{AttemptResult, Outcome, Source},
        result::Cause,
        secret::Secret,
        target::{Provider, Target},
    },
    ports::{
        Fault,
        blobs::Blobs,
        clock::{Clock, after, within},
        flow::Settlement,
        pdf::{Pdf, PdfError, ReadOptions},
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Change, Records},
        retrying::Retrying,
        vision::{Finish, Scope, VisionError},
    },
    store::{
        Kept, breakers, dead, healing, jobs,
        pages::{self, Claim, Page},
        tenants, trail, webhooks,
    },
    usecases::{
        bury::{Death, bury},
        cancel::cancel,
        decide, delete,
        dispatch::{Disposition, dispatch},
        fail::fail,
        heal, plan, prepare, redrive, result,
        verify::verify_job,
        webhooks as sender,
    },
};
use everypage_local::LocalFlow;
use everypage_testkit::{
    clock::VirtualClock,
    faulty::{FaultInjector, Faults, Faulty, Injection},
    memory::MemoryBlobs,
    pdf::{FakeDocument, FakePage, FakePdf},
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, seconds},
    invariants::{self, page},
};
use jiff::Timestamp;

const MODELS: [&str; 4] = ["gpt-5.4", "gpt-5.4-mini", "claude-sonnet-4-6", "claude-opus-4-6"];

fn sources(document: &everypage_core::domain::result::ResultDocument) -> Vec<Source> {
    document.pages.iter().map(|page| page.source).collect()
}

#[tokio::test(start_paused = true)]
async fn all_well_every_page_is_read_by_whom_it_should_be() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(10)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 10).await;
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::Mupdf, Source::Ai].repeat(5));
    assert_eq!(harness.vision.calls().len(), 5);
    assert_eq!(document.metadata.credits, 5);
    assert_eq!(document.metadata.cost_micro_usd.0, 5_000);
    assert!(harness.queue.is_empty());
    assert_eq!(job.status(), Status::Success);
}

#[tokio::test(start_paused = true)]
async fn a_page_fails_over_inline_and_says_so() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1")]);
    harness.vision.set_behaviour(|target, page| {
        if target.model == "gpt-5.4" { Reply::down() } else { Reply::Answer(read_by(target, page)) }
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::Ai; 3]);
    let results: Vec<AttemptResult> =
        document.pages[0].attempts.iter().map(|attempt| attempt.result).collect();
    assert_eq!(results, [AttemptResult::Transient, AttemptResult::Answered]);
    // The breaker is open by then: the dead model is skipped, not waited for.
    assert_eq!(document.pages[2].attempts[0].result, AttemptResult::BreakerOpen);
    assert_eq!(harness.vision.calls_to("gpt-5.4"), 1);
}

#[tokio::test(start_paused = true)]
async fn every_provider_down_still_gives_every_page() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 20).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::MupdfFallback; 20]);
    assert_eq!(document.metadata.pages_failed, 20);
    assert!(!document.metadata.timeout_occurred);
    assert!(
        harness.vision.calls().len() <= 2 * MODELS.len(),
        "{} calls into an outage",
        harness.vision.calls().len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_costs_the_deadline_and_no_page() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(100)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(seconds(harness.clock.as_ref()) < 11.0, "{}", seconds(harness.clock.as_ref()));
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 100).await;
    let metadata = process.result(&job).await.metadata;
    assert!(metadata.timeout_occurred);
    assert_eq!(metadata.final_timeout_fallback_pages, 50);
    // What is left of it is worked off without asking anybody.
    let calls = harness.vision.calls().len();
    process.work_for(Duration::from_secs(120)).await;
    assert_eq!(harness.vision.calls().len(), calls);
    assert!(harness.queue.is_empty());
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn the_job_deadline_says_nothing_about_a_model() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    process.work_for(Duration::from_secs(1)).await;
    assert!(breakers::all(&process.app).await.unwrap().iter().all(|(_, breaker)| breaker.trips == 0));
}

#[tokio::test(start_paused = true)]
async fn two_dead_steps_cost_one_wave_each() {
    let pairs = [("WORKER_CONCURRENCY", "20"), ("MAX_INFLIGHT_PER_MODEL", "20"), ("REQUEST_TIMEOUT", "3s")];
    let harness = Harness::new(&pairs);
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "gpt-5.4" | "gpt-5.4-mini" => Reply::Hang,
        _ => Reply::AnswerAfter(Duration::from_millis(500), read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(200)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::result_is_whole(&process.app, &job, 200).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 200);
    for dead in ["gpt-5.4", "gpt-5.4-mini"] {
        let calls = harness.vision.calls_to(dead);
        println!("calls to {dead}, which hangs: {calls}");
        assert!(calls <= 21, "{calls} calls to {dead}");
    }
    assert!(harness.vision.max_in_flight("claude-sonnet-4-6") <= 20);
}

#[tokio::test(start_paused = true)]
async fn never_more_calls_at_once_than_allowed() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "16"), ("MAX_INFLIGHT_PER_MODEL", "3")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_millis(200), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(40)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 40);
    assert_eq!(harness.vision.max_in_flight("gpt-5.4"), 3);
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn after_the_rest_one_probe_brings_a_model_back() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "4"), ("MAX_INFLIGHT_PER_MODEL", "4")]);
    let clock = harness.clock.clone();
    harness.vision.set_behaviour(move |target, page| {
        let healed = seconds(clock.as_ref()) > 20.0;
        if target.model == "gpt-5.4" && !healed {
            return Reply::down();
        }
        Reply::AnswerAfter(Duration::from_secs(2), read_by(target, page))
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(120)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    let by_primary =
        document.pages.iter().filter(|page| page.read_by.model.as_deref() == Some("gpt-5.4")).count();
    assert!(by_primary > 20, "the primary read {by_primary} pages after its recovery");
    let opened = trail::read(
        &process.app,
        &everypage_core::domain::event::Aggregate::Breaker("openai:gpt-5.4".into()),
    )
    .await
    .unwrap();
    let kinds: Vec<&str> = opened.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["breaker.opened", "breaker.half_open", "breaker.closed"]);
}

#[tokio::test(start_paused = true)]
async fn each_class_of_error_gets_its_own_treatment() {
    type Case = (VisionError, bool, &'static str);
    let detail = || "what happened".to_owned();
    let cases: [Case; 5] = [
        (VisionError::Transient { detail: detail() }, true, "openai:gpt-5.4"),
        (VisionError::Exhausted { detail: detail(), retry_after: None }, true, "openai:gpt-5.4"),
        (VisionError::Configuration { detail: detail(), scope: Scope::Provider }, true, "openai:*"),
        (VisionError::Configuration { detail: detail(), scope: Scope::Model }, true, "openai:gpt-5.4"),
        (VisionError::Request { detail: detail() }, false, ""),
    ];
    for (error, fails_over, breaker) in cases {
        let harness = Harness::new(&[]);
        let told = error.clone();
        harness.vision.set_behaviour(move |target, page| {
            if target.model == "gpt-5.4" {
                Reply::Fail(told.clone())
            } else {
                Reply::Answer(read_by(target, page))
            }
        });
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let source = process.result(&job).await.pages[0].source;
        let expected = if fails_over { Source::Ai } else { Source::MupdfFallback };
        assert_eq!(source, expected, "{error:?}");
        let open: Vec<String> =
            breakers::all(&process.app).await.unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(open, if breaker.is_empty() { vec![] } else { vec![breaker.to_owned()] }, "{error:?}");
        if !fails_over {
            assert_eq!(harness.vision.calls().len(), 1, "the same input would fail everywhere");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_the_page_goes_to_the_next_model() {
    for (reply, expected) in [
        (Reply::Answer(String::new()), AttemptResult::Empty),
        (Reply::Finish(Finish::Length, "cut".into()), AttemptResult::Truncated),
        (Reply::Finish(Finish::Refusal, "no".into()), AttemptResult::Refusal),
        (Reply::Answer("again and again\n".repeat(50)), AttemptResult::Repeating),
    ] {
        let harness = Harness::new(&[]);
        harness.vision.set_behaviour(move |target, page| {
            if target.model == "gpt-5.4" { reply.clone() } else { Reply::Answer(read_by(target, page)) }
        });
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let page = &process.result(&job).await.pages[0];
        assert_eq!((page.source, page.attempts[0].result), (Source::Ai, expected));
        // The model answered: that is no outage.
        assert!(breakers::all(&process.app).await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_and_keeps_what_is_there() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "2")]);
    harness.vision.set_behaviour(
        |target, page| {
            if page <= 2 { Reply::Answer(read_by(target, page)) } else { Reply::Hang }
        },
    );
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(6)).await.unwrap().job.id;
    let stop = async {
        process.app.clock.sleep(Duration::from_secs(5)).await;
        cancel(&process.app, &id, "ann").await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = stop => unreachable!() };
    assert_eq!((job.state, job.status()), (State::Cancelled, Status::Cancelled));
    assert!(seconds(harness.clock.as_ref()) < 6.5);
    invariants::result_is_whole(&process.app, &job, 6).await;
    invariants::trail_verifies(&process.app, &job).await;
    use Source::{Ai, MupdfFallback};
    let expected = [Ai, Ai, MupdfFallback, MupdfFallback, MupdfFallback, MupdfFallback];
    assert_eq!(sources(&process.result(&job).await), expected);
    process.work_for(Duration::from_secs(120)).await;
    assert!(harness.queue.is_empty());
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

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
    // Twenty at once, by one key.
    let tries = (0..20).map(|_| process.submit_with(&document, |_| {}, None, Some("order 7")));
    let mut ids: Vec<String> = futures::future::join_all(tries)
        .await
        .into_iter()
        .map(|tried| tried.unwrap().job.id.to_string())
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
async fn a_document_that_cannot_be_processed_fails_with_its_reason_and_can_be_redriven() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut document = FakeDocument::graphics(2);
    document.password = Some("open sesame".into());
    let id = process.submit_with(&document, |_| {}, Some("wrong"), None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(job.state, State::Failed);
    assert_eq!(job.failure.as_ref().unwrap().code, "password_wrong");
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].value.reason.contains("password"));
    assert_eq!(harness.notifier.notices().len(), 1);
    for item in harness.records.dump() {
        assert!(!item.draft.body.contains("wrong") || !item.draft.body.contains("sealed"), "password kept");
    }

    let secret = everypage_core::domain::secret::Secret::new("open sesame");
    redrive::redrive(&process.app, &letters[0].value.id, "ann", Some(secret)).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 2).await;
    invariants::trail_verifies(&process.app, &job).await;
    assert!(dead::waiting(&process.app, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_poisonous_page_becomes_a_dead_letter_and_heals_the_result_when_redriven() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    // Page 2 kills its worker: here, by its image being gone, which no model is to blame for.
    let broken = format!("jobs/{id}/pages/2.jpg");
    let take_away = async {
        loop {
            use everypage_core::ports::blobs::Blobs;
            harness.blobs.delete_all(&broken).await.unwrap();
            tokio::task::yield_now().await;
            process.app.clock.sleep(Duration::from_micros(1)).await;
        }
    };
    let job = tokio::select! { biased; job = process.finish(&id) => job, () = take_away => unreachable!() };
    invariants::succeeded(&job);
    let document = process.result(&job).await;
    assert_eq!(document.pages[1].source, Source::MupdfFallback);
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].value.reason.contains("pages/2.jpg"), "{}", letters[0].value.reason);

    use everypage_core::ports::blobs::Blobs;
    harness.blobs.put_new(&broken, vec![1]).await.unwrap();
    redrive::redrive(&process.app, &letters[0].value.id, "ann", None).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let job = process.job(&id).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert_eq!(sources(&process.result(&job).await), [Source::Ai; 3]);
    assert_eq!(process.version(&job, 1).await, document, "a published version never changes");
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    assert!(harness.queue.is_empty() && dead::waiting(&process.app, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_nobody_can_read_is_buried_at_once_with_its_reason() {
    use everypage_core::{
        domain::ids::{JobId, Priority},
        ports::queue::{Outgoing, Queue},
    };
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    for body in ["not json", r#"{"version":1,"job_id":"x"}"#, r#"{"version":7}"#] {
        let message =
            Outgoing { name: body.into(), job: JobId::new("j"), lane: Priority::Normal, body: body.into() };
        harness.queue.send(&[message]).await.unwrap();
    }
    process.work_for(Duration::from_secs(1)).await;
    assert!(harness.queue.is_empty());
    let reasons: Vec<String> =
        dead::waiting(&process.app, 10).await.unwrap().into_iter().map(|kept| kept.value.reason).collect();
    assert_eq!(reasons.len(), 3);
    assert!(reasons.iter().any(|reason| reason.contains("document_id")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("version 7")), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn heal_asks_again_for_what_fell_back() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(5)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.clock.sleep(Duration::from_secs(700)).await;
    let sent = heal::send(&process.app, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent, (1..=5).map(page).collect::<Vec<_>>());
    process.work_for(Duration::from_secs(10)).await;
    let job = heal::publish(&process.app, &id).await.unwrap();
    assert!(job.result.as_ref().unwrap().version >= 2);
    assert_eq!(sources(&process.result(&job).await), [Source::Ai; 5]);
    assert_eq!(sources(&process.version(&job, 1).await), [Source::MupdfFallback; 5]);
    invariants::trail_verifies(&process.app, &job).await;
    // Nothing left to heal: no new version.
    let before = job.result.clone();
    assert_eq!(heal::publish(&process.app, &id).await.unwrap().result, before);
}

#[tokio::test(start_paused = true)]
async fn a_dear_plan_waits_for_a_person_and_for_the_deadline_at_most() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.001"), ("JOB_TIMEOUT", "60s")]);
    let process = harness.start("a");
    let wait = |document| {
        let process = &process;
        async move { process.submit(&document).await.unwrap().job.id }
    };
    let id = wait(FakeDocument::graphics(5)).await;
    let approve = async {
        process.app.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(process.job(&id).await.status(), Status::AwaitingApproval);
        decide::decide(&process.app, &id, "ann", decide::Decision::Approve).await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = approve => unreachable!() };
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 5);

    let id = wait(FakeDocument::graphics(6)).await;
    let reject = async {
        process.app.clock.sleep(Duration::from_secs(10)).await;
        let reason = "too dear".to_owned();
        decide::decide(&process.app, &id, "ann", decide::Decision::Reject { reason }).await.unwrap();
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
async fn a_selection_keeps_true_page_numbers() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let select =
        |options: &mut everypage_core::domain::job::JobOptions| options.pages = "3-4,9".parse().unwrap();
    let id = process.submit_with(&FakeDocument::graphics(10), select, None, None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let numbers: Vec<u32> = process.result(&job).await.pages.iter().map(|page| page.page.get()).collect();
    assert_eq!(numbers, [3, 4, 9]);
    let none = |options: &mut everypage_core::domain::job::JobOptions| options.pages = "50-".parse().unwrap();
    let id = process.submit_with(&FakeDocument::graphics(10), none, None, None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(job.failure.unwrap().reason.contains("the document has 10"));
}

#[tokio::test(start_paused = true)]
async fn without_any_key_everything_is_mupdf_text() {
    let harness = Harness::new(&[("OPENAI_API_KEY", ""), ("ANTHROPIC_API_KEY", "")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::Mupdf; 4]);
    assert!(job.plan.unwrap().no_ai_because.unwrap().contains("OPENAI_API_KEY"));
    assert!(harness.vision.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_event_is_found() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let trail = everypage_core::domain::event::Aggregate::Job(id.clone());
    invariants::published_in_order(
        &harness.bus.events(),
        &trail::read(&process.app, &trail).await.unwrap()[..4],
    );
    for (sort, what) in [("event#0000000002", "job"), ("pagelog#0000000001#0000000001", "page 1")] {
        let key = everypage_core::ports::records::Key::new(format!("job#{id}"), sort);
        let item = harness.records.dump().into_iter().find(|item| item.draft.key == key).unwrap();
        harness.records.forge(&key, item.draft.body.replace("local", "other"));
        let findings = verify_job(&process.app, &id).await.unwrap().findings;
        assert!(findings.iter().any(|finding| finding.starts_with(what)), "{findings:?}");
        harness.records.forge(&key, item.draft.body);
    }
    assert_eq!(verify_job(&process.app, &id).await.unwrap().findings, Vec::<String>::new());

    use everypage_core::ports::blobs::Blobs;
    for (form, what) in [("txt", "its .txt"), ("json", "missing or was changed")] {
        let key = format!("jobs/{id}/result/v1.{form}");
        let kept = harness.blobs.get(&key).await.unwrap().unwrap();
        harness.blobs.delete_all(&key).await.unwrap();
        harness.blobs.put_new(&key, b"forged".to_vec()).await.unwrap();
        let findings = verify_job(&process.app, &id).await.unwrap().findings;
        assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
        harness.blobs.delete_all(&key).await.unwrap();
        harness.blobs.put_new(&key, kept).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn two_deliveries_at_once_make_one_call() {
    let harness = Harness::with_faults(&[], everypage_testkit::faulty::Faults::none(), true);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(5), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(12)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 12).await;
    invariants::paid_once(&harness.vision, 0);
    process.work_for(Duration::from_secs(300)).await;
    assert!(harness.queue.is_empty());
    assert!(dead::waiting(&process.app, 10).await.unwrap().is_empty(), "a copy is not a dead letter");
    invariants::paid_once(&harness.vision, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_keeps_its_page_and_its_message() {
    let harness = Harness::new(&[("REQUEST_TIMEOUT", "200s")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(150), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 2);
    invariants::paid_once(&harness.vision, 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_job_is_an_error_not_a_panic() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = everypage_core::domain::ids::JobId::new("nobody");
    assert!(cancel(&process.app, &id, "ann").await.unwrap_err().to_string().contains("nobody"));
    assert!(jobs::find(&process.app, &id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tenant_may_have_settings_of_its_own() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let tenant = everypage_core::domain::ids::TenantId::new("local");
    let set = |name: &str, value: &str| vec![(name.to_owned(), Some(value.to_owned()))];
    tenants::change(&process.app, &tenant, &set("REQUEST_TIMEOUT", "4s")).await.unwrap();
    tenants::change(&process.app, &tenant, &set("OPENAI_PRIMARY_MODEL", "my-own")).await.unwrap();
    tenants::change(&process.app, &tenant, &set("DEFAULT_RESPONSIBLE", "ann@example.org")).await.unwrap();
    for (name, value) in [("REQUEST_TIMEOUT", "soon"), ("OPENAI_API_KEY", "stolen"), ("PORT", "1")] {
        let refused =
            tenants::change(&process.app, &tenant, &set(name, value)).await.unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
    }
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "my-own" => Reply::Hang,
        _ => Reply::Answer(read_by(target, page)),
    });
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let page = &process.result(&job).await.pages[0];
    assert_eq!(page.attempts[0].target.model, "my-own");
    assert_eq!(page.attempts[0].latency_ms, 4_000);
    assert_eq!(page.source, Source::Ai);
    let left = tenants::change(&process.app, &tenant, &[("REQUEST_TIMEOUT".to_owned(), None)]).await.unwrap();
    assert_eq!(left.variables.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_nobody_knows_is_shown_to_a_person() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(sources(&process.result(&job).await), [Source::MupdfFallback]);
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].value.reason.contains("HTTP 418"));
    // Sent again while all is down: that is known, and no second letter is written for the first error.
    harness.vision.set_behaviour(|_, _| Reply::down());
    harness.clock.sleep(Duration::from_secs(700)).await;
    heal::send(&process.app, &id, Duration::from_secs(60)).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let again = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!((again.len(), again[0].value.sending), (1, 0), "{:?}", again[0].value.reason);
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.clock.sleep(Duration::from_secs(700)).await;
    redrive::redrive(&process.app, &letters[0].value.id, "ann", None).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let job = process.job(&id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::Ai]);
    assert_eq!(job.result.unwrap().version, 2);
}

#[tokio::test(start_paused = true)]
async fn a_bad_key_is_told_once_not_once_per_page() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| match target.provider {
        everypage_core::domain::target::Provider::OpenAi => {
            Reply::Fail(VisionError::Configuration { detail: "HTTP 401".into(), scope: Scope::Provider })
        }
        _ => Reply::Answer(read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 20);
    let notices = harness.notifier.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].subject.contains("openai") && notices[0].body.contains("401"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_while_images_are_made_costs_no_text_and_heals() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s"), ("RANGE_PAGES", "4")]);
    harness.pdf = std::sync::Arc::new(FakePdf::slow(harness.clock.clone(), Duration::from_secs(3)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(12)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 12).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::Mupdf, Source::MupdfTimeoutFallback].repeat(6));
    assert!(document.pages.iter().all(|page| page.has_text));
    let sent = heal::send(&process.app, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent.len(), 6);
    process.work_for(Duration::from_secs(10)).await;
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 6);
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn who_can_open_no_document_heals_with_the_images_there_are() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s"), ("RANGE_PAGES", "4")]);
    harness.pdf = Arc::new(FakePdf::slow(harness.clock.clone(), Duration::from_secs(3)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(12)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.pdf = Arc::new(FakePdf::absent());
    let sent = heal::send(&harness.start("api").app, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_given_up_lets_another_one_go() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "31s"), ("WORKER_CONCURRENCY", "1")]);
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "gpt-5.4" if page == 1 => Reply::down(),
        "gpt-5.4" => Reply::Hang,
        _ => Reply::AnswerAfter(Duration::from_secs(6), read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    process.finish(&id).await;
    // The probe of 30 s after the failure was cut by the deadline at 31 s.
    assert_eq!(harness.vision.calls_to("gpt-5.4"), 2);
    let (_, breaker) = breakers::all(&process.app).await.unwrap().remove(0);
    assert!(breaker.lets_through(harness.clock.now(), &process.app.settings.breaker), "{breaker:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_nothing_of_its_document_behind() {
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "1000")]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    webhooks::set(&process.app, &TenantId::new("local"), "https://example.com/hook").await.unwrap();
    harness.hooks.fail_next(4);
    let document = FakeDocument::graphics(150);
    let id = process.submit(&document).await.unwrap().job.id;
    assert!(
        delete::delete(&process.app, &id, "ann").await.unwrap_err().to_string().contains("cancel it first")
    );
    let job = process.finish(&id).await;
    let _ = within(harness.clock.as_ref(), Duration::from_secs(60), sender::run(&process.app)).await;
    // Somebody else's letter stays.
    let foreign = Delivery {
        id: "m".into(),
        receipt: Receipt("r".into()),
        body: "?".into(),
        receive_count: 3,
        lane: Priority::Normal,
    };
    bury(&process.app, Death::of_message(&process.app, &foreign, "not ours".into())).await.unwrap();
    assert_eq!(dead::waiting(&process.app, 1000).await.unwrap().len(), 152);
    delete::delete(&process.app, &id, "ann").await.unwrap();
    let left = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(left.iter().map(|kept| kept.value.reason.as_str()).collect::<Vec<_>>(), ["not ours"]);
    assert_eq!(harness.blobs.keys(), Vec::<String>::new());
    for item in harness.records.dump() {
        assert!(!item.draft.body.contains(&job.received.document.sha256), "{:?}", item.draft.key);
        assert!(!item.draft.body.contains("report.pdf"), "{:?}", item.draft.key);
        assert!(!item.draft.body.contains("layer of page"), "text left in {:?}", item.draft.key);
        assert_ne!(item.draft.key.partition, format!("job#{id}"));
    }
    assert!(!process.submit(&document).await.unwrap().existed);
}

/// Somebody who redrives a job while another deletes it.
struct RedrivenMeanwhile {
    they: Arc<App>,
    letter: DeadLetterId,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for RedrivenMeanwhile {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.list" && !self.done.swap(true, Ordering::SeqCst) {
            redrive::redrive(&self.they, &self.letter, "ben", None).await.unwrap();
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_redriven_while_it_is_deleted_is_not_lost_with_what_it_holds() {
    let harness = Harness::new(&[("CREDITS", "prepaid")]);
    let they = harness.start("a");
    let id = they.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let failure = Failure { code: "defect".into(), reason: "it broke".into() };
    fail(&they.app, &id, failure).await.unwrap();
    let letter = dead::job_letter(&id, 0);
    let meanwhile = RedrivenMeanwhile { they: they.app.clone(), letter, done: Default::default() };
    let records: Arc<dyn Records> = harness.records.clone();
    let we = harness.start_on("b", Arc::new(Faulty::new(records, Arc::new(meanwhile))));
    let refused = delete::delete(&we.app, &id, "ann").await.unwrap_err();
    assert_eq!(refused.code(), "job_is_open");
    assert_eq!(they.job(&id).await.state, State::Acked, "it goes on to its end");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_nobody_lived_costs_no_text() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    // Accepted, and its process died before it could even open the document.
    let id = harness.start("a").submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    harness.advance(Duration::from_secs(60)).await;
    let process = harness.start("b");
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 4).await;
    let document = process.result(&job).await;
    assert!(document.pages.iter().all(|page| page.has_text));
    assert_eq!(sources(&document), [Source::Mupdf, Source::MupdfTimeoutFallback].repeat(2));
}

/// Throttles everything until a certain moment, and asks for next to no patience.
struct Impatient {
    clock: Arc<VirtualClock>,
    until: Timestamp,
}

#[async_trait]
impl FaultInjector for Impatient {
    async fn before(&self, _: &'static str) -> Injection {
        let retry_after = Some(Duration::from_millis(10));
        match self.clock.now() < self.until {
            true => Injection::Refuse(Fault::Throttled { service: "test", retry_after }),
            false => Injection::None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_asks_for_short_rests_does_not_use_up_the_tries() {
    let clock = Arc::new(VirtualClock::default());
    let until = after(clock.now(), Duration::from_secs(15));
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let blobs: Arc<dyn Blobs> =
        Arc::new(Faulty::new(blobs, Arc::new(Impatient { clock: clock.clone(), until })));
    let patient = Retrying::new(blobs, clock.clone(), [1, 4, 16].map(Duration::from_secs).to_vec());
    patient.put_new("a", vec![1]).await.unwrap();
    assert_eq!(patient.get("a").await.unwrap(), Some(vec![1]));
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_whose_document_was_read_needs_no_password_any_more() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let document = FakeDocument { password: Some("open sesame".into()), ..FakeDocument::graphics(2) };
    let id = process.submit_with(&document, |_| {}, Some("open sesame"), None).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(10)).await.is_none());
    // As when storage is away for longer than we try.
    let failure = Failure { code: "unreachable".into(), reason: "the store is away".into() };
    assert_eq!(fail(&process.app, &id, failure).await.unwrap().state, State::Failed);

    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    let process = harness.start("b");
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    redrive::redrive(&process.app, &letters[0].value.id, "ann", None).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 2).await;
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

/// A failed run that got as far as storing a result which it could not publish.
async fn failed_while_publishing(harness: &Harness) -> JobId {
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(10)).await.is_none());
    let job = process.job(&id).await;
    result::publish(&process.app, &job, 1, Cause::Deadline).await.unwrap();
    let failure = Failure { code: "unreachable".into(), reason: "the disk is full".into() };
    fail(&process.app, &id, failure).await.unwrap();
    id
}

/// Whoever fails a job dies at its n-th call; how many it makes, and how the job and its letters are then.
async fn failed_until(at: Option<usize>) -> (usize, State, usize, usize) {
    let mut harness = Harness::new(&[]);
    let id = harness.start("a").submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    harness.faults = at.map_or_else(Faults::none, Faults::stop_at);
    let dying = harness.start("b").app;
    let failure = Failure { code: "unreachable".into(), reason: "the disk is full".into() };
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        failed = fail(&dying, &id, failure) => drop(failed.unwrap()),
    }
    let calls = harness.faults.calls();
    harness.faults = Faults::none();
    let process = harness.start("c");
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    (calls, process.job(&id).await.state, letters.len(), harness.notifier.notices().len())
}

#[tokio::test(start_paused = true)]
async fn no_job_fails_without_its_letter_and_its_notice() {
    let (calls, state, letters, notices) = failed_until(None).await;
    assert_eq!((state, letters, notices), (State::Failed, 1, 1));
    assert!(calls >= 4, "{calls}");
    for at in 0..calls {
        let (_, state, letters, notices) = failed_until(Some(at)).await;
        match state {
            State::Failed => assert_eq!((letters, notices), (1, 1), "killed at call {at}"),
            _ => assert_eq!(letters, 0, "killed at call {at}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_publishes_what_it_read_and_not_what_an_earlier_run_left() {
    let harness = Harness::new(&[]);
    let id = failed_while_publishing(&harness).await;
    let process = harness.start("b");
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    redrive::redrive(&process.app, &letters[0].value.id, "ann", None).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(job.result.as_ref().unwrap().version, 1);
    assert_eq!(sources(&process.result(&job).await), [Source::Ai; 2]);
    invariants::trail_verifies(&process.app, &job).await;
}

/// A reader with a defect.
struct Defective;

#[async_trait]
impl Pdf for Defective {
    async fn inspect(&self, _: &Path, _: Option<&Secret>, _: Duration) -> Result<u32, PdfError> {
        panic!("a defect")
    }

    async fn read(
        &self,
        _: &Path,
        _: Option<&Secret>,
        _: &[PageNumber],
        _: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        panic!("a defect")
    }
}

#[tokio::test(start_paused = true)]
async fn a_defect_ends_its_job_and_somebody_is_told() {
    let mut harness = Harness::new(&[]);
    harness.pdf = Arc::new(Defective);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!((job.state, job.failure.unwrap().code), (State::Failed, "defect".to_owned()));
    assert_eq!(dead::waiting(&process.app, 10).await.unwrap().len(), 1);
    assert_eq!(harness.notifier.notices().len(), 1);
}

/// Turns the first write away, as DynamoDB does when somebody else writes the same at that moment.
struct SomebodyIsFaster {
    they: Arc<App>,
    target: Target,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for SomebodyIsFaster {
    async fn before(&self, call: &'static str) -> Injection {
        if call != "records.write" || self.done.swap(true, Ordering::SeqCst) {
            return Injection::None;
        }
        assert!(breakers::admit(&self.they, &self.target, "they", Duration::from_secs(120)).await.is_some());
        Injection::Refuse(Fault::Throttled { service: "test", retry_after: None })
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_from_the_probe_does_not_probe_as_well() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let they = harness.start("a");
    let id = they.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    they.finish(&id).await;
    let (target, _) = harness.vision.calls().remove(0);
    harness.advance(Duration::from_secs(31)).await;
    let faster = Arc::new(SomebodyIsFaster {
        they: they.app.clone(),
        target: target.clone(),
        done: Default::default(),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let we = harness.start_on("b", Arc::new(Faulty::new(records, faster)));
    assert!(breakers::admit(&we.app, &target, "we", Duration::from_secs(120)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tenant_s_longer_calls_make_no_second_probe() {
    let harness = Harness::new(&[("REQUEST_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    let (target, _) = harness.vision.calls().remove(0);
    harness.advance(Duration::from_secs(31)).await;
    let patient = breakers::admit(&process.app, &target, "patient", Duration::from_secs(300)).await;
    assert!(patient.is_some());
    let other = harness.start("b").app;
    harness.advance(Duration::from_secs(299)).await;
    assert!(breakers::admit(&other, &target, "other", Duration::from_secs(10)).await.is_none());
    harness.advance(Duration::from_secs(16)).await;
    assert!(breakers::admit(&other, &target, "other", Duration::from_secs(10)).await.is_some());
}

/// A worker elsewhere that stores its page after finalize's last look, and tells the flow before that
/// stops listening.
struct ReadAtTheLastMoment {
    worker: Arc<App>,
    driven: OnceLock<(Arc<App>, JobId)>,
    looking: AtomicBool,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for ReadAtTheLastMoment {
    async fn before(&self, call: &'static str) -> Injection {
        self.looking.store(call == "records.list", Ordering::SeqCst);
        Injection::None
    }

    async fn after(&self) {
        let (Some((driven, id)), true) = (self.driven.get(), self.looking.load(Ordering::SeqCst)) else {
            return;
        };
        let job = jobs::load(&self.worker, id).await.unwrap().value;
        if job.state != State::Audited || self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        let (worker, now) = (&self.worker, self.worker.clock.now());
        let claim = pages::claim(worker, id, page(1), 0, "worker", Duration::from_secs(60)).await.unwrap();
        let Claim::Granted(held) = claim else { panic!("nobody else works") };
        let target = Target::new(Provider::OpenAi, "gpt-5.4");
        let outcome = Outcome::read_by(target, "at last", vec![], now, now);
        pages::settle(worker, &job, &held, 0, outcome, Some("at last".into())).await.unwrap().unwrap();
        let told = driven.flow.settle(&LocalFlow::token(id, page(1))).await.unwrap();
        assert_eq!(told, Settlement::Accepted, "somebody still listens");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_stored_after_the_last_look_is_in_the_result_all_the_same() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "5s")]);
    let late = Arc::new(ReadAtTheLastMoment {
        worker: harness.start("worker").app,
        driven: OnceLock::new(),
        looking: AtomicBool::default(),
        done: AtomicBool::default(),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, late.clone())));
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    late.driven.set((process.app.clone(), id.clone())).ok().unwrap();
    // Nobody else works on the pages.
    let job = process.driver.drive(&id).await.unwrap();
    assert!(late.done.load(Ordering::SeqCst));
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert_eq!(process.result(&job).await.pages[0].text, "at last");
    invariants::trail_verifies(&process.app, &job).await;
}

/// A worker that settles a page between the two looks of whoever verifies.
struct SettledMeanwhile {
    worker: Arc<App>,
    job: Job,
    held: Kept<Page>,
    lists: AtomicUsize,
}

#[async_trait]
impl FaultInjector for SettledMeanwhile {
    async fn before(&self, call: &'static str) -> Injection {
        // The job's trail, its pages, and then their trails.
        if call == "records.list" && self.lists.fetch_add(1, Ordering::SeqCst) == 2 {
            let (worker, now) = (&self.worker, self.worker.clock.now());
            let late = Outcome::timed_out(vec![], now, now);
            pages::settle(worker, &self.job, &self.held, 0, late, None).await.unwrap().unwrap();
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_settled_while_its_trail_is_verified_is_no_tampering() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "5s")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    // Somebody has its page, and does not settle it in time.
    let claim = pages::claim(&process.app, &id, page(1), 0, "w", Duration::from_secs(60)).await.unwrap();
    let Claim::Granted(held) = claim else { panic!("nobody else works") };
    let job = process.driver.drive(&id).await.unwrap();
    let (worker, lists) = (process.app.clone(), AtomicUsize::default());
    let meanwhile = Arc::new(SettledMeanwhile { worker, job, held: *held, lists });
    let records: Arc<dyn Records> = harness.records.clone();
    let onlooker = harness.start_on("b", Arc::new(Faulty::new(records, meanwhile.clone()))).app;
    assert_eq!(verify_job(&onlooker, &id).await.unwrap().findings, Vec::<String>::new());
    assert!(meanwhile.lists.load(Ordering::SeqCst) > 3, "it was looked at once more");
}

#[tokio::test(start_paused = true)]
async fn many_healed_pages_make_few_versions_and_none_is_left_out() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "8"), ("MAX_INFLIGHT_PER_MODEL", "8")]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(60)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(Duration::from_secs(600)).await;
    harness.vision.set_behaviour(|target, page| {
        Reply::AnswerAfter(Duration::from_millis(200 + u64::from(page) * 20), read_by(target, page))
    });
    assert_eq!(heal::send(&process.app, &id, Duration::from_secs(300)).await.unwrap().len(), 60);
    process.work_for(Duration::from_secs(300)).await;
    assert!(harness.queue.is_empty());
    let job = process.job(&id).await;
    let document = process.result(&job).await;
    assert_eq!(document.metadata.final_ai_pages, 60);
    // At 8 pages a second or so they take about 8 seconds: a version every two of them.
    assert!(job.result.as_ref().unwrap().version < 12, "{:?}", job.result.map(|result| result.version));
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_dies_is_followed_by_another() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(Duration::from_secs(600)).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    heal::send(&process.app, &id, Duration::from_secs(300)).await.unwrap();
    // Somebody has the turn to publish, and is dead.
    assert!(healing::tell(&process.app, &id, "dead", Duration::from_secs(60)).await.unwrap().is_some());
    process.work_for(Duration::from_secs(30)).await;
    assert!(harness.queue.is_empty());
    assert_eq!(process.job(&id).await.result.unwrap().version, 1, "everybody relies on the dead one");
    assert_eq!(heal::take_over(&process.app).await.unwrap(), 0, "it may be alive");
    harness.advance(Duration::from_secs(31)).await;
    assert_eq!(heal::take_over(&process.app).await.unwrap(), 1);
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 3);
    assert_eq!(heal::take_over(&process.app).await.unwrap(), 0, "nothing is left to do");
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn a_page_that_comes_late_while_a_version_is_published_is_in_the_next() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    let (app, time) = (&process.app, Duration::from_secs(60));
    let turn = healing::tell(app, &id, "first", time).await.unwrap().expect("nobody is at it");
    assert!(healing::tell(app, &id, "second", time).await.unwrap().is_none(), "the first is at it");
    let turn = healing::finish(app, turn, time).await.unwrap().expect("the second told something");
    assert!(healing::finish(app, turn, time).await.unwrap().is_none());
    // One that took too long and was followed by another leaves it alone.
    let slow = healing::tell(app, &id, "slow", time).await.unwrap().expect("nobody is at it");
    harness.advance(Duration::from_secs(61)).await;
    let next = healing::tell(app, &id, "next", time).await.unwrap().expect("nobody is at it any more");
    assert!(healing::finish(app, slow, time).await.unwrap().is_none());
    assert!(healing::tell(app, &id, "third", time).await.unwrap().is_none(), "the next is still at it");
    assert!(healing::finish(app, next, time).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_job_that_was_cancelled_is_not_read_again() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, page| match page {
        1 => Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }),
        _ => Reply::Hang,
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let person = async {
        process.app.clock.sleep(Duration::from_secs(10)).await;
        cancel(&process.app, &id, "ann").await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = person => unreachable!() };
    assert_eq!((job.state, job.result.is_some()), (State::Cancelled, true));
    let (letters, calls) = (dead::waiting(&process.app, 10).await.unwrap(), harness.vision.calls().len());
    let refused = redrive::redrive(&process.app, &letters[0].value.id, "ann", None).await.unwrap_err();
    assert_eq!(refused.code(), "nothing_to_heal", "{refused}");
    process.work_for(Duration::from_secs(60)).await;
    assert_eq!(harness.vision.calls().len(), calls);
    assert_eq!(dead::waiting(&process.app, 10).await.unwrap().len(), 1, "a person may still purge it");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_gone_from_the_store_is_missed() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let kept = pages::find(&process.app, &id, page(2)).await.unwrap().unwrap();
    let gone = Change::Delete { key: pages::key(&id, page(2)), version: kept.version };
    process.app.write(vec![gone]).await.unwrap();
    let findings = verify_job(&process.app, &id).await.unwrap().findings;
    assert_eq!(findings, ["page 2: it has a trail and is gone itself"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_be_read_in_part_is_told_to_its_tenant_and_its_page_falls_back() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
    let tenant = TenantId::new("local");
    let responsible = [("DEFAULT_RESPONSIBLE".to_owned(), Some("ann@example.org".to_owned()))];
    tenants::change(&process.app, &tenant, &responsible).await.unwrap();
    harness.advance(Duration::from_secs(61)).await;
    // A field is lost on its way.
    let mut delivery = harness.queue.receive(1, Duration::from_secs(60)).await.unwrap().remove(0);
    let mut body: serde_json::Value = serde_json::from_str(&delivery.body).unwrap();
    body.as_object_mut().unwrap().remove("deadline");
    delivery.body = body.to_string();
    let process = harness.start("b");
    let handled = dispatch(&process.app, &delivery);
    let (job, disposition) = futures::future::join(process.driver.drive(&id), handled).await;
    assert_eq!(disposition, Disposition::Done);
    let (job, letter) = (job.unwrap(), dead::waiting(&process.app, 1).await.unwrap().remove(0).value);
    assert_eq!((&letter.tenant, &letter.correlation_id), (&tenant, &job.correlation_id));
    assert!(letter.reason.contains("deadline"), "{}", letter.reason);
    let told = harness.notifier.notices().remove(0).responsible;
    assert_eq!(told.as_deref(), Some("ann@example.org"));
    let document = process.result(&job).await;
    assert_eq!(
        (document.pages[0].source, document.metadata.timeout_occurred),
        (Source::MupdfFallback, false)
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_message_of_a_deleted_job_leaves_none_of_its_text() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut document = FakeDocument::graphics(1);
    document.pages[0].text = "the words of the document".into();
    let id = process.submit(&document).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let late = plan::manifest(&process.app, job.plan.as_ref().unwrap()).await.unwrap().remove(0);
    assert!(late.context_text.contains("the words of the document"));
    delete::delete(&process.app, &id, "ann").await.unwrap();
    let message = Outgoing { name: "late".into(), job: id, lane: Priority::Normal, body: late.encode() };
    harness.queue.send(&[message]).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    assert!(harness.queue.is_empty());
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert!(letters[0].value.reason.contains("there is no job"), "{}", letters[0].value.reason);
    let left = harness.records.dump().into_iter().filter(|item| item.draft.body.contains("the words"));
    assert_eq!(left.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_page_whose_image_alone_could_not_be_made_is_planned_for_ai_all_the_same() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.job(&id).await;
    let range = prepare::inspect(&process.app, &job).await.unwrap().remove(0);
    prepare::read_range(&process.app, &job, &range).await.unwrap();
    // Of this range page 2 could not be drawn.
    prepare::render_range(&process.app, &job, &range).await.unwrap();
    let key = format!("jobs/{id}/images/1-3.json");
    let mut made: Vec<serde_json::Value> =
        serde_json::from_slice(&harness.blobs.get(&key).await.unwrap().unwrap()).unwrap();
    made.remove(1);
    harness.blobs.delete(&key).await.unwrap();
    harness.blobs.put_new(&key, serde_json::to_vec(&made).unwrap()).await.unwrap();
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::Ai; 3]);
    assert_eq!(document.metadata.ai_pages, 3);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_for_another_reason_leaves_the_next_one_to_somebody_else() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("BREAKER_BASE_BACKOFF", "10s")]);
    let process = harness.start("a");
    // A bad key rests the whole provider. When it is mended, the first model that is asked is down.
    let (mended, asked) = (Arc::new(AtomicBool::default()), Arc::new(AtomicUsize::default()));
    let (key, probes) = (mended.clone(), asked.clone());
    harness.vision.set_behaviour(move |target, page| match target.provider {
        Provider::OpenAi if !key.load(Ordering::SeqCst) => {
            Reply::Fail(VisionError::Configuration { detail: "HTTP 401".into(), scope: Scope::Provider })
        }
        Provider::OpenAi if probes.fetch_add(1, Ordering::SeqCst) == 0 => Reply::down(),
        _ => Reply::AnswerAfter(Duration::from_secs(1), read_by(target, page)),
    });
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    mended.store(true, Ordering::SeqCst);
    harness.advance(Duration::from_secs(11)).await;
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let readers: Vec<String> = process
        .result(&job)
        .await
        .pages
        .iter()
        .map(|page| page.attempts.last().unwrap().target.to_string())
        .collect();
    assert_eq!(readers, ["openai:gpt-5.4-mini"; 3], "the provider is known to be well again");
}

/// Storage whose lists can't be had for a while.
#[derive(Default)]
struct NoLists(AtomicBool);

#[async_trait]
impl FaultInjector for NoLists {
    async fn before(&self, call: &'static str) -> Injection {
        match self.0.load(Ordering::SeqCst) && call == "records.list" {
            true => Injection::Refuse(Fault::unreachable("records", "made to fail")),
            false => Injection::None,
        }
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_delivery_that_led_to_nothing_are_not_forgotten() {
    let harness = Harness::new(&[]);
    let lists: Arc<NoLists> = Arc::default();
    let out = lists.clone();
    // The first model declines, for money; then the slots of the next can't be looked at.
    harness.vision.set_behaviour(move |target, page| match target.model.as_str() {
        "gpt-5.4" => {
            out.0.store(true, Ordering::SeqCst);
            Reply::Finish(Finish::Refusal, String::new())
        }
        _ => Reply::Answer(read_by(target, page)),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, lists.clone())));
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let mended = async {
        process.app.clock.sleep(Duration::from_secs(22)).await;
        harness.vision.set_behaviour(|target, page| match target.model.as_str() {
            "gpt-5.4" => Reply::down(),
            _ => Reply::Answer(read_by(target, page)),
        });
        lists.0.store(false, Ordering::SeqCst);
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { biased; job = process.finish(&id) => job, () = mended => unreachable!() };
    let document = process.result(&job).await;
    let results: Vec<AttemptResult> =
        document.pages[0].attempts.iter().map(|attempt| attempt.result).collect();
    assert_eq!(results, [AttemptResult::Refusal, AttemptResult::Transient, AttemptResult::Answered]);
    assert_eq!(document.metadata.cost_micro_usd.0, 2_000, "the refusal and the answer");
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_not_made_by_a_worker() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "8"), ("MAX_INFLIGHT_PER_MODEL", "8")]);
    let refuses = |target: &Target, page| match page {
        1 => Reply::Finish(Finish::Refusal, String::new()),
        _ => Reply::Answer(read_by(target, page)),
    };
    harness.vision.set_behaviour(refuses);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2001)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    assert_eq!(heal::send(&process.app, &id, Duration::from_secs(60)).await.unwrap(), [page(1)]);
    process.work_for(Duration::from_secs(10)).await;
    assert_eq!(process.job(&id).await.result.unwrap().version, 1, "the worker left it");
    assert_eq!(heal::take_over(&process.app).await.unwrap(), 1);
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 2001);
    assert_eq!(heal::take_over(&process.app).await.unwrap(), 0, "once is enough");
}
