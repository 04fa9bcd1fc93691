//! The commands that inspect, and those that need no document.

use everypage_scripted_provider::Script;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Bench, bounded, end, interrupt, report};

#[tokio::test]
async fn jobs_and_events_report_what_happened() {
    let bench = Bench::new(&[]).await;
    bench.run(&["jobs", "list"]).await.code(0).reports("no jobs yet");
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
    assert_eq!(ran.reports("older events are not shown").stdout.lines().count(), 4);
    bench.run(&["events", "list", "--since", "yesterday"]).await.code(2).reports("not a time");
    let verified = bench.run(&["events", "verify", &job, "--json"]).await.code(0).json();
    assert_eq!(verified["findings"], serde_json::json!([]));

    bench.run(&["jobs", "show", "zzz"]).await.code(1).reports("there is no job zzz");
    bench.run(&["breakers", "--json"]).await.code(0);
    let text = bench.run(&["jobs", "result", &job]).await.code(0).stdout;
    let path = bench.path("saved.txt");
    bench.run(&["jobs", "result", &job, "-o", &path]).await.code(0);
    assert_eq!(bench.read("saved.txt"), text);
}

#[tokio::test]
async fn a_key_is_shown_once_and_rejected_once_revoked() {
    let bench = Bench::new(&[]).await;
    bench.run(&["keys", "list"]).await.code(0).reports("tenant local has no keys");
    let create = ["keys", "create", "--tenant", "acme", "--role", "operator", "--name", "mail room"];
    let ran = bench.run(&create).await.code(0).reports("role operator").reports("can't be shown again");
    let key = ran.stdout.trim();
    assert!(key.starts_with("ep_") && !ran.stderr.contains(key), "{}", ran.stderr);
    let listed = bench.run(&["keys", "list", "--tenant", "acme", "--json"]).await.code(0);
    assert!(!listed.stdout.contains(key));
    let listed = listed.json();
    assert_eq!((&listed[0]["label"], &listed[0]["role"]), (&"mail room".into(), &"operator".into()));
    let id = listed[0]["id"].as_str().unwrap();
    bench.run(&["keys", "revoke", id]).await.code(1).reports("there is no key");
    bench.run(&["keys", "revoke", id, "--tenant", "acme"]).await.code(0).prints("(mail room) is revoked");
    bench.run(&["keys", "revoke", id, "--tenant", "acme"]).await.code(0).prints("revoked already");
    let made = bench.run(&["keys", "create", "--json"]).await.code(0).json();
    assert_eq!((&made["tenant"], &made["role"]), (&"local".into(), &"user".into()));
    assert!(made["key"].as_str().unwrap().starts_with("ep_"));
}

#[tokio::test]
async fn commands_report_the_backend_that_they_need() {
    let bench = Bench::new(&[]).await;
    bench.run(&["submit", &report()]).await.code(2).reports("on this machine use `process`");
    for (command, said) in [("resume", "jobs of this machine"), ("demo", "uses no stack")] {
        bench.run(&["--backend", "aws", command]).await.code(2).reports(said);
    }
    bench.run(&["--stack", "s", "process", &report()]).await.code(2).reports("on AWS use `submit`");
    bench.run(&["process", &report(), "--engine", "openai"]).await.code(2).reports("--provider openai");
    let ran = bench.run(&["--backend", "aws", "--endpoint", "http://127.0.0.1:1", "jobs", "list"]).await;
    ran.code(2).reports("pass --region");
    // No server listens there.
    let nowhere = ["--stack", "s", "--region", "eu-west-1", "--endpoint", "http://127.0.0.1:1"];
    bench.run(&[&nowhere[..], &["jobs", "list"]].concat()).await.code(1).reports("STS could not be reached");
    let bench = bench.with("AWS_EC2_METADATA_DISABLED", "true");
    let ran = bench.run(&["--stack", "s", "--region", "eu-west-1", "jobs", "list"]).await.code(2);
    ran.reports("no AWS credentials were found");
    let bench = bench.with("EVERYPAGE_BACKEND", "gcp");
    bench.run(&["jobs", "list"]).await.code(2).reports("EVERYPAGE_BACKEND").reports("local, aws");
}

#[tokio::test]
async fn quiet_prints_only_the_result() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["-q", "process", &report()]).await.code(0);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.starts_with("=== Page 1 ==="));
}

#[tokio::test]
async fn logs_are_written_to_the_configured_file() {
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
        .reports("DOCUMENT_PROCESSING_TIMEOUT is an old name");
    assert!(!ran.stdout.contains("secret-key"));
    let checked = bench.run(&["config", "check", "--json"]).await.code(0).json();
    assert!(checked["settings"].as_array().unwrap().len() > 30);
    let bench = bench.with("AI_PAGES", "some").with("PORT", "0");
    let ran = bench.run(&["config", "check"]).await.code(2);
    ran.reports("AI_PAGES is \"some\"").reports("PORT is \"0\"");
    let bench = Bench::new(&[]).await.with("MODEL_PRICES", "cheap");
    bench.run(&["config", "check"]).await.code(2).reports("MODEL_PRICES");
}

#[tokio::test]
async fn completion_scripts_and_help_are_printed() {
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
    let bench = Bench::new(&[]).await.with("PRIMARY_ENGINE", "unknown");
    let ran = bench.run(&["demo"]).await.code(0);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let ran = ran
        .prints("openai:gpt-5.4-mini")
        .prints("ai anthropic:claude-sonnet-4-6  4-5, 9")
        .prints("mupdf_fallback                  10")
        .prints("LINDHOLM HARBOUR OFFICE")
        .prints("What just happened");
    assert_eq!(ran.stderr, "");
    assert!(!bench.folder.path().join("data").exists(), "it uses a folder of its own");
}

