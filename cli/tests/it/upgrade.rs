//! A data folder that version 0.1 filled (`tests/upgrade/fill-0.1` made it) is used by this version.

use std::{collections::BTreeMap, process::Command};

use crate::support::{Bench, Ran};

/// A bench over a copy of the folder, with a provider that answers.
async fn folder_of_0_1() -> Bench {
    let bench = Bench::new(&[]).await.with("IMAGE_DPI", "36");
    let archive = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/upgrade/data-0.1.tar.gz");
    let unpacked =
        Command::new("tar").args(["-xzf", archive, "-C"]).arg(bench.folder.path()).status().unwrap();
    assert!(unpacked.success());
    std::fs::rename(bench.folder.path().join("data-0.1"), bench.folder.path().join("data")).unwrap();
    bench
}

/// The ids and statuses of all jobs, by the names of their documents.
async fn jobs(bench: &Bench) -> BTreeMap<String, (String, String)> {
    let listed = bench.run(&["jobs", "list", "--limit", "100", "--json"]).await.code(0).json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let jobs = listed.as_array().unwrap().iter();
    jobs.map(|job| (text(&job["document"]["name"]), (text(&job["id"]), text(&job["status"])))).collect()
}

async fn sources(bench: &Bench, job: &str) -> Vec<String> {
    let result = bench.run(&["jobs", "result", job, "--json"]).await.code(0).json();
    let pages = result["pages"].as_array().unwrap().iter();
    pages.map(|page| page["source"].as_str().unwrap().to_owned()).collect()
}

async fn verified(bench: &Bench, job: &str) -> Ran {
    bench.run(&["events", "verify", job]).await.code(0).prints("is intact")
}

#[tokio::test]
async fn jobs_of_0_1_are_listed_shown_and_verified() {
    let bench = folder_of_0_1().await;
    let jobs = jobs(&bench).await;
    let expected = [
        ("approval.pdf", "awaiting_approval"),
        ("cancelled.pdf", "cancelled"),
        ("encrypted.pdf", "success"),
        ("fallback.pdf", "success"),
        ("healed.pdf", "success"),
        ("locked.pdf", "failed"),
        ("open.pdf", "processing"),
        ("poison.pdf", "success"),
        ("prepaid.pdf", "success"),
        ("read.pdf", "success"),
    ];
    let found: Vec<(&str, &str)> = jobs.iter().map(|(name, job)| (name.as_str(), job.1.as_str())).collect();
    assert_eq!(found, expected);
    for (id, _) in jobs.values() {
        bench.run(&["jobs", "show", id]).await.code(0);
        bench.run(&["jobs", "events", id]).await.code(0).prints("job.received");
        verified(&bench, id).await;
    }
    let of = |name: &str| &jobs[name].0;
    assert_eq!(sources(&bench, of("read.pdf")).await, ["mupdf", "ai", "ai", "ai"]);
    assert_eq!(sources(&bench, of("fallback.pdf")).await, ["mupdf", "mupdf_fallback", "mupdf_fallback"]);
    assert_eq!(sources(&bench, of("healed.pdf")).await, ["mupdf", "ai", "ai"]);
    let first = bench.run(&["jobs", "result", of("healed.pdf"), "--version", "1"]).await;
    first.code(0).prints("Healed, page 2.");
    bench.run(&["jobs", "result", of("encrypted.pdf")]).await.code(0).prints("customs house");
    bench.run(&["jobs", "result", of("read.pdf"), "--format", "markdown"]).await.code(0).prints("gpt-5.4");
}

#[tokio::test]
async fn accounts_keys_and_settings_of_0_1_are_there() {
    let bench = folder_of_0_1().await;
    // 20 granted, 3 deducted, 2 used.
    bench.run(&["account", "verify"]).await.code(0).prints("is consistent");
    let ledger = bench.run(&["account", "ledger", "--json"]).await.code(0).json();
    let amounts: Vec<i64> =
        ledger.as_array().unwrap().iter().map(|line| line["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts, [-2, -3, 20]);
    bench.run(&["account", "grant", "5", "--note", "more"]).await.code(0).prints("has 20 credits");
    bench.run(&["account", "verify"]).await.code(0).prints("is consistent");
    bench.run(&["keys", "list", "--tenant", "acme"]).await.code(0).prints("ann");
    bench.run(&["tenants", "show", "acme"]).await.code(0).prints("JOB_TIMEOUT");
    bench.run(&["webhook", "show", "--tenant", "acme"]).await.code(0).prints("https://example.com/hook");
    bench.run(&["breakers"]).await.code(0);
    bench
        .run(&["events", "list", "--limit", "1000"])
        .await
        .code(0)
        .prints("credit.settled")
        .prints("dlq.added");
}

#[tokio::test]
async fn dead_letters_and_fallbacks_of_0_1_are_read_now() {
    let bench = folder_of_0_1().await;
    let before = jobs(&bench).await;
    let of = |name: &str| before[name].0.as_str();
    bench.run(&["heal", of("fallback.pdf")]).await.code(0);
    assert_eq!(sources(&bench, of("fallback.pdf")).await, ["mupdf", "ai", "ai"]);
    verified(&bench, of("fallback.pdf")).await;
    bench.run(&["heal", of("healed.pdf")]).await.code(0);

    let dead_letters = bench.run(&["dlq", "list", "--json"]).await.code(0).json();
    let dead_letters = dead_letters.as_array().unwrap();
    assert!(dead_letters.len() > 1, "a job and pages: {dead_letters:?}");
    for dead_letter in dead_letters {
        let id = dead_letter["id"].as_str().unwrap();
        bench.run(&["dlq", "show", id]).await.code(0).prints("everypage dlq redrive");
    }
    let redriven =
        bench.run_with(&["dlq", "redrive", "--all", "--password-stdin"], "harbour\n").await.code(0);
    drop(redriven);
    bench.run(&["dlq", "list"]).await.code(0).reports("no dead letters");
    assert_eq!(sources(&bench, of("poison.pdf")).await, ["mupdf", "ai", "ai"]);
    bench.run(&["jobs", "result", of("locked.pdf")]).await.code(0).prints("customs house");
    for name in ["poison.pdf", "locked.pdf"] {
        verified(&bench, of(name)).await;
    }
}

#[tokio::test]
async fn open_jobs_of_0_1_end() {
    let bench = folder_of_0_1().await;
    // Their deadlines are long over: what was read by then is published.
    bench.run(&["resume"]).await;
    let jobs = jobs(&bench).await;
    for name in ["open.pdf", "approval.pdf"] {
        let (id, status) = &jobs[name];
        assert_eq!(status, "success", "{name}");
        verified(&bench, id).await;
    }
    let (id, _) = &jobs["open.pdf"];
    let sources = sources(&bench, id).await;
    assert_eq!(sources.iter().filter(|source| *source == "ai").count(), 2, "{sources:?}");
    assert_eq!(sources.iter().filter(|source| *source == "mupdf_timeout_fallback").count(), 3, "{sources:?}");
}

#[tokio::test]
async fn a_document_of_0_1_is_processed_again() {
    let bench = folder_of_0_1().await;
    let before = jobs(&bench).await.len();
    let sample = crate::support::sample("encrypted.pdf");
    bench.run(&["process", &sample, "--password", "harbour"]).await.code(0).prints("customs house");
    let listed = bench.run(&["jobs", "list", "--limit", "100", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), before + 1);
}
