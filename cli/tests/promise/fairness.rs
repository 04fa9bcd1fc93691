//! One tenant's slow pages do not hold up another tenant's document.

use everypage_testkit::http::Answer;
use rustix::process::Signal;

use crate::{
    builder::document,
    hostile::slow_to_render,
    serve::Served,
    support::{Bench, bounded, report},
};

async fn key(bench: &Bench, tenant: &str) -> String {
    let key = bench.run(&["keys", "create", "--tenant", tenant]).await.code(0).stdout;
    format!("Bearer {}", key.trim())
}

async fn submit(served: &Served, key: &str, body: &[u8]) -> String {
    let headers = [("authorization", key), ("content-type", "application/pdf")];
    let answer = served.ask("POST", "/v1/jobs?force=true", &headers, body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

async fn get(served: &Served, key: &str, path: &str) -> Answer {
    served.ask("GET", path, &[("authorization", key)], b"").await
}

/// Polls until the job has ended; fails if it did not succeed.
async fn until_success(served: &Served, key: &str, job: &str) -> serde_json::Value {
    bounded(async {
        loop {
            let seen = get(served, key, &format!("/v1/jobs/{job}")).await.json();
            match seen["status"].as_str().unwrap() {
                "success" => return seen,
                "queued" | "processing" => tokio::task::yield_now().await,
                other => panic!("{other}: {seen}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn slow_drawings_of_one_tenant_do_not_delay_the_document_of_another() {
    // A drawing of the slow page ends only by its timeout, after the other document is done.
    let bench = Bench::new(&[])
        .await
        .with("JOB_TIMEOUT", "20s")
        .with("RENDER_TIMEOUT", "20s")
        .with("IMAGE_DPI", "200")
        .with("OPENAI_API_KEY", "")
        .with("ANTHROPIC_API_KEY", "")
        .with("RATE_LIMIT", "0");
    let (mallory, acme) = (key(&bench, "mallory").await, key(&bench, "acme").await);
    let served = Served::start(&bench).await;
    let good = std::fs::read(report()).unwrap();
    let slow = submit(&served, &mallory, &document(&[slow_to_render()])).await;
    until_success(&served, &mallory, &slow).await;
    let image = format!("/v1/jobs/{slow}/pages/1/image");
    let attack = async {
        let image = || get(&served, &mallory, &image);
        tokio::join!(image(), image(), image(), image(), image(), image())
    };
    let victim = async {
        let job = submit(&served, &acme, &good).await;
        until_success(&served, &acme, &job).await
    };
    let done = tokio::select! {
        biased;
        _ = attack => panic!("the drawings ended before the other document"),
        done = victim => done,
    };
    let metadata = &done["result"]["metadata"];
    assert_eq!((&metadata["timeout_occurred"], &metadata["total_pages"]), (&false.into(), &12.into()));
    served.signal(Signal::TERM);
    served.ended().await.code(0);
}
