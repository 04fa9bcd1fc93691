//! Models that fail, and the next one in the failover order.

use std::time::Duration;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everypage_core::{
    job::Status,
    ports::{
        clock::Clock,
        vision::{Finish, Scope, VisionError},
    },
    providers::target::Provider,
    read::{breakers, outcome::CallResult},
    source::Source,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{harness::Harness, invariants};

use crate::sources;

const MODELS: [&str; 4] = ["gpt-5.4", "gpt-5.4-mini", "claude-sonnet-4-6", "claude-opus-4-6"];

#[tokio::test(start_paused = true)]
async fn text_pages_are_read_by_mupdf_and_graphics_pages_by_a_model() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(10)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 10).await;
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::MUPDF, Source::AI].repeat(5));
    assert_eq!(harness.vision.calls().len(), 5);
    assert_eq!(document.metadata.credits, 5);
    assert_eq!(document.metadata.cost_micro_usd.0, 5_000);
    assert!(harness.queue.is_empty());
    assert_eq!(job.status(), Status::Success);
}

#[tokio::test(start_paused = true)]
async fn a_page_fails_over_and_lists_its_model_calls() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("BREAKER_FAILURE_THRESHOLD", "1")]);
    harness.vision.set_behaviour(|target, page| {
        if target.model == "gpt-5.4" { Reply::down() } else { Reply::Answer(read_by(target, page)) }
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::AI; 3]);
    let results: Vec<CallResult> = document.pages[0].calls.iter().map(|call| call.result).collect();
    assert_eq!(results, [CallResult::Transient, CallResult::Answered]);
    // The breaker is open by then: the failing model is skipped.
    assert_eq!(document.pages[2].calls[0].result, CallResult::BreakerOpen);
    assert_eq!(harness.vision.calls_to("gpt-5.4"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_has_every_page_when_every_provider_is_down() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 20).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::MUPDF_TIMEOUT_FALLBACK; 20]);
    assert!(document.metadata.timeout_occurred, "the whole deadline was used");
    for model in MODELS {
        // One wave, then one probe at a time, at most ten seconds apart.
        let calls = harness.vision.calls_to(model);
        assert!(calls <= 20 + 50, "{calls} calls to {model} in an outage");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_model_is_called_only_by_the_first_wave_of_pages() {
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
    for hanging in ["gpt-5.4", "gpt-5.4-mini"] {
        let calls = harness.vision.calls_to(hanging);
        println!("calls to {hanging}, which hangs: {calls}");
        assert!(calls <= 21, "{calls} calls to {hanging}");
    }
    assert!(harness.vision.max_in_flight("claude-sonnet-4-6") <= 20);
}

#[tokio::test(start_paused = true)]
async fn each_class_of_error_fails_over_and_is_counted_by_its_breaker() {
    type Case = (VisionError, &'static str);
    let detail = || "what happened".to_owned();
    let cases: [Case; 5] = [
        (VisionError::Transient { detail: detail(), retry_after: None }, "openai:gpt-5.4"),
        // A matter of pace, and of this page: the model is well.
        (VisionError::Exhausted { detail: detail(), retry_after: None, allowance: Box::default() }, ""),
        (VisionError::Request { detail: detail() }, ""),
        (VisionError::Configuration { detail: detail(), scope: Scope::Provider }, "openai:*"),
        (VisionError::Configuration { detail: detail(), scope: Scope::Model }, "openai:gpt-5.4"),
    ];
    for (error, breaker) in cases {
        let harness = Harness::new(&[]);
        let returned = error.clone();
        harness.vision.set_behaviour(move |target, page| {
            if target.model == "gpt-5.4" {
                Reply::Fail(returned.clone())
            } else {
                Reply::Answer(read_by(target, page))
            }
        });
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
        let job = process.finish(&id).await;
        assert_eq!(process.result(&job).await.pages[0].source, Source::AI, "{error:?}");
        let open: Vec<String> = breakers::all(&process.app.reader.breakers)
            .await
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(open, if breaker.is_empty() { vec![] } else { vec![breaker.to_owned()] }, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_with_an_unusable_answer_goes_to_the_next_model() {
    for (reply, expected) in [
        (Reply::Answer(String::new()), CallResult::Empty),
        (Reply::Finish(Finish::Length, "cut".into()), CallResult::Truncated),
        (Reply::Finish(Finish::Refusal, "no".into()), CallResult::Refusal),
        (Reply::Answer("again and again\n".repeat(50)), CallResult::Repeating),
    ] {
        let harness = Harness::new(&[]);
        harness.vision.set_behaviour(move |target, page| {
            if target.model == "gpt-5.4" { reply.clone() } else { Reply::Answer(read_by(target, page)) }
        });
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let page = &process.result(&job).await.pages[0];
        assert_eq!((page.source, page.calls[0].result), (Source::AI, expected));
        // The model answered, so its breaker stays closed.
        assert!(breakers::all(&process.app.reader.breakers).await.unwrap().is_empty());
    }
}

/// Where the page can be rendered once more; the worker on AWS has no parser.
#[tokio::test(start_paused = true)]
async fn a_model_that_leaves_words_out_is_called_once_more_with_a_sharper_image() {
    const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen \
                         fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two";
    for (answers_after, expected) in [(1, Some("gpt-5.4")), (9, Some("gpt-5.4-mini"))] {
        let harness = Harness::new(&[]);
        let calls = Arc::new(AtomicUsize::new(0));
        harness.vision.set_behaviour(move |target, _| match target.model.as_str() {
            "gpt-5.4" if calls.fetch_add(1, Ordering::SeqCst) < answers_after => Reply::Answer("one".into()),
            _ => Reply::Answer(WORDS.into()),
        });
        let process = harness.start("a");
        let mut document = FakeDocument::graphics(1);
        document.pages[0].text = WORDS.into();
        let id = process.submit(&document).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let page = process.result(&job).await.pages.remove(0);
        assert_eq!(page.read_by.model.as_deref(), expected, "{:?}", page.calls);
        assert_eq!(harness.vision.calls_to("gpt-5.4"), 2, "once, and once more");
        assert_eq!(page.calls[0].result, CallResult::Incomplete);
    }
}

const LAYER: &str = "the committee met on tuesday to discuss the annual report and a budget for next year while \
                     members asked for clearer statements of risk and closed early";
const OTHER: &str = "our newsletter introduces three colleagues who joined marketing last spring and explains why \
                     parking permits must be renewed online before friday because paper forms disappear";

/// One page with a sound text layer, read by models that answer as `answer` says; the page of its result.
async fn page_read_with(answer: fn(&str) -> &'static str) -> everypage_core::finish::result::PageResult {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(move |target, _| Reply::Answer(answer(&target.model).into()));
    let process = harness.start("a");
    let mut document = FakeDocument::graphics(1);
    document.pages[0].text = LAYER.into();
    let id = process.submit(&document).await.unwrap().job.id;
    let job = process.finish(&id).await;
    process.result(&job).await.pages.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_model_that_invents_a_page_is_not_called_again_for_it() {
    let page = page_read_with(|model| if model == "gpt-5.4" { OTHER } else { LAYER }).await;
    let results: Vec<CallResult> = page.calls.iter().map(|call| call.result).collect();
    assert_eq!(results, [CallResult::Invented, CallResult::Answered], "{:?}", page.calls);
    assert!(page.calls[0].detail.contains("of the answer is not on the page"), "{}", page.calls[0].detail);
    assert_eq!(page.read_by.model.as_deref(), Some("gpt-5.4-mini"));
    assert_eq!(page.confidence.map(|confidence| confidence.get()), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_text_that_two_models_give_is_accepted_against_the_text_layer() {
    let page = page_read_with(|_| OTHER).await;
    let results: Vec<CallResult> = page.calls.iter().map(|call| call.result).collect();
    assert_eq!(results, [CallResult::Invented, CallResult::Answered], "{:?}", page.calls);
    assert_eq!((page.text.as_str(), page.confidence), (OTHER, None));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_api_key_sends_one_notice() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| match target.provider {
        Provider::OpenAi => {
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
