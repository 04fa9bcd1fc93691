//! OCR while models work, at the deadline, and alone.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    document::TableStyle,
    finish::{format::Format, produce},
    ports::vision::VisionError,
    prepare::recognized_page,
    source::Source,
};
use everypage_testkit::{
    ocr::{FakeOcr, RECOGNIZED},
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, seconds},
    invariants,
};

use crate::sources;

const NO_KEYS: [(&str, &str); 2] = [("OPENAI_API_KEY", ""), ("ANTHROPIC_API_KEY", "")];

/// A harness whose OCR takes `time` for a page.
fn harness(settings: &[(&str, &str)], time: Duration) -> (Harness, Arc<FakeOcr>) {
    let mut harness = Harness::new(settings);
    let ocr = Arc::new(FakeOcr::new(harness.clock.clone(), time));
    harness.ocr = ocr.clone();
    (harness, ocr)
}

#[tokio::test(start_paused = true)]
async fn without_an_api_key_a_scan_is_recognized_and_the_job_ends_with_it() {
    let (harness, _) = harness(&NO_KEYS, Duration::from_secs(2));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::scan(5)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 5).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::OCR; 5]);
    assert!(document.pages.iter().all(|page| page.text == RECOGNIZED && page.confidence.is_some()));
    assert_eq!((document.metadata.final_ocr_pages, document.metadata.missing_pages), (5, 0));
    assert!(!document.metadata.timeout_occurred);
    // Two at a time.
    assert!(seconds(harness.clock.as_ref()) < 8.0, "{}", seconds(harness.clock.as_ref()));
}

/// One scanned sheet in a German document: its language is added to that of the settings, if there is data for it.
#[tokio::test(start_paused = true)]
async fn a_scan_is_recognized_in_the_languages_of_the_other_pages() {
    let (both, english) = (&["eng", "deu"][..], &["eng"][..]);
    for (installed, expected) in [(both, both), (english, english)] {
        let mut harness = Harness::new(&NO_KEYS);
        let ocr = FakeOcr::new(harness.clock.clone(), Duration::from_secs(1)).with_languages(installed);
        let ocr = Arc::new(ocr);
        harness.ocr = ocr.clone();
        let process = harness.start("a");
        let mut document = FakeDocument::mixed(3);
        document.pages[0].text = "Der Hafen ist zu und die Boote werden nicht fahren. ".repeat(5);
        document.pages[1] = FakeDocument::scan(1).pages.remove(0);
        let id = process.submit(&document).await.unwrap().job.id;
        process.finish(&id).await;
        assert_eq!(ocr.requested(), [expected.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()]);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_ocr_delays_no_page_that_an_ai_reads() {
    let (harness, ocr) = harness(&[], Duration::from_secs(1000));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::scan(300)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::AI; 300]);
    assert_eq!(ocr.pages().1, 0);
    // As long as without OCR, and a second for the last look.
    assert!(seconds(harness.clock.as_ref()) < 30.0, "{}", seconds(harness.clock.as_ref()));
}

#[tokio::test(start_paused = true)]
async fn what_ocr_has_by_the_deadline_is_in_the_result_and_the_deadline_is_kept() {
    let (harness, ocr) = harness(&[("JOB_TIMEOUT", "10s")], Duration::from_secs(3));
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::scan(10)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(seconds(harness.clock.as_ref()) < 11.0, "{}", seconds(harness.clock.as_ref()));
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 10).await;
    let document = process.result(&job).await;
    let recognized = document.pages.iter().filter(|page| page.source == Source::OCR_TIMEOUT_FALLBACK);
    assert!(recognized.clone().all(|page| page.text == RECOGNIZED && page.has_text));
    assert_eq!(recognized.count(), 6, "{:?}", sources(&document));
    let missing = document.pages.iter().filter(|page| page.source == Source::MUPDF_TIMEOUT_FALLBACK);
    assert_eq!(missing.filter(|page| !page.has_text).count(), 4);
    assert_eq!(document.metadata.final_timeout_fallback_pages, 10);
    // Those in progress were stopped.
    assert_eq!(ocr.pages(), (8, 6));
}

