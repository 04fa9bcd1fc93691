//! `everypage process`: results, messages and options.

use crate::support::{Bench, end, report, sample};

#[tokio::test]
async fn the_text_goes_to_standard_output_and_all_else_to_standard_error() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["process", &report()]).await.code(0);
    assert!(ran.stdout.starts_with("=== Page 1 ===\nHarbour report"), "{}", ran.stdout);
    for page in 1..=12 {
        assert!(ran.stdout.contains(&format!("=== Page {page} ===")), "page {page}");
    }
    assert_eq!(ran.stdout.matches("[read by gpt-5.4]").count(), 4);
    let ran = ran
        .reports("12 pages, 4 with graphics")
        .reports("page 4  ai openai:gpt-5.4")
        .reports("ai openai:gpt-5.4  4-5, 9-10")
        .reports("mupdf              1-3, 6-8, 11-12");
    // Messages contain no document text and no key.
    assert!(!ran.stderr.contains("Quay 1") && !ran.stderr.contains("secret-key"), "{}", ran.stderr);
}

#[tokio::test]
async fn each_form_is_written_to_the_folder() {
    let bench = Bench::new(&[]).await;
    std::fs::create_dir(bench.path("b")).unwrap();
    std::fs::copy(sample("encrypted.pdf"), bench.path("b/harbour-report-2026.pdf")).unwrap();
    let (report, other, out) = (report(), bench.path("b/harbour-report-2026.pdf"), bench.path("out/deep"));
    for (form, extension, has) in [
        ("text", "txt", "=== Page 12 ==="),
        ("markdown", "md", "<a id=\"page-12\"></a>"),
        ("json", "json", "\"source\": \"ai\""),
    ] {
        let args = ["process", &report, &other, "-o", &out, "--format", form, "--password", "harbour"];
        let ran = bench.run(&args).await.code(0).reports("written to");
        assert_eq!(ran.stdout, "");
        assert!(bench.read(&format!("out/deep/harbour-report-2026.{extension}")).contains(has), "{form}");
        let second = bench.read(&format!("out/deep/harbour-report-2026-2.{extension}"));
        assert!(second.contains("customs house"), "{form}: inputs of one name get files of their own");
    }
    let left = std::fs::read_dir(bench.path("out/deep")).unwrap().count();
    assert_eq!(left, 6, "no temporary file is left");
}

#[tokio::test]
async fn the_json_summary_names_every_result() {
    let bench = Bench::new(&["page=4=400"]).await;
    let ran = bench.run(&["process", &report(), "/nowhere/x.pdf", "--json"]).await.code(1);
    let summary = ran.json();
    let (done, missing) = (&summary["documents"][0], &summary["documents"][1]);
    assert_eq!(summary["exit_code"], 1);
    assert_eq!((&done["status"], &done["exit_code"]), (&"success".into(), &3.into()));
    assert_eq!(done["metadata"]["total_pages"], 12);
    assert_eq!(done["pages"][2]["from"], "mupdf_fallback");
    assert_eq!(done["pages"][2]["pages"], "4");
    assert_eq!(missing["error"]["code"], "not_processed");
    assert!(missing["error"]["reason"].as_str().unwrap().contains("No such file"));
    // Without -o the result stays with the job, and the summary has the command that prints it.
    let command = done["result"]["command"].as_str().unwrap();
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    bench.run(&args).await.code(0).prints("=== Page 12 ===");
}

#[tokio::test]
async fn a_model_that_is_down_is_skipped() {
    let bench = Bench::new(&["openai:gpt-5.4=503", "openai:gpt-5.4-mini=hang"]).await;
    let bench = bench.with("BREAKER_FAILURE_THRESHOLD", "2");
    let ran = bench.run(&["process", &report(), "--pages", "3-5"]).await.code(0);
    ran.reports("ai anthropic:claude-sonnet-4-6  4-5")
        .reports("gpt-5.4 failed, gpt-5.4-mini timed out")
        .prints("[read by claude-sonnet-4-6]");
    let ran = bench.run(&["breakers"]).await.code(0);
    ran.prints("openai:gpt-5.4 ").prints("openai:gpt-5.4-mini").prints("open");
    let breakers = bench.run(&["breakers", "--json"]).await.code(0).json();
    assert_eq!(breakers[0]["breaker"]["state"], "open");
}

#[tokio::test]
async fn options_choose_the_model_and_the_pages() {
    let bench = Bench::new(&[]).await;
    let args = ["process", &report(), "--pages", "1-2", "--ai-pages", "all"];
    let ran = bench.run(&[&args[..], &["--provider", "anthropic", "--tier", "fast"]].concat()).await.code(0);
    ran.reports("ai anthropic:claude-haiku-4-5  1-2");
    assert_eq!(bench.provider.calls_to("claude-haiku-4-5"), 2);
}

