//! The commands that look, and those that need no document.

use everypage_testkit::provider::Script;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Bench, bounded, end, interrupt, report};

#[tokio::test]
async fn jobs_and_events_tell_what_happened() {
    let bench = Bench::new(&[]).await;
    bench.run(&["jobs", "list"]).await.code(0).says("no jobs yet");
    bench.run(&["process", &report(), "-q"]).await.code(0);
    let job = bench.job().await;
    let ran = bench.run(&["jobs", "list"]).await.code(0);
    ran.prints("JOB").prints("success").prints("4/4").prints("harbour-report-2026.pdf");
    let ran = bench.run(&["jobs", "show", &job]).await.code(0);
    let ran = ran.prints("12 (8 plain text, 4 with graphics)").prints("ai openai:gpt-5.4  4-5, 9-10");
    assert!(!ran.stdout.contains("Lindholm"), "no document text");
    let shown = bench.run(&["jobs", "show", &job, "--json"]).await.code(0).json();
    assert_eq!(shown["state"], "AUDITED");

    let ran = bench.run(&["jobs", "events", &job]).await.code(0);
    ran.prints("job.received").prints("page.settled").prints("job.audited");
    let events = bench
        .run(&["events", "list", "--type", "page.settled", "--since", "1h", "--json"])
        .await
        .code(0)
        .json();
    assert_eq!(events.as_array().unwrap().len(), 4);
    let ran = bench.run(&["events", "list", "--limit", "3"]).await.code(0);
    assert_eq!(ran.says("older ones are not shown").stdout.lines().count(), 4);
    bench.run(&["events", "list", "--since", "yesterday"]).await.code(2).says("not a time");
    let verified = bench.run(&["events", "verify", &job, "--json"]).await.code(0).json();
    assert_eq!(verified["findings"], serde_json::json!([]));

    bench.run(&["jobs", "show", "zzz"]).await.code(1).says("there is no job zzz");
    bench.run(&["breakers", "--json"]).await.code(0);
    let text = bench.run(&["jobs", "result", &job]).await.code(0).stdout;
    let path = bench.path("saved.txt");
    bench.run(&["jobs", "result", &job, "-o", &path]).await.code(0);
    assert_eq!(bench.read("saved.txt"), text);
}

#[tokio::test]
async fn a_key_is_shown_once_and_opens_nothing_once_revoked() {
    let bench = Bench::new(&[]).await;
    bench.run(&["keys", "list"]).await.code(0).says("tenant local has no keys");
    let create = ["keys", "create", "--tenant", "acme", "--role", "operator", "--name", "mail room"];
    let ran = bench.run(&create).await.code(0).says("role operator").says("can't be shown again");
    let key = ran.stdout.trim();
    assert!(key.starts_with("ep_") && !ran.stderr.contains(key), "{}", ran.stderr);
    let listed = bench.run(&["keys", "list", "--tenant", "acme", "--json"]).await.code(0);
    assert!(!listed.stdout.contains(key));
    let listed = listed.json();
    assert_eq!((&listed[0]["label"], &listed[0]["role"]), (&"mail room".into(), &"operator".into()));
    let id = listed[0]["id"].as_str().unwrap();
    bench.run(&["keys", "revoke", id]).await.code(1).says("there is no key");
    bench.run(&["keys", "revoke", id, "--tenant", "acme"]).await.code(0).prints("(mail room) is revoked");
    bench.run(&["keys", "revoke", id, "--tenant", "acme"]).await.code(0).prints("revoked already");
    let made = bench.run(&["keys", "create", "--json"]).await.code(0).json();
    assert_eq!((&made["tenant"], &made["role"]), (&"local".into(), &"user".into()));
    assert!(made["key"].as_str().unwrap().starts_with("ep_"));
}