#[tokio::test(start_paused = true)]
async fn pages_that_were_given_up_are_recognized_before_the_result() {
    let (harness, _) = harness(&[("PATIENCE", "0")], Duration::from_secs(20));
    harness.vision.set_behaviour(|target, page| match page {
        2 | 3 => Reply::Fail(VisionError::Request { detail: "400".into() }),
        _ => Reply::Answer(read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::scan(4)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    let (ai, ocr) = (Source::AI, Source::OCR_FALLBACK);
    assert_eq!(sources(&document), [ai, ocr, ocr, ai]);
    assert!(document.pages[1].fallback_reason.is_some());
    assert_eq!(document.metadata.mupdf_fallback_count, 2);
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn another_process_goes_on_where_a_killed_one_was() {
    let (harness, ocr) = harness(&NO_KEYS, Duration::from_secs(10));
    let first = harness.start("a");
    let id = first.submit(&FakeDocument::scan(6)).await.unwrap().job.id;
    assert!(first.kill_after(&id, Duration::from_secs(15)).await.is_none());
    let job = first.job(&id).await;
    let blobs = first.app.blobs.as_ref();
    assert!(recognized_page(blobs, &id, invariants::page(2)).await.unwrap().is_some());
    assert!(recognized_page(blobs, &id, invariants::page(3)).await.unwrap().is_none());
    assert!(job.result.is_none());
    let second = harness.start("b");
    let job = second.finish(&id).await;
    assert_eq!(sources(&second.result(&job).await), [Source::OCR; 6]);
    // Two pages were in progress when the first died; the two before were not done again.
    assert_eq!(ocr.pages(), (8, 6));
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_recognize_the_same_pages_publish_one_result() {
    let (harness, _) = harness(&NO_KEYS, Duration::from_secs(10));
    let (a, b) = (harness.start("a"), harness.start("b"));
    let id = a.submit(&FakeDocument::scan(3)).await.unwrap().job.id;
    let (first, second) = tokio::join!(a.finish(&id), b.finish(&id));
    assert_eq!(first.result, second.result);
    assert_eq!(sources(&a.result(&first).await), [Source::OCR; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_crashes_ocr_is_not_tried_again_and_says_why() {
    let mut harness = Harness::new(&NO_KEYS);
    let ocr = Arc::new(FakeOcr::failing(harness.clock.clone()));
    harness.ocr = ocr.clone();
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::scan(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    assert_eq!((sources(&document), ocr.pages()), (vec![Source::MUPDF; 2], (2, 2)));
    assert!(document.pages.iter().all(|page| !page.has_text));
    assert_eq!(document.pages[0].fallback_reason.as_deref(), Some("it crashed"));
}

#[tokio::test(start_paused = true)]
async fn an_encrypted_scan_is_recognized_though_its_password_is_gone() {
    let (harness, _) = harness(&NO_KEYS, Duration::from_secs(1));
    let process = harness.start("a");
    let document = FakeDocument { password: Some("open sesame".into()), ..FakeDocument::scan(2) };
    let submitted = process.submit_with(&document, |_| {}, Some("open sesame"), None).await.unwrap();
    let job = process.finish(&submitted.job.id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::OCR; 2]);
}

#[tokio::test(start_paused = true)]
async fn ocr_can_be_off_always_on_or_without_its_languages() {
    for (settings, recognized) in [
        ([("OCR", "off"), ("OCR_LANGUAGES", "eng")], [false, false]),
        ([("OCR", "auto"), ("OCR_LANGUAGES", "eng")], [true, false]),
        ([("OCR", "always"), ("OCR_LANGUAGES", "eng")], [true, true]),
        ([("OCR", "auto"), ("OCR_LANGUAGES", "tlh")], [false, false]),
    ] {
        let (harness, _) = harness(&[&NO_KEYS[..], &settings].concat(), Duration::from_secs(1));
        let process = harness.start("a");
        let mut document = FakeDocument::scan(2);
        document.pages[1] = FakeDocument::mixed(1).pages[0].clone();
        let id = process.submit(&document).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let document = process.result(&job).await;
        let found: Vec<bool> = sources(&document).iter().map(|source| *source == Source::OCR).collect();
        assert_eq!(found, recognized, "{settings:?}");
        // Never a page whose silence is not explained.
        assert!(
            document
                .pages
                .iter()
                .all(|page| page.has_text || page.fallback_reason.is_some() || settings[0].1 == "off")
        );
    }
}

const SCANNED: &str = "The quay was built in 1894 and cost the council 12,500 pounds; herons and gulls still watch \
    the fishing boats from its northern end every evening in summer.";

fn settled_after(milliseconds: u64, text: &str) -> Reply {
    Reply::AnswerAfter(Duration::from_millis(milliseconds), text.to_owned())
}

/// Two of the pages are read before idle OCR gets to them, two while it is at them, and one takes the models a minute.
#[tokio::test(start_paused = true)]
async fn scans_that_a_fast_model_read_are_checked_while_others_are_still_read() {
    // Whether the confidence is high, of pages that have one.
    let agree = |page| Some(page != 2);
    for (checks, expected) in [("on", [1, 2, 3, 4, 5].map(agree)), ("off", [None; 5])] {
        let mut harness = Harness::new(&[("CHECK_ANSWERS", checks), ("HEDGE", "off")]);
        let ocr = FakeOcr::new(harness.clock.clone(), Duration::from_secs(2)).reading(SCANNED);
        harness.ocr = Arc::new(ocr);
        harness.vision.set_behaviour(|_, page| match page {
            2 => settled_after(100, "Something else was written here by a model that saw no page"),
            5 => settled_after(60_000, SCANNED),
            _ => settled_after(100, SCANNED),
        });
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::scan(5)).await.unwrap().job.id;
        let job = process.finish(&id).await;
        let document = process.result(&job).await;
        // Nothing is rejected after it was accepted.
        assert_eq!(sources(&document), [Source::AI; 5]);
        let agree: Vec<Option<bool>> =
            document.pages.iter().map(|page| page.confidence.map(|share| share.get() > 0.5)).collect();
        assert_eq!(agree, expected, "CHECK_ANSWERS={checks}");
        // The first model is cut off after 10 s, much longer than its other calls took; the second takes 60 s.
        assert!(seconds(harness.clock.as_ref()) < 73.0, "{}", seconds(harness.clock.as_ref()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_of_ocr_are_a_format_of_the_result() {
    let mut harness = Harness::new(&NO_KEYS);
    harness.ocr = Arc::new(FakeOcr::new(harness.clock.clone(), Duration::from_secs(1)).reading("Quay walls"));
    let process = harness.start("a");
    let mut document = FakeDocument::scan(2);
    document.pages[0] = FakeDocument::mixed(1).pages[0].clone();
    let id = process.submit(&document).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let made = produce::read(&process.app.preparer, &job, Format::Words, TableStyle::default(), None).await;
    let text = String::from_utf8(made.unwrap().unwrap()).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!((&line["page"], &line["source"]), (&2.into(), &"ocr".into()));
    let expected = serde_json::json!([
        { "text": "Quay", "box": [50, 100, 85, 112], "line": 0, "confidence": 0.9 },
        { "text": "walls", "box": [90, 100, 125, 112], "line": 0, "confidence": 0.9 },
    ]);
    assert_eq!(line["words"], expected);
}
