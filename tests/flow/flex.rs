//! The cheaper, slower tier of a provider: used while there is time, and left when it comes to nothing.

use std::sync::Arc;

use everypage_core::{
    ids::Priority,
    job::{Job, JobOptions},
    ports::vision::{Scope, VisionError},
    read::breakers,
    settings::Cost,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process},
    invariants,
};

const HOUR_MS: u64 = 3_600_000;

async fn finished(process: &Process, change: impl FnOnce(&mut JobOptions)) -> Job {
    let document = FakeDocument::graphics(4);
    let id = process.submit_with(&document, change, None, None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    job
}

#[tokio::test(start_paused = true)]
async fn cheap_jobs_with_time_to_spare_use_it() {
    let cheap = |options: &mut JobOptions| (options.cost, options.job_timeout_ms) = (Cost::Low, HOUR_MS);
    let low = |options: &mut JobOptions| {
        (options.priority, options.job_timeout_ms) = (Priority::Low, HOUR_MS);
    };
    let hasty = |options: &mut JobOptions| options.cost = Cost::Low;
    let normal = |options: &mut JobOptions| options.job_timeout_ms = HOUR_MS;
    type Change<'a> = &'a dyn Fn(&mut JobOptions);
    let table: [(Change<'_>, usize); 4] = [(&cheap, 4), (&low, 4), (&hasty, 0), (&normal, 0)];
    for (change, expected) in table {
        let harness = Harness::new(&[]);
        harness.vision.add_flex();
        finished(&harness.start("a"), change).await;
        assert_eq!((harness.vision.flex_calls().len(), harness.vision.calls().len()), (expected, 4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_goes_over_to_the_standard_tier_when_the_cheap_one_comes_to_nothing() {
    for reply in [
        Reply::Hang,
        Reply::Fail(VisionError::Exhausted {
            detail: "429".into(),
            retry_after: None,
            allowance: Box::default(),
        }),
        Reply::down(),
        Reply::Fail(VisionError::Request { detail: "400: no flex for this model".into() }),
        Reply::Fail(VisionError::Configuration {
            detail: "404: no flex for this model".into(),
            scope: Scope::Model,
        }),
        Reply::Fail(VisionError::Unknown { detail: "418".into() }),
    ] {
        let harness = Harness::new(&[("FAILOVER", "openai:gpt-5.4")]);
        harness.vision.add_flex();
        let vision = Arc::downgrade(&harness.vision);
        harness.vision.set_behaviour(move |target, page| {
            let called = vision
                .upgrade()
                .map_or(0, |vision| vision.calls().iter().filter(|(_, of)| *of == page).count());
            if called == 1 { reply.clone() } else { Reply::Answer(read_by(target, page)) }
        });
        let process = harness.start("a");
        let job = finished(&process, |options| {
            (options.cost, options.job_timeout_ms) = (Cost::Low, HOUR_MS);
        });
        let job = job.await;
        let document = process.result(&job).await;
        assert_eq!(document.metadata.final_ai_pages, 4);
        assert_eq!((harness.vision.flex_calls().len(), harness.vision.calls().len()), (4, 8));
        for page in &document.pages {
            assert_eq!(page.calls.iter().map(|call| call.is_flex).collect::<Vec<_>>(), [true, false]);
        }
        assert!(breakers::all(&process.app.reader.breakers).await.unwrap().is_empty());
    }
}