#[tokio::test]
async fn commands_say_which_engine_they_are_for() {
    let bench = Bench::new(&[]).await;
    bench.run(&["submit", &report()]).await.code(2).says("on this machine use `process`");
    for (command, said) in [("resume", "jobs of this machine"), ("demo", "uses no stack")] {
        bench.run(&["--engine", "aws", command]).await.code(2).says(said);
    }
    bench.run(&["--stack", "s", "process", &report()]).await.code(2).says("on AWS use `submit`");
    bench.run(&["process", &report(), "--engine", "openai"]).await.code(2).says("--primary-engine openai");
    let ran = bench.run(&["--engine", "aws", "--endpoint", "http://127.0.0.1:1", "jobs", "list"]).await;
    ran.code(2).says("pass --region");
    // Nobody listens there.
    let nowhere = ["--stack", "s", "--region", "eu-west-1", "--endpoint", "http://127.0.0.1:1"];
    bench.run(&[&nowhere[..], &["jobs", "list"]].concat()).await.code(1).says("STS could not be reached");
    let bench = bench.with("AWS_EC2_METADATA_DISABLED", "true");
    let ran = bench.run(&["--stack", "s", "--region", "eu-west-1", "jobs", "list"]).await.code(2);
    ran.says("no AWS credentials were found");
    let bench = bench.with("EVERYPAGE_ENGINE", "gcp");
    bench.run(&["jobs", "list"]).await.code(2).says("EVERYPAGE_ENGINE").says("local or aws");
}

#[tokio::test]
async fn quiet_means_the_result_and_nothing_else() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["-q", "process", &report()]).await.code(0);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.starts_with("=== Page 1 ==="));
}

#[tokio::test]
async fn logs_go_where_they_are_sent() {
    let bench = Bench::new(&["openai:gpt-5.4=503"]).await;
    let log = bench.path("log.jsonl");
    let bench = bench.with("LOG_FILE", &log).with("LOG_LEVEL", "debug");
    let ran = bench.run(&["process", &report()]).await.code(0);
    assert!(!ran.stderr.contains("\"level\""), "{}", ran.stderr);
    let log = bench.read("log.jsonl");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("one JSON object a line");
        assert!(line["level"].is_string());
    }
    assert!(log.contains("model call failed"), "{log}");
    assert!(!log.contains("Quay 1") && !log.contains("secret-key"), "no document text, no key");
}

#[tokio::test]
async fn settings_are_listed_with_their_faults() {
    let bench = Bench::new(&[]).await.with("JOB_TIMEOUT", "").with("DOCUMENT_PROCESSING_TIMEOUT", "7m");
    let ran = bench.run(&["config", "check"]).await.code(0);
    let ran = ran
        .prints("OPENAI_API_KEY")
        .prints("(set)")
        .prints("7m")
        .says("DOCUMENT_PROCESSING_TIMEOUT is an old name");
    assert!(!ran.stdout.contains("secret-key"));
    let checked = bench.run(&["config", "check", "--json"]).await.code(0).json();
    assert!(checked["settings"].as_array().unwrap().len() > 30);
    let bench = bench.with("AI_PAGES", "some").with("PORT", "0");
    let ran = bench.run(&["config", "check"]).await.code(2);
    ran.says("AI_PAGES is \"some\"").says("PORT is \"0\"");
    let bench = Bench::new(&[]).await.with("MODEL_PRICES", "cheap");
    bench.run(&["config", "check"]).await.code(2).says("MODEL_PRICES");
}

#[tokio::test]
async fn shells_can_complete() {
    let bench = Bench::new(&[]).await.with("PORT", "not even a number");
    for shell in ["bash", "zsh", "fish"] {
        let ran = bench.run(&["completions", shell]).await.code(0).prints("process");
        assert!(ran.stdout.contains("redrive"), "{shell}");
    }
    let ran = bench.run(&["process", "--help"]).await.code(0).prints("Exit codes").prints("130");
    assert!(!ran.stdout.contains("pdf-child"));
    let ran = bench.run(&["--help"]).await.code(0).prints("config check");
    assert!(!ran.stdout.contains("pdf-child"));
}

