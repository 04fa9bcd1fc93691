//! However a provider fails, every page ends with text, within the deadline.

use everypage_testkit::sample_pdf;
use futures::future::join_all;

use crate::support::Bench;

/// Names of the scripted provider's grammar.
const BEHAVIOURS: [&str; 17] = [
    "garbage",
    "html",
    "wrong-json",
    "half-body",
    "drip",
    "hang",
    "huge",
    "refusal",
    "truncated",
    "loop",
    "empty",
    "reset",
    "500",
    "429",
    "quota",
    "401",
    "404",
];
const PAGES: u32 = 3;

/// Runs the program with a provider that follows `rule`, patient or not, and checks each page.
async fn run(rule: &str, patience: &str, exit: i32, wanted: impl Fn(&serde_json::Value) -> bool) {
    let bench = Bench::new(&[rule])
        .await
        .with("REQUEST_TIMEOUT", "600ms")
        .with("JOB_TIMEOUT", "25s")
        .with("PATIENCE", patience)
        .with("MAX_INFLIGHT_PER_MODEL", "4")
        .with("IMAGE_DPI", "20");
    let file = bench.path("report.pdf");
    std::fs::write(&file, sample_pdf::with_pictures(PAGES)).unwrap();
    let out = bench.path("out");
    let ran = bench.run(&["process", &file, "-o", &out, "--format", "json", "--quiet"]).await;
    assert_eq!(ran.code, exit, "{rule}: {}", ran.stderr);
    let result: serde_json::Value = serde_json::from_str(&bench.read("out/report.json")).unwrap();
    assert_eq!(result["metadata"]["timeout_occurred"], false, "{rule}");
    let pages = result["pages"].as_array().unwrap();
    assert_eq!(pages.len(), PAGES as usize, "{rule}");
    for (page, number) in pages.iter().zip(1..) {
        assert!(page["text"].as_str().unwrap().starts_with(&format!("Chapter {number}")), "{rule}: {page}");
        assert!(wanted(page), "{rule}: {page}");
    }
    let job = bench.job().await;
    let shown = bench.run(&["jobs", "show", &job, "--json"]).await.json();
    assert_eq!(shown["state"], "AUDITED", "{rule}");
}

#[tokio::test]
async fn when_all_models_fail_every_page_has_mupdfs_text() {
    for some in BEHAVIOURS.chunks(6) {
        join_all(some.iter().map(|rule| {
            run(rule, "2s", 3, |page| {
                let calls = page["calls"].as_array().unwrap();
                page["source"] == "mupdf_fallback" && page["fallback_reason"].is_string() && !calls.is_empty()
            })
        }))
        .await;
    }
}

#[tokio::test]
async fn when_one_provider_fails_the_other_reads_the_pages() {
    for some in BEHAVIOURS.chunks(4) {
        let rules: Vec<String> = some.iter().map(|behaviour| format!("openai:*={behaviour}")).collect();
        join_all(rules.iter().map(|rule| {
            run(rule, "deadline", 0, |page| page["source"] == "ai" && page["model"] == "claude-sonnet-4-6")
        }))
        .await;
    }
}

#[tokio::test]
async fn a_page_that_one_model_rejects_is_sent_to_the_next_and_to_each_once() {
    for some in [["400", "413", "422"]] {
        let to_each = some.map(|status| (status.to_owned(), 3, 4));
        let to_the_next = some.map(|status| (format!("openai:gpt-5.4={status}"), 0, 2));
        join_all(to_each.iter().chain(&to_the_next).map(|(rule, exit, calls)| {
            run(rule, "deadline", *exit, |page| page["calls"].as_array().unwrap().len() == *calls)
        }))
        .await;
    }
}
