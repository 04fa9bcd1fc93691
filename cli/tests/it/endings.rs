//! Jobs that end early or are decided by people: deadlines, Ctrl-C, approval, healing.

use everypage_scripted_provider::{Behaviour, Script};

use crate::support::{Bench, end, interrupt, report};

#[tokio::test]
async fn at_the_deadline_every_page_has_text() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let ran = bench.run(&["process", &report(), "--pages", "1-5", "--deadline", "1500ms"]).await.code(3);
    ran.reports("ended by the deadline").reports("mupdf_timeout_fallback  4-5").prints("Halcyon");
}

#[tokio::test]
async fn ctrl_c_leaves_a_complete_result() {
    let bench = Bench::new(&["page=4=answer", "hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let out = bench.path("out");
    let child = bench.start(&["process", &report(), "--pages", "1-5", "-o", &out]);
    bench.calls(2).await;
    interrupt(&child);
    let ran = end(child).await.code(130);
    ran.reports("cancelling").reports("mupdf_fallback").reports("written to");
    let text = bench.read("out/harbour-report-2026.txt");
    assert!(text.contains("=== Page 5 ===") && text.contains("Halcyon"), "{text}");
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    assert_eq!(listed[0]["status"], "cancelled");
}

#[tokio::test]
async fn resume_finishes_what_a_killed_process_left() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let mut child = bench.start(&["process", &report(), "--pages", "1-5"]);
    bench.calls(2).await;
    child.kill().await.unwrap();
    bench.provider.set_script(Script::always(Behaviour::Answer));
    let ran = bench.run(&["resume"]).await.code(0);
    ran.reports("resumed 1 unfinished job").reports("success, 5 pages");
    let job = bench.job().await;
    bench.run(&["jobs", "result", &job]).await.code(0).prints("[read by gpt-5.4]");
    bench.run(&["resume"]).await.code(0).reports("no unfinished job");
}

#[tokio::test]
async fn another_command_also_finishes_what_a_killed_process_left() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let mut child = bench.start(&["process", &report(), "--pages", "4"]);
    bench.calls(1).await;
    child.kill().await.unwrap();
    bench.provider.set_script(Script::always(Behaviour::Answer));
    let ran = bench.run(&["process", &report(), "--pages", "5"]).await.code(0);
    ran.reports("resumed 1 unfinished job").prints("Halcyon");
    let listed = bench.run(&["jobs", "list", "--json"]).await.json();
    let statuses: Vec<_> = listed.as_array().unwrap().iter().map(|job| &job["status"]).collect();
    assert_eq!(statuses, ["success", "success"]);
}

#[tokio::test]
async fn a_job_of_a_killed_process_can_be_cancelled() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let mut child = bench.start(&["process", &report(), "--pages", "1-5"]);
    bench.calls(2).await;
    child.kill().await.unwrap();
    let job = bench.job().await;
    bench.run(&["jobs", "cancel", &job]).await.code(0).prints("is cancelled");
    bench.run(&["jobs", "result", &job]).await.code(0).prints("Halcyon");
    bench.run(&["jobs", "cancel", &job]).await.code(0).prints("had ended already");
    bench.run(&["events", "verify", &job]).await.code(0).prints("is intact");
}

#[tokio::test]
async fn a_running_job_is_cancelled_by_another_process() {
    let bench = Bench::new(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
    let child = bench.start(&["process", &report(), "--pages", "1-5"]);
    bench.calls(2).await;
    let job = bench.job().await;
    bench.run(&["jobs", "cancel", &job]).await.code(0).prints("will be cancelled");
    end(child).await.code(130).prints("Halcyon");
}

#[tokio::test]
async fn an_expensive_plan_needs_approval() {
    let bench = Bench::new(&[]).await.with("APPROVAL_THRESHOLD_USD", "0");
    let approved = bench.start(&["process", &report()]);
    let job = bench.until_status("awaiting_approval").await;
    assert_eq!(bench.provider.counts().total, 0);
    bench.run(&["jobs", "approve", &job]).await.code(0).prints("is approved");
    end(approved).await.code(0).reports("needs approval");
    bench.run(&["jobs", "approve", &job]).await.code(1).reports("does not wait for approval");

    let rejected = bench.start(&["process", &report(), "--force"]);
    let job = bench.until_status("awaiting_approval").await;
    bench.run(&["jobs", "reject", &job, "--reason", "too expensive"]).await.code(0);
    end(rejected).await.code(1).reports("rejected: too expensive");

    let modified = bench.start(&["process", &report(), "--force"]);
    let job = bench.until_status("awaiting_approval").await;
    let changes = ["--failover", "anthropic:claude-haiku-4-5", "--cost", "low", "--budget", "0.5"];
    bench.run(&[&["jobs", "modify", &job][..], &changes].concat()).await.code(0);
    end(modified).await.code(0).reports("ai anthropic:claude-haiku-4-5");
}

#[tokio::test]
async fn pages_that_fell_back_are_healed() {
    let bench = Bench::new(&["page=4,5=400"]).await;
    bench.run(&["process", &report(), "--pages", "1-5"]).await.code(3).reports("mupdf_fallback  4-5");
    let job = bench.job().await;
    // The model still fails: the version stays.
    bench.run(&["heal", &job]).await.code(3).prints("version 1 stays");
    bench.provider.set_script(Script::parse(["page=5=400"]).unwrap());
    bench.run(&["heal", &job[..20].to_uppercase()]).await.code(3).prints("version 2 is published");
    bench.provider.set_script(Script::default());
    let healed = bench.run(&["heal", &job, "--json"]).await.code(0).json();
    assert_eq!(healed["version"], 3);
    assert_eq!(healed["sent"], serde_json::json!([5]));
    bench.run(&["heal", &job]).await.code(0).prints("nothing to heal");
    bench.run(&["jobs", "result", &job]).await.code(0).prints("[read by gpt-5.4]");
    let old = bench.run(&["jobs", "result", &job, "--version", "1"]).await.code(0);
    assert!(!old.stdout.contains("[read by"), "a published version never changes");
    bench.run(&["jobs", "result", &job, "--version", "9"]).await.code(1).reports("the latest is 3");
    bench.run(&["events", "verify", &job]).await.code(0);
}
