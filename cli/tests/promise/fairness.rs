//! One tenant's slow pages, or its hundreds of documents, do not hold up another tenant's.

use everypage_testkit::{http::Answer, sample_pdf};
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

#[tokio::test]
async fn hundreds_of_documents_of_two_tenants_at_once_all_finish_and_no_more_are_open_than_there_is_room() {
    const ROOM: usize = 8;
    let bench = Bench::new(&[])
        .await
        .with("MAX_OPEN_JOBS", "8")
        .with("OCR", "off")
        .with("OPENAI_API_KEY", "")
        .with("ANTHROPIC_API_KEY", "")
        .with("RATE_LIMIT", "0");
    let keys = [key(&bench, "many").await, key(&bench, "few").await];
    let served = Served::start(&bench).await;
    let document = sample_pdf::with_pictures(1);
    let mut submitted = [0, 0];
    for (key, count, of) in [(&keys[0], 150, 0), (&keys[1], 50, 1)] {
        for _ in 0..count {
            submit(&served, key, &document).await;
            submitted[of] += 1;
        }
    }
    // The ids of a tenant's jobs with a status; a list may be divided into pages.
    let with_status = async |key: &str, status: &str| {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let list = get(&served, key, &format!("/v1/jobs?status={status}&limit=100{cursor}")).await.json();
            let items = list["items"].as_array().unwrap();
            ids.extend(items.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
            match list["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    };
    let mut done = [0, 0];
    while done != submitted {
        for (of, key) in keys.iter().enumerate() {
            let open = with_status(key, "processing").await.len();
            // A list is read while jobs end and others start.
            assert!(open <= 2 * ROOM, "{open} documents of one tenant are open");
            done[of] = with_status(key, "success").await.len();
        }
        for key in &keys {
            assert_eq!(with_status(key, "failed").await, Vec::<String>::new());
        }
        tokio::task::yield_now().await;
    }
    served.signal(Signal::TERM);
    served.ended().await.code(0);
}