#[tokio::test]
async fn the_scripted_provider_prints_its_variables_and_its_calls() {
    let bench = Bench::new(&[]).await;
    let mut child = bench.start(&["dev", "provider", "--script", "openai:gpt-5.4=529"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = bounded(lines.next_line()).await.unwrap().unwrap();
    let url = line.strip_prefix("export OPENAI_BASE_URL=").unwrap().split(' ').next().unwrap().to_owned();
    let other = bench.with("OPENAI_BASE_URL", &url);
    other.run(&["process", &report(), "--pages", "4"]).await.code(0).reports("gpt-5.4 failed");
    interrupt(&child);
    let ran = end(child).await.code(0);
    ran.reports("#1 openai:gpt-5.4 page 4 with image: 529").reports("openai:gpt-5.4-mini  1 calls");
    let bench = Bench::new(&[]).await;
    bench.run(&["dev", "provider", "--help"]).await.code(0).prints("half-body");
    bench.run(&["dev", "provider", "--script", "explode"]).await.code(2).reports("is not a behaviour");
    assert!(Script::parse(["explode"]).is_err());
}

#[tokio::test]
async fn processes_that_start_together_share_a_new_folder() {
    for _ in 0..4 {
        let bench = Bench::new(&[]).await;
        let started: Vec<_> = (0..6).map(|_| bench.start(&["jobs", "list", "--json"])).collect();
        for child in started {
            end(child).await.code(0).prints("[]");
        }
    }
}

#[tokio::test]
async fn a_tenants_settings_are_checked_stored_and_used() {
    let bench = Bench::new(&[]).await;
    bench.run(&["tenants", "show", "local"]).await.code(0).reports("overrides no settings");
    let ran = bench
        .run(&["tenants", "set", "local", "OPENAI_PRIMARY_MODEL=my-own", "JOB_TIMEOUT=9m"])
        .await
        .code(0);
    ran.prints("my-own").prints("9m");
    let ran = bench.run(&["tenants", "set", "local", "JOB_TIMEOUT=soon"]).await.code(2);
    ran.reports("JOB_TIMEOUT").reports("soon").reports("5m");
    bench
        .run(&["tenants", "set", "local", "OPENAI_API_KEY=mine"])
        .await
        .code(2)
        .reports("can't be set for a tenant");
    bench.run(&["tenants", "set", "local", "MAX_PAGES=999999"]).await.code(2).reports("up to 20000");
    bench.run(&["process", &report(), "-q"]).await.code(0);
    assert_eq!(bench.provider.calls_to("my-own"), 4);
    bench.run(&["tenants", "unset", "local", "OPENAI_PRIMARY_MODEL"]).await.code(0).prints("9m");
}

#[tokio::test]
async fn deleted_jobs_are_gone_and_recent_ones_are_not_touched() {
    let bench = Bench::new(&[]).await;
    bench.run(&["process", &report(), "-q"]).await.code(0);
    let job = bench.job().await;
    bench.run(&["jobs", "delete", &job]).await.code(2).reports("--yes");
    bench.run(&["jobs", "delete", "--older-than", "1h", "--yes"]).await.code(0).reports("no job to delete");
    bench.run(&["jobs", "delete", &job, "--yes"]).await.code(0).reports("deleted 1 job");
    bench.run(&["jobs", "show", &job]).await.code(1).reports(&job);
    bench.run(&["jobs", "list"]).await.code(0).reports("no jobs yet");
}

#[tokio::test]
async fn a_data_folder_that_others_can_read_is_closed_to_them() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(&[]).await;
    let data = bench.path("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.run(&["jobs", "list"]).await.code(0);
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    // A folder of other things is not changed, and not used.
    let shared = bench.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(bench.path("shared/notes.txt"), "").unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = bench.run(&["jobs", "list", "--data", &shared]).await;
    assert_ne!(refused.code, 0);
    refused.reports("other users can open it");
    assert_eq!(std::fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn config_check_says_how_parsers_are_confined() {
    let bench = Bench::new(&[]).await;
    bench.run(&["config", "check"]).await.code(0).prints("Processes that parse documents are confined by");
    let checked = bench.run(&["config", "check", "--json"]).await.code(0).json();
    assert!(checked["confinement"]["seccomp"].is_boolean(), "{checked}");
}

#[tokio::test]
async fn settings_of_a_tenant_are_announced_when_they_change() {
    let bench = Bench::new(&[]).await.with("WEBHOOK_ALLOW_PRIVATE", "true");
    let address = "http://127.0.0.1:9/hook";
    bench.run(&["webhook", "add", address, "--events", "tenant.changed", "--tenant", "acme"]).await.code(0);
    let hooks = bench.run(&["webhook", "list", "--tenant", "acme", "--json"]).await.code(0).json();
    let hook = hooks[0]["id"].as_str().unwrap().to_owned();
    bench.run(&["tenants", "set", "acme", "JOB_TIMEOUT=10m"]).await.code(0);
    bench.run(&["tenants", "unset", "acme", "JOB_TIMEOUT"]).await.code(0);
    let deliveries = bench.run(&["webhook", "deliveries", &hook, "--tenant", "acme", "--json"]).await;
    assert_eq!(deliveries.code(0).json().as_array().unwrap().len(), 2);
}
