//! `everypage serve` under load: many clients submit small documents at once and ask after them.
//!
//! ```sh
//! cargo run --release -p everypage-bench-serve -- target/release/everypage [DOCUMENTS] [CLIENTS]
//! ```
//!
//! Everything is on this machine: the program that is measured runs as a process of its own over a
//! temporary folder, its models are a scripted provider in this one.

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
/// How long a client waits before it asks again after a job that is not done.
const ASK_AGAIN: Duration = Duration::from_millis(200);

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
        let begun = now();
        let answer = request.await;
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(begun.elapsed());
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
    let program = PathBuf::from(args.next().context("name the program: target/release/everypage")?);
    let mut number = |usual| args.next().map_or(Ok(usual), |text| text.parse().context("it takes numbers"));
    let (documents, clients) = (number(DOCUMENTS)?, number(CLIENTS)?);

    let server = Server::start(&program).await?;
    let (submits, asks) = (Times::default(), Times::default());
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (next, done, submits, asks) = (next.clone(), done.clone(), submits.clone(), asks.clone());
        let address = server.address;
        running.spawn(async move {
            loop {
                let document = next.fetch_add(1, Ordering::Relaxed);
                if document >= documents {
                    return anyhow::Ok(());
                }
                one(address, document, &submits, &asks).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    println!("{documents} documents of one page, {clients} clients at once\n");
    // Memory at each fifth of the way.
    let mut next_look = 1;
    while let Some(ended) = tokio::select! {
        ended = running.join_next() => ended.map(Some),
        () = pause(Duration::from_millis(20)) => Some(None),
    } {
        if let Some(ended) = ended {
            ended??;
        }
        if done.load(Ordering::Relaxed) * 5 >= documents * next_look {
            println!("{:4} done, memory {:6.1} MB", done.load(Ordering::Relaxed), server.memory_mb()?);
            next_look += 1;
        }
    }
    let wall = begun.elapsed();
    let lost = documents - done.load(Ordering::Relaxed);
    println!();
    submits.print("POST /v1/jobs");
    asks.print("GET /v1/jobs/{id}");
    println!(
        "\n{} documents in {:.1} s, {:.1} a second; lost: {lost}",
        documents,
        wall.as_secs_f64(),
        documents as f64 / wall.as_secs_f64()
    );
    ensure!(lost == 0, "{lost} documents were lost");
    server.stop().await
}

/// Submits one document and waits for its text.
async fn one(address: SocketAddr, number: usize, submits: &Times, asks: &Times) -> anyhow::Result<()> {
    let words = format!("Document number {number} of the load test");
    let pdf = sample_pdf::pages_with_text(&[&words]);
    let headers = [("content-type", "application/pdf")];
    let path = format!("/v1/jobs?name=load-{number}.pdf");
    let answer = submits.of(http::send(address, "POST", &path, &headers, &pdf)).await?;
    ensure!(answer.status == 202, "not accepted: {answer:?}");
    let id = answer.json()["id"].as_str().context("an id")?.to_owned();
    loop {
        let path = format!("/v1/jobs/{id}");
        let job = asks.of(http::send(address, "GET", &path, &[], b"")).await?;
        ensure!(job.status == 200, "{job:?}");
        match job.json()["status"].as_str() {
            Some("success") => break,
            Some("queued" | "processing") => pause(ASK_AGAIN).await,
            other => anyhow::bail!("job {id} ended as {other:?}: {}", job.body),
        }
    }
    let result = http::send(address, "GET", &format!("/v1/jobs/{id}/result"), &[], b"").await?;
    ensure!(result.status == 200 && result.body.contains("=== Page 1 ==="), "job {id}: {result:?}");
    Ok(())
}
