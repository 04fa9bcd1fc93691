//! `everypage process`: what goes where.

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
        .says("12 pages, 4 with more on them than plain text")
        .says("page 4  ai openai:gpt-5.4")
        .says("ai openai:gpt-5.4  4-5, 9-10")
        .says("mupdf              1-3, 6-8, 11-12");
    // Nothing of the document itself, and no key, is said beside the result.
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
        let ran = bench.run(&args).await.code(0).says("written to");
        assert_eq!(ran.stdout, "");
        assert!(bench.read(&format!("out/deep/harbour-report-2026.{extension}")).contains(has), "{form}");
        let second = bench.read(&format!("out/deep/harbour-report-2026-2.{extension}"));
        assert!(second.contains("customs house"), "{form}: inputs of one name get files of their own");
    }
    let left = std::fs::read_dir(bench.path("out/deep")).unwrap().count();
    assert_eq!(left, 6, "nothing temporary is left");
}

#[tokio::test]
async fn the_summary_for_programs_says_where_everything_is() {
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
    // Without -o the result stays with the job, and the summary says how to get it.
    let command = done["result"]["command"].as_str().unwrap();
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    bench.run(&args).await.code(0).prints("=== Page 12 ===");
}

#[tokio::test]
async fn a_model_that_is_down_is_passed_over() {
    let bench = Bench::new(&["openai:gpt-5.4=503", "openai:gpt-5.4-mini=hang"]).await;
    let ran = bench.run(&["process", &report(), "--pages", "3-5"]).await.code(0);
    ran.says("ai anthropic:claude-sonnet-4-6  4-5")
        .says("gpt-5.4 failed, gpt-5.4-mini timed out")
        .prints("[read by claude-sonnet-4-6]");
    let ran = bench.run(&["breakers"]).await.code(0);
    ran.prints("openai:gpt-5.4 ").prints("openai:gpt-5.4-mini").prints("open");
    let breakers = bench.run(&["breakers", "--json"]).await.code(0).json();
    assert_eq!(breakers[0]["breaker"]["state"], "open");
}

#[tokio::test]
async fn options_choose_who_is_asked_for_what() {
    let bench = Bench::new(&[]).await;
    let args = ["process", &report(), "--pages", "1-2", "--ai-pages", "all"];
    let ran =
        bench.run(&[&args[..], &["--primary-engine", "anthropic", "--tier", "fast"]].concat()).await.code(0);
    ran.says("ai anthropic:claude-haiku-4-5  1-2");
    assert_eq!(bench.provider.calls_to("claude-haiku-4-5"), 2);
}

#[tokio::test]
async fn without_a_key_it_says_so_once_and_delivers_what_mupdf_reads() {
    let bench = Bench::new(&[]).await;
    let bench = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"]
        .into_iter()
        .fold(bench, |bench, name| bench.with(name, ""));
    let ran = bench.run(&["process", &report(), "--pages", "1-8"]).await.code(0);
    let ran = ran.prints("Halcyon").says("mupdf  1-8");
    assert_eq!(ran.stderr.matches("API key").count(), 1, "{}", ran.stderr);
    // The scan has no text that anybody could read.
    let ran = bench.run(&["process", &report()]).await.code(4);
    ran.says("no text at all  9").prints("[Page 9 - text not available]");
    assert_eq!(bench.provider.counts().total, 0);
}

#[tokio::test]
async fn an_encrypted_file_takes_the_right_password() {
    let bench = Bench::new(&[]).await;
    let file = sample("encrypted.pdf");
    let ran = bench.run(&["process", &file]).await.code(1);
    ran.says("error: ").says("encrypted and no password was given").says("--password-stdin");
    let ran = bench.run(&["process", &file, "--password", "wrong"]).await.code(1);
    ran.says("does not open it");
    let ran = bench.run_with(&["process", &file, "--password-stdin"], "harbour\n").await.code(0);
    ran.prints("customs house");
    let ran = bench.run_with(&["process", &file, "--password-stdin"], "").await.code(2);
    ran.says("no password on its first line");
}

#[tokio::test]
async fn what_cannot_be_read_does_not_stop_the_others() {
    let bench = Bench::new(&[]).await;
    std::fs::write(bench.path("words.pdf"), "these are words").unwrap();
    std::fs::write(bench.path("empty.pdf"), "").unwrap();
    let (words, empty, out) = (bench.path("words.pdf"), bench.path("empty.pdf"), bench.path("out"));
    let ran = bench.run(&["process", &words, &empty, "missing.pdf", &report(), "-o", &out]).await.code(1);
    ran.says("words.pdf: this is not a PDF")
        .says("empty.pdf: the file is empty")
        .says("missing.pdf: No such file")
        .says("success, 12 pages");
    assert!(bench.read("out/harbour-report-2026.txt").contains("=== Page 12 ==="));
}

#[tokio::test]
async fn the_same_request_gives_the_same_job_unless_told_otherwise() {
    let bench = Bench::new(&[]).await;
    let first = bench.run(&["process", &report()]).await.code(0);
    let calls = bench.provider.counts().total;
    let again = bench.run(&["process", &report()]).await.code(0).says("the same request as job");
    assert_eq!(first.stdout, again.stdout);
    assert_eq!(bench.provider.counts().total, calls, "nobody is paid twice");
    let anew = bench.run(&["process", &report(), "--again"]).await.code(0);
    assert!(!anew.stderr.contains("the same request"), "{}", anew.stderr);
    assert_eq!(bench.provider.counts().total, 2 * calls);
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn two_processes_with_the_same_request_share_its_one_job() {
    let bench = Bench::new(&["answer;delay=300ms"]).await;
    let first = bench.start(&["process", &report()]);
    bench.calls(1).await;
    let second = bench.run(&["process", &report()]).await.code(0).says("the same request as job");
    let first = end(first).await.code(0);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(bench.provider.counts().total, 4, "nobody is paid twice");
}

#[tokio::test]
async fn wrong_usage_and_settings_are_told_before_anything_is_done() {
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
        bench.run(&args).await.code(2).says(words);
    }
    let bench = bench.with("REQUEST_TIMEOUT", "fast").with("IMAGE_DPI", "1");
    let ran = bench.run(&["process", &report]).await.code(2);
    ran.says("REQUEST_TIMEOUT is \"fast\"").says("IMAGE_DPI is \"1\"");
    assert_eq!(bench.provider.counts().total, 0);
    assert!(!bench.folder.path().join("data").exists());
}

#[tokio::test]
async fn pages_that_are_not_there_are_told_in_words() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["-q", "process", &report(), "--pages", "20"]).await.code(1);
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    ran.says("harbour-report-2026.pdf: pages 20 were asked for, but the document has 12; choose others with --pages");
}
