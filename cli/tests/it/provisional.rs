//! The result at any time: printed while the job runs, or taken by pressing Enter.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Bench, bounded, end, interrupt, report};

#[tokio::test]
async fn a_running_job_shows_its_document_and_its_pages() {
    let bench = Bench::new(&["page=4=answer", "hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let child = bench.start(&["process", &report(), "--pages", "1-5"]);
    bench.calls(2).await;
    let job = bench.job().await;
    bench.run(&["jobs", "result", &job]).await.code(1).reports("--provisional prints");
    let result = ["jobs", "result", &job, "--provisional"];
    // Page 4 is stored a moment after its call.
    let read = bounded(async {
        loop {
            let ran = bench.run(&result).await.code(0);
            if ran.stdout.contains("[read by gpt-5.4]") {
                return ran;
            }
        }
    });
    read.await.prints("=== Page 5 ===").reports("provisional: 4 of 5 pages settled");
    let json = bench.run(&[&result[..], &["--json"]].concat()).await.json();
    assert_eq!((&json["provisional"], &json["version"]), (&true.into(), &0.into()));
    assert_eq!((&json["pages"][3]["source"], &json["pages"][4]["status"]), (&"ai".into(), &"working".into()));
    bench.run(&["jobs", "show", &job]).await.code(0).prints("settled  1-4").prints("working  5");
    let shown = bench.run(&["jobs", "show", &job, "--json"]).await.json();
    assert_eq!(shown["pages"][1], serde_json::json!({"status": "working", "pages": "5"}));
    bench.run(&[&result[..], &["--version", "1"]].concat()).await.code(2);
    interrupt(&child);
    end(child).await.code(130);
    // The published result takes precedence.
    let published = bench.run(&[&result[..], &["--json"]].concat()).await.json();
    assert_eq!((&published["provisional"], &published["version"]), (&serde_json::Value::Null, &1.into()));
}

#[tokio::test]
async fn enter_takes_what_is_there() {
    let bench = Bench::new(&["page=4=answer", "hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let out = bench.path("out");
    let mut child = bench.start_at_terminal(&["process", &report(), "--pages", "1-5", "-o", &out]);
    let mut seen = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    bounded(async {
        while !String::from_utf8_lossy(&seen).contains("1 being read") {
            let mut bytes = [0; 1024];
            let count = stdout.read(&mut bytes).await.unwrap();
            assert!(count > 0, "ended too early: {}", String::from_utf8_lossy(&seen));
            seen.extend(&bytes[..count]);
        }
    })
    .await;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\n").await.unwrap();
    bounded(stdout.read_to_end(&mut seen)).await.unwrap();
    end(child).await.code(3);
    let seen = String::from_utf8_lossy(&seen);
    for expected in [
        "4 of 5 pages done, 1 being read",
        "Enter publishes the result now",
        "publishing the result now",
        "success, ended by the deadline",
        "mupdf_timeout_fallback",
    ] {
        assert!(seen.contains(expected), "{expected:?} is missing: {seen}");
    }
    let text = bench.read("out/harbour-report-2026.txt");
    assert!(text.contains("=== Page 5 ===") && text.contains("[read by gpt-5.4]"), "{text}");
    let job = bench.job().await;
    bench.run(&["jobs", "events", &job]).await.code(0).prints("job.deadline_moved");
    bench.run(&["events", "verify", &job]).await.code(0).prints("is intact");
}

#[tokio::test]
async fn without_a_terminal_input_ends_nothing() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let ran = bench.run_with(&["process", &report(), "--pages", "4", "--deadline", "2s"], "\n\n").await;
    let job = bench.job().await;
    let events = bench.run(&["jobs", "events", &job]).await;
    assert!(!events.stdout.contains("deadline_moved"), "{}", events.stdout);
    ran.code(3).reports("ended by the deadline");
}
