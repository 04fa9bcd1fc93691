//! Circuit breakers: cooldown, probes, and what does not open one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    event::Aggregate,
    events::trail,
    ports::{
        Fault,
        clock::Clock,
        records::Records,
        vision::{Scope, VisionError},
    },
    providers::target::{Provider, Target},
    read::{
        breaker::{FailureKind, State, Urgency},
        breakers::{self, Guarded},
    },
};
use everypage_testkit::{
    faulty::{FaultInjector, Faulty, Injection},
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, seconds};

#[tokio::test(start_paused = true)]
async fn a_job_deadline_opens_no_breaker() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    process.work_for(Duration::from_secs(1)).await;
    assert!(
        breakers::all(&process.app.reader.breakers)
            .await
            .unwrap()
            .iter()
            .all(|(_, breaker)| breaker.trips == 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_successful_probe_after_the_cooldown_brings_a_model_back() {
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
    let opened = trail::read(&process.app.store, &Aggregate::Breaker("openai:gpt-5.4".into())).await.unwrap();
    let kinds: Vec<&str> = opened.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["breaker.opened", "breaker.half_open", "breaker.closed"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_probe_allows_another_one() {
    let harness = Harness::new(&[
        ("JOB_TIMEOUT", "45s"),
        ("WORKER_CONCURRENCY", "1"),
        ("BREAKER_FAILURE_THRESHOLD", "1"),
        ("HEDGE", "off"),
    ]);
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "gpt-5.4" if page == 1 => Reply::down(),
        "gpt-5.4" => Reply::Hang,
        _ => Reply::AnswerAfter(Duration::from_secs(6), read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    process.finish(&id).await;
    // The probe, 30 s after the failure, has half of the time left, which is too little to judge the model.
    assert!(harness.vision.calls_to("gpt-5.4") >= 2);
    let (_, breaker) = breakers::all(&process.app.reader.breakers).await.unwrap().remove(0);
    assert!(
        breaker.lets_through(Urgency::Normal, harness.clock.now(), &process.app.settings.breaker),
        "{breaker:?}"
    );
}

/// Another process had looked at the breaker before the failures, and its call took long.
#[tokio::test(start_paused = true)]
async fn a_success_resets_the_failures_that_other_processes_have_counted() {
    let harness = Harness::new(&[]);
    let (a, b) = (harness.start("a").app, harness.start("b").app);
    let target = Target::new(Provider::OpenAi, "gpt-5.4");
    let time = Duration::from_secs(120);
    let admit = async |app: &Arc<App>| {
        breakers::admit(&app.reader.breakers, &target, "worker", Urgency::Normal, time).await.unwrap()
    };
    let fail = async |app: &Arc<App>| {
        let passes = admit(app).await;
        let kind = FailureKind::Transient;
        breakers::failed(&app.reader.breakers, &target, &passes, false, kind, "503", None).await
    };
    let slow = admit(&b).await;
    assert!(fail(&a).await && fail(&a).await);
    harness.advance(Duration::from_secs(5)).await;
    breakers::succeeded(&b.reader.breakers, &target, &slow).await;
    assert!(fail(&a).await);
    let name = Guarded::Model(target.clone()).name();
    let (breaker, _) = breakers::stored(&a.store, &name).await.unwrap();
    assert_eq!((breaker.state, breaker.failures), (State::Closed, 1), "two failures, a success, a failure");
}

#[tokio::test(start_paused = true)]
async fn successes_read_a_breaker_once_a_second() {
    let harness = Harness::new(&[]);
    let app = harness.start("a").app;
    let target = Target::new(Provider::OpenAi, "gpt-5.4");
    let breakers = &app.reader.breakers;
    let time = Duration::from_secs(120);
    let passes = breakers::admit(breakers, &target, "worker", Urgency::Normal, time).await.unwrap();
    harness.advance(Duration::from_secs(5)).await;
    let before = harness.faults.calls();
    for _ in 0..50 {
        breakers::succeeded(breakers, &target, &passes).await;
        harness.advance(Duration::from_millis(10)).await;
    }
    assert_eq!(harness.faults.calls() - before, 1, "the model's and the provider's in one request");
}

/// The first failure opens a breaker.
const THRESHOLD: (&str, &str) = ("BREAKER_FAILURE_THRESHOLD", "1");

/// Refuses the first write, like DynamoDB when another process writes the same record at that moment.
struct OtherProcessProbesFirst {
    other: Arc<App>,
    target: Target,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for OtherProcessProbesFirst {
    async fn before(&self, call: &'static str) -> Injection {
        if call != "records.write" || self.done.swap(true, Ordering::SeqCst) {
            return Injection::None;
        }
        assert!(
            breakers::admit(
                &self.other.reader.breakers,
                &self.target,
                "other",
                Urgency::Normal,
                Duration::from_secs(120)
            )
            .await
            .is_some()
        );
        Injection::Refuse(Fault::Throttled { service: "test", retry_after: None })
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_probe_is_refused_does_not_probe() {
    let harness = Harness::new(&[("PATIENCE", "0"), THRESHOLD]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let other = harness.start("a");
    let id = other.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    other.finish(&id).await;
    let (target, _) = harness.vision.calls().remove(0);
    harness.advance(Duration::from_secs(31)).await;
    let injector = Arc::new(OtherProcessProbesFirst {
        other: other.app.clone(),
        target: target.clone(),
        done: Default::default(),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("b", Arc::new(Faulty::new(records, injector.clone())));
    assert!(
        breakers::admit(
            &process.app.reader.breakers,
            &target,
            "this process",
            Urgency::Normal,
            Duration::from_secs(120)
        )
        .await
        .is_none()
    );
    assert!(injector.done.load(Ordering::SeqCst), "the other process has probed");
}

#[tokio::test(start_paused = true)]
async fn a_longer_request_timeout_allows_no_second_probe() {
    let harness = Harness::new(&[("REQUEST_TIMEOUT", "10s"), ("PATIENCE", "0"), THRESHOLD]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    let (target, _) = harness.vision.calls().remove(0);
    harness.advance(Duration::from_secs(31)).await;
    let patient = breakers::admit(
        &process.app.reader.breakers,
        &target,
        "patient",
        Urgency::Normal,
        Duration::from_secs(300),
    )
    .await;
    assert!(patient.is_some());
    let other = harness.start("b").app;
    harness.advance(Duration::from_secs(299)).await;
    assert!(
        breakers::admit(&other.reader.breakers, &target, "other", Urgency::Normal, Duration::from_secs(10))
            .await
            .is_none()
    );
    harness.advance(Duration::from_secs(16)).await;
    assert!(
        breakers::admit(&other.reader.breakers, &target, "other", Urgency::Normal, Duration::from_secs(10))
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_a_model_that_is_down_leaves_the_provider_to_the_next_probe() {
    let harness = Harness::new(&[
        ("WORKER_CONCURRENCY", "1"),
        ("BREAKER_BASE_BACKOFF", "10s"),
        ("BREAKER_FAILURE_THRESHOLD", "1"),
    ]);
    let process = harness.start("a");
    // A rejected key opens the breaker of the whole provider. When the key works again, the first model
    // that is probed is down.
    let (key_works, probed) = (Arc::new(AtomicBool::default()), Arc::new(AtomicUsize::default()));
    let (key, probes) = (key_works.clone(), probed.clone());
    harness.vision.set_behaviour(move |target, page| match target.provider {
        Provider::OpenAi if !key.load(Ordering::SeqCst) => {
            Reply::Fail(VisionError::Configuration { detail: "HTTP 401".into(), scope: Scope::Provider })
        }
        Provider::OpenAi if probes.fetch_add(1, Ordering::SeqCst) == 0 => Reply::down(),
        _ => Reply::AnswerAfter(Duration::from_secs(1), read_by(target, page)),
    });
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    key_works.store(true, Ordering::SeqCst);
    harness.advance(Duration::from_secs(11)).await;
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let readers: Vec<String> = process
        .result(&job)
        .await
        .pages
        .iter()
        .map(|page| page.calls.last().unwrap().target.to_string())
        .collect();
    assert_eq!(readers, ["openai:gpt-5.4-mini"; 3], "the provider's breaker is closed again");
}
