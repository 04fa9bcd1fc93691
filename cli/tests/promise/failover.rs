//! Dead models cost one wave of calls each, not one call per page.

use everypage_testkit::sample_pdf;

use crate::support::Bench;

#[tokio::test]
async fn two_models_hang_and_two_hundred_pages_are_read() {
    let bench = Bench::new(&["openai:*=hang", "answer"])
        .await
        .with("REQUEST_TIMEOUT", "3s")
        .with("WORKER_CONCURRENCY", "20")
        .with("MAX_INFLIGHT_PER_MODEL", "20");
    let file = bench.path("report.pdf");
    std::fs::write(&file, sample_pdf::with_pictures(200)).unwrap();
    let out = bench.path("out");
    let ran = bench.run(&["process", &file, "-o", &out, "--format", "json", "--quiet"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: serde_json::Value = serde_json::from_str(&bench.read("out/report.json")).unwrap();
    assert_eq!(result["metadata"]["final_ai_pages"], 200);
    for model in ["gpt-5.4", "gpt-5.4-mini"] {
        let calls = bench.provider.calls_to(model);
        println!("calls to {model}, which hangs: {calls} for 200 pages, 20 at once");
        assert!(calls <= 20, "{calls} calls to {model}");
    }
}
