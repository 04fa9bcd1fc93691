//! `everypage serve` under load: many clients submit small documents concurrently and poll their jobs.
//!
//! ```sh
//! cargo run --release -p everypage-bench-serve -- target/release/everypage [DOCUMENTS] [CLIENTS]
//! ```
//!
//! Everything runs on this machine: the measured program in its own process over a temporary folder, its
//! models in this process as a scripted provider.

mod server;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use everypage_testkit::{http, sample_pdf};

use server::Server;

const DOCUMENTS: usize = 500;
const CLIENTS: usize = 50;
/// How often a client polls a job.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits in real time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// How long each request of a kind took.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Duration>>>);

impl Times {
    async fn of<T>(&self, request: impl Future<Output = T>) -> T {
        let started = now();
        let answer = request.await;
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(started.elapsed());
        answer
    }

    fn print(&self, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        all.sort();
        let within = |part: f64| {
            let rank = ((all.len() as f64 * part).ceil() as usize).clamp(1, all.len().max(1));
            all.get(rank - 1).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        println!(
            "{name:22} {:6} requests   p50 {:7.1} ms   p99 {:7.1} ms   max {:7.1} ms",
            all.len(),
            within(0.5),
            within(0.99),
            within(1.0)
        );
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let program = PathBuf::from(
        args.next().context("usage: everypage-bench-serve target/release/everypage [DOCUMENTS] [CLIENTS]")?,
    );
    let mut number = |default| {
        args.next().map_or(Ok(default), |text| text.parse().context("DOCUMENTS and CLIENTS are numbers"))
    };
    let (documents, clients) = (number(DOCUMENTS)?, number(CLIENTS)?);

    let server = Server::start(&program).await?;
    let (submits, polls) = (Times::default(), Times::default());
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let started = now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (next, done, submits, polls) = (next.clone(), done.clone(), submits.clone(), polls.clone());
        let address = server.address;
        running.spawn(async move {
            loop {
                let document = next.fetch_add(1, Ordering::Relaxed);
                if document >= documents {
                    return anyhow::Ok(());
                }
                one(address, document, &submits, &polls).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    println!("{documents} documents of one page, {clients} concurrent clients\n");
    // Memory after each fifth of the documents.
    let mut next_report = 1;
    while let Some(ended) = tokio::select! {
        ended = running.join_next() => ended.map(Some),
        () = pause(Duration::from_millis(20)) => Some(None),
    } {
        if let Some(ended) = ended {
            ended??;
        }
        if done.load(Ordering::Relaxed) * 5 >= documents * next_report {
            println!("{:4} done, memory {:6.1} MB", done.load(Ordering::Relaxed), server.memory_mb()?);
            next_report += 1;
        }
    }
    let wall = started.elapsed();
    let lost = documents - done.load(Ordering::Relaxed);
    println!();
    submits.print("POST /v1/jobs");
    polls.print("GET /v1/jobs/{id}");
    println!(
        "\n{} documents in {:.1} s, {:.1} per second; lost: {lost}",
        documents,
        wall.as_secs_f64(),
        documents as f64 / wall.as_secs_f64()
    );
    ensure!(lost == 0, "{lost} documents were lost");
    server.stop().await
}

/// Submits one document and waits for its text.
async fn one(address: SocketAddr, number: usize, submits: &Times, polls: &Times) -> anyhow::Result<()> {
    let text = format!("Document number {number} of the load test");
    let pdf = sample_pdf::pages_with_text(&[&text]);
    let headers = [("content-type", "application/pdf")];
    let path = format!("/v1/jobs?name=load-{number}.pdf");
    let answer = submits.of(http::send(address, "POST", &path, &headers, &pdf)).await?;
    ensure!(answer.status == 202, "not accepted: {answer:?}");
    let id = answer.json()["id"].as_str().context("the answer has no id")?.to_owned();
    loop {
        let path = format!("/v1/jobs/{id}");
        let job = polls.of(http::send(address, "GET", &path, &[], b"")).await?;
        ensure!(job.status == 200, "{job:?}");
        match job.json()["status"].as_str() {
            Some("success") => break,
            Some("queued" | "processing") => pause(POLL_INTERVAL).await,
            other => anyhow::bail!("job {id} ended as {other:?}: {}", job.body),
        }
    }
    let result = http::send(address, "GET", &format!("/v1/jobs/{id}/result"), &[], b"").await?;
    ensure!(result.status == 200 && result.body.contains("=== Page 1 ==="), "job {id}: {result:?}");
    Ok(())
}
