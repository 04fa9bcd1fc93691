//! However a provider misbehaves, every page ends with text, inside the deadline.

use everypage_testkit::sample_pdf;
use futures::future::join_all;

use crate::support::Bench;

/// As the scripted provider's grammar names them.
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

/// One run of the program; `rule` decides what the models do.
async fn run(rule: &str, exit: i32, wanted: impl Fn(&serde_json::Value) -> bool) {
    let bench = Bench::new(&[rule])
        .await
        .with("REQUEST_TIMEOUT", "600ms")
        .with("JOB_TIMEOUT", "15s")
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
async fn when_all_models_misbehave_every_page_has_mupdfs_text() {
    for some in BEHAVIOURS.chunks(4) {
        join_all(some.iter().map(|rule| {
            run(rule, 3, |page| {
                let attempts = page["attempts"].as_array().unwrap();
                page["source"] == "mupdf_fallback" && page["why"].is_string() && !attempts.is_empty()
            })
        }))
        .await;
    }
}

#[tokio::test]
async fn when_one_provider_misbehaves_the_other_reads_the_pages() {
    for some in BEHAVIOURS.chunks(4) {
        let rules: Vec<String> = some.iter().map(|behaviour| format!("openai:*={behaviour}")).collect();
        join_all(
            rules.iter().map(|rule| {
                run(rule, 0, |page| page["source"] == "ai" && page["model"] == "claude-sonnet-4-6")
            }),
        )
        .await;
    }
}

#[tokio::test]
async fn a_page_that_no_model_takes_is_not_sent_to_all_of_them() {
    for some in [["400", "413", "422"]] {
        join_all(
            some.iter().map(|rule| run(rule, 3, |page| page["attempts"].as_array().unwrap().len() == 1)),
        )
        .await;
    }
}