#[tokio::test]
async fn the_demo_is_short_and_complete() {
    let bench = Bench::new(&[]).await.with("PRIMARY_ENGINE", "nobody");
    let ran = bench.run(&["demo"]).await.code(0);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let ran = ran
        .prints("openai:gpt-5.4-mini")
        .prints("ai anthropic:claude-sonnet-4-6  4-5, 9")
        .prints("mupdf_fallback                  10")
        .prints("LINDHOLM HARBOUR OFFICE")
        .prints("What just happened");
    assert_eq!(ran.stderr, "");
    assert!(!bench.folder.path().join("data").exists(), "it keeps to a folder of its own");
}

#[tokio::test]
async fn the_scripted_provider_tells_its_addresses_and_its_calls() {
    let bench = Bench::new(&[]).await;
    let mut child = bench.start(&["dev", "provider", "--script", "openai:gpt-5.4=529"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = bounded(lines.next_line()).await.unwrap().unwrap();
    let url = line.strip_prefix("export OPENAI_BASE_URL=").unwrap().to_owned();
    let other = bench.with("OPENAI_BASE_URL", &url);
    other.run(&["process", &report(), "--pages", "4"]).await.code(0).says("gpt-5.4 failed");
    interrupt(&child);
    let ran = end(child).await.code(0);
    ran.says("#1 openai:gpt-5.4 page 4 with image: 529").says("openai:gpt-5.4-mini  1 calls");
    let bench = Bench::new(&[]).await;
    bench.run(&["dev", "provider", "--help"]).await.code(0).prints("half-body");
    bench.run(&["dev", "provider", "--script", "explode"]).await.code(2).says("is not a behaviour");
    assert!(Script::parse(["explode"]).is_err());
}

#[tokio::test]
async fn processes_that_start_at_once_share_a_new_folder() {
    for _ in 0..4 {
        let bench = Bench::new(&[]).await;
        let started: Vec<_> = (0..6).map(|_| bench.start(&["jobs", "list", "--json"])).collect();
        for child in started {
            end(child).await.code(0).prints("[]");
        }
    }
}

#[tokio::test]
async fn a_tenants_settings_are_checked_kept_and_used() {
    let bench = Bench::new(&[]).await;
    bench.run(&["tenants", "show", "local"]).await.code(0).says("nothing is set otherwise");
    let ran = bench
        .run(&["tenants", "set", "local", "OPENAI_PRIMARY_MODEL=my-own", "JOB_TIMEOUT=9m"])
        .await
        .code(0);
    ran.prints("my-own").prints("9m");
    let ran = bench.run(&["tenants", "set", "local", "JOB_TIMEOUT=soon"]).await.code(2);
    ran.says("JOB_TIMEOUT").says("soon").says("5m");
    bench
        .run(&["tenants", "set", "local", "OPENAI_API_KEY=mine"])
        .await
        .code(2)
        .says("can't be set for a tenant");
    bench.run(&["tenants", "set", "local", "MAX_PAGES=999999"]).await.code(2).says("up to 20000");
    bench.run(&["process", &report(), "-q"]).await.code(0);
    assert_eq!(bench.provider.calls_to("my-own"), 4);
    bench.run(&["tenants", "unset", "local", "OPENAI_PRIMARY_MODEL"]).await.code(0).prints("9m");
}

#[tokio::test]
async fn deleted_jobs_are_gone_and_open_ones_are_not_touched() {
    let bench = Bench::new(&[]).await;
    bench.run(&["process", &report(), "-q"]).await.code(0);
    let job = bench.job().await;
    bench.run(&["jobs", "delete", &job]).await.code(2).says("--yes");
    bench.run(&["jobs", "delete", "--older-than", "1h", "--yes"]).await.code(0).says("no job to delete");
    bench.run(&["jobs", "delete", &job, "--yes"]).await.code(0).says("deleted 1 job");
    bench.run(&["jobs", "show", &job]).await.code(1).says(&job);
    bench.run(&["jobs", "list"]).await.code(0).says("no jobs yet");
}
