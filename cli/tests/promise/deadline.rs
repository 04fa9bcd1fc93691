//! A provider that never answers costs the deadline, and no page.

use everypage_testkit::sample_pdf;

use crate::support::Bench;

#[tokio::test]
async fn a_thousand_pages_and_nobody_answers() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "120s");
    let file = bench.path("long.pdf");
    std::fs::write(&file, sample_pdf::with_pictures(1000)).unwrap();
    let out = bench.path("out");
    let ran =
        bench.run(&["process", &file, "--deadline", "10s", "-o", &out, "--format", "json", "--quiet"]).await;
    assert_eq!(ran.code, 3, "{}", ran.stderr);

    let result: serde_json::Value = serde_json::from_str(&bench.read("out/long.json")).unwrap();
    let pages = result["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 1000);
    for (page, number) in pages.iter().zip(1..) {
        assert_eq!(page["page"], number);
        let text = page["text"].as_str().unwrap();
        assert!(text.contains(&format!("Chapter {number}")), "page {number}: {text:.60}");
    }
    assert_eq!(result["metadata"]["timeout_occurred"], true);
    let job = bench.job().await;
    let shown = bench.run(&["jobs", "show", &job, "--json"]).await.json();
    let time = |field: &str| shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let late = time("finished_at").duration_since(time("deadline"));
    println!("published {:.3} s after the deadline", late.as_secs_f64());
    // A fifth of a second on a machine that has nothing else to do.
    assert!(late.as_secs_f64() <= 3.0, "published {late:?} after the deadline");
}
