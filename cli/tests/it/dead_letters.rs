//! `everypage dlq`.

use crate::support::{Bench, sample};

#[tokio::test]
async fn a_dead_letter_is_listed_shown_redriven_and_gone() {
    let bench = Bench::new(&[]).await;
    bench.run(&["process", &sample("encrypted.pdf")]).await.code(1);
    bench.run(&["dlq", "list"]).await.code(0).prints("document").prints("no password was given");
    let letters = bench.run(&["dlq", "list", "--json"]).await.code(0).json();
    let id = letters[0]["id"].as_str().unwrap();
    assert!(letters[0].get("message").is_none());
    bench.run(&["dlq", "show", id]).await.code(0).prints("everypage dlq redrive");

    let ran = bench.run_with(&["dlq", "redrive", &id[..12], "--password-stdin"], "wrong\n").await.code(1);
    ran.reports("does not open it");
    let args = ["dlq", "redrive", "--all", "--rate", "100", "--password-stdin"];
    let ran = bench.run_with(&args, "harbour\n").await.code(0);
    ran.reports("redrove 1 job").prints("success, 1 page");
    bench.run(&["dlq", "list"]).await.code(0).reports("no dead letters");
    let job = bench.job().await;
    bench.run(&["jobs", "result", &job]).await.code(0).prints("customs house");
}

#[tokio::test]
async fn purging_needs_confirmation() {
    let bench = Bench::new(&[]).await;
    bench.run(&["process", &sample("encrypted.pdf")]).await.code(1);
    bench.run(&["dlq", "purge", "--all"]).await.code(2).reports("pass --yes");
    bench.run(&["dlq", "purge"]).await.code(2);
    bench.run(&["dlq", "purge", "nothing-like-it", "--yes"]).await.code(1).reports("there is no dead letter");
    bench.run(&["dlq", "purge", "--all", "--yes"]).await.code(0).reports("purged 1 dead letter");
    bench.run(&["dlq", "list", "--json"]).await.code(0).prints("[]");
}