#[tokio::test]
async fn a_missing_key_is_reported_once_and_mupdfs_text_is_delivered() {
    let bench = Bench::new(&[]).await;
    let bench = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"]
        .into_iter()
        .fold(bench, |bench, name| bench.with(name, ""));
    let ran = bench.run(&["process", &report(), "--pages", "1-8"]).await.code(0);
    let ran = ran.prints("Halcyon").reports("mupdf  1-8");
    assert_eq!(ran.stderr.matches("API key").count(), 1, "{}", ran.stderr);
    // The scan has no text for MuPDF to read.
    let ran = bench.run(&["process", &report()]).await.code(4);
    ran.reports("no text at all  9").prints("[Page 9 - text not available]");
    assert_eq!(bench.provider.counts().total, 0);
}

#[tokio::test]
async fn an_encrypted_file_needs_the_right_password() {
    let bench = Bench::new(&[]).await;
    let file = sample("encrypted.pdf");
    let ran = bench.run(&["process", &file]).await.code(1);
    ran.reports("error: ").reports("encrypted and no password was given").reports("--password-stdin");
    let ran = bench.run(&["process", &file, "--password", "wrong"]).await.code(1);
    ran.reports("does not open it");
    let ran = bench.run_with(&["process", &file, "--password-stdin"], "harbour\n").await.code(0);
    ran.prints("customs house");
    let ran = bench.run_with(&["process", &file, "--password-stdin"], "").await.code(2);
    ran.reports("no password on its first line");
}

#[tokio::test]
async fn unreadable_files_do_not_stop_the_others() {
    let bench = Bench::new(&[]).await;
    std::fs::write(bench.path("words.pdf"), "these are words").unwrap();
    std::fs::write(bench.path("empty.pdf"), "").unwrap();
    let (words, empty, out) = (bench.path("words.pdf"), bench.path("empty.pdf"), bench.path("out"));
    let ran = bench.run(&["process", &words, &empty, "missing.pdf", &report(), "-o", &out]).await.code(1);
    ran.reports("words.pdf: this is not a PDF")
        .reports("empty.pdf: the file is empty")
        .reports("missing.pdf: No such file")
        .reports("success, 12 pages");
    assert!(bench.read("out/harbour-report-2026.txt").contains("=== Page 12 ==="));
}

#[tokio::test]
async fn the_same_request_returns_the_same_job_unless_forced() {
    let bench = Bench::new(&[]).await;
    let first = bench.run(&["process", &report()]).await.code(0);
    let calls = bench.provider.counts().total;
    let repeated = bench.run(&["process", &report()]).await.code(0).reports("same request as job");
    assert_eq!(first.stdout, repeated.stdout);
    assert_eq!(bench.provider.counts().total, calls, "no page is paid for twice");
    let forced = bench.run(&["process", &report(), "--force"]).await.code(0);
    assert!(!forced.stderr.contains("same request"), "{}", forced.stderr);
    assert_eq!(bench.provider.counts().total, 2 * calls);
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn two_processes_with_the_same_request_share_one_job() {
    let bench = Bench::new(&["answer;delay=300ms"]).await;
    let first = bench.start(&["process", &report()]);
    bench.calls(1).await;
    let second = bench.run(&["process", &report()]).await.code(0).reports("same request as job");
    let first = end(first).await.code(0);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(bench.provider.counts().total, 4, "no page is paid for twice");
}

#[tokio::test]
async fn wrong_usage_and_settings_are_reported_before_anything_is_done() {
    let bench = Bench::new(&[]).await;
    let report = report();
    for (args, words) in [
        (vec!["process", &report, &report], "pass -o DIR"),
        (vec!["process", &report, "--pages", "0"], "not a page"),
        (vec!["process", &report, "--deadline", "soon"], "5m"),
        (vec!["process", &report, "--priority", "most"], "urgent"),
        (vec!["process", &report, "-o", "/dev/null/x"], "can't be written"),
        (vec!["process"], "FILE"),
    ] {
        bench.run(&args).await.code(2).reports(words);
    }
    let bench = bench.with("REQUEST_TIMEOUT", "fast").with("IMAGE_DPI", "1");
    let ran = bench.run(&["process", &report]).await.code(2);
    ran.reports("REQUEST_TIMEOUT is \"fast\"").reports("IMAGE_DPI is \"1\"");
    assert_eq!(bench.provider.counts().total, 0);
    assert!(!bench.folder.path().join("data").exists());
}

#[tokio::test]
async fn pages_outside_the_document_are_reported() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["-q", "process", &report(), "--pages", "20"]).await.code(1);
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    ran.reports("harbour-report-2026.pdf: pages 20 were requested, but the document has 12; choose other pages with --pages");
}
