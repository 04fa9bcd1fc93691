//! `everypage serve`: access without and with keys, a graceful stop, and a restart after a kill.

use std::net::SocketAddr;

use everypage_core::{notify::webhook, secret::Secret};
use everypage_testkit::{
    http::{self, Answer},
    sample_pdf,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::Child,
    task::JoinHandle,
};

use crate::support::{Bench, Ran, bounded, end};

pub struct Served {
    process: Child,
    address: SocketAddr,
    /// Read while it runs: a process whose log is not read blocks at a full pipe.
    logged: JoinHandle<String>,
}

impl Served {
    pub async fn start(bench: &Bench) -> Self {
        Self::start_with(bench, &[]).await
    }

    async fn start_with(bench: &Bench, vars: &[(&str, &str)]) -> Self {
        let mut process = bench.start_with(&["serve", "--listen", "127.0.0.1:0"], vars);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = bounded(lines.next_line()).await.unwrap().expect("it prints its address");
        let address = line.trim_start_matches("http://").parse().unwrap();
        let mut stderr = process.stderr.take().unwrap();
        let logged = tokio::spawn(async move {
            let mut text = String::new();
            stderr.read_to_string(&mut text).await.unwrap();
            text
        });
        Self { process, address, logged }
    }

    pub async fn ended(self) -> Ran {
        let ran = end(self.process).await;
        Ran { stderr: bounded(self.logged).await.unwrap(), ..ran }
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        bounded(http::send(self.address, method, path, headers, body)).await.unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"").await
    }

    /// The id of a new job.
    async fn submit(&self, pages: u32) -> String {
        let headers = [("content-type", "application/pdf")];
        let answer = self.ask("POST", "/v1/jobs", &headers, &sample_pdf::with_pictures(pages)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn until_success(&self, job: &str) -> serde_json::Value {
        bounded(async {
            loop {
                let seen = self.get(&format!("/v1/jobs/{job}")).await.json();
                match seen["status"].as_str().unwrap() {
                    "success" => return seen,
                    "queued" | "processing" => tokio::task::yield_now().await,
                    other => panic!("{other}: {seen}"),
                }
            }
        })
        .await
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

#[tokio::test]
async fn without_keys_only_this_machine_has_access_and_with_one_only_its_holder() {
    let bench = Bench::new(&[]).await;
    let rejected = bench.run(&["serve", "--listen", "0.0.0.0:0"]).await.code(2);
    rejected.reports("keys create");
    let served = Served::start(&bench).await;
    assert_eq!(served.get("/readyz").await.status, 200);
    assert_eq!(served.get("/v1/jobs").await.status, 200);
    assert!(served.get("/metrics").await.body.contains("everypage_queue_depth"));
    let console = served.get("/").await;
    assert!(console.header("content-security-policy").unwrap().contains("default-src 'none'"), "{console:?}");
    let tag = console.header("etag").unwrap();
    assert_eq!(served.ask("GET", "/", &[("if-none-match", tag)], b"").await.status, 304);
    // Requests from other sites' pages in a browser of this machine, by origin or by host name.
    for header in [("origin", "http://evil.example"), ("host", "evil.example")] {
        let answer = served.ask("GET", "/v1/jobs", &[header], b"").await;
        assert!([400, 403].contains(&answer.status), "{answer:?}");
    }
    let missing = served.get("/nothing").await;
    assert_eq!((missing.status, missing.header("content-type")), (404, Some("application/problem+json")));
    // Once there is a key, every request needs one.
    let key = bench.run(&["keys", "create", "--role", "operator"]).await.code(0).stdout;
    assert_eq!(served.get("/v1/jobs").await.status, 401);
    let bearer = format!("Bearer {}", key.trim());
    assert_eq!(served.ask("GET", "/v1/jobs", &[("authorization", &bearer)], b"").await.status, 200);
    served.signal(Signal::TERM);
    served.ended().await.code(0);
}

#[tokio::test]
async fn a_stop_finishes_the_pages_in_progress_and_the_next_start_the_rest() {
    let bench = Bench::new(&["answer;delay=300ms"])
        .await
        .with("JOB_TIMEOUT", "60s")
        .with("IMAGE_DPI", "30")
        .with("RATE_LIMIT", "0");
    let served = Served::start(&bench).await;
    let job = served.submit(12).await;
    bench.calls(2).await;
    served.signal(Signal::TERM);
    served.ended().await.code(0).reports("stopping");
    let calls_before = bench.provider.calls().len();
    let served = Served::start(&bench).await;
    let done = served.until_success(&job).await;
    assert_eq!(done["result"]["metadata"]["final_ai_pages"], 12, "{done}");
    // The pages in progress at the stop were finished, not discarded and paid for again.
    assert_eq!(bench.provider.calls().len(), 12, "{calls_before} before the stop");
    served.signal(Signal::INT);
    served.ended().await.code(0);
}

/// Receives one message; returns its head and body.
async fn received(listener: &TcpListener) -> (String, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if Some(body.len()) == length {
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
            return (head.to_lowercase(), body.to_owned());
        }
    }
}

#[tokio::test]
async fn a_killed_server_continues_after_a_restart_and_notifies_of_the_end() {
    let bench = Bench::new(&["answer;delay=60ms"])
        .await
        .with("JOB_TIMEOUT", "60s")
        .with("IMAGE_DPI", "30")
        .with("MAX_RECEIVE_COUNT", "10")
        .with("RATE_LIMIT", "0")
        .with("WEBHOOK_ALLOW_PRIVATE", "true");
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let secret = bench.run(&["webhook", "set", &url]).await.code(0).stdout;
    let mut served = Served::start(&bench).await;
    let job = served.submit(20).await;
    bench.calls(5).await;
    served.signal(Signal::KILL);
    bounded(served.process.wait()).await.unwrap();
    let served = Served::start(&bench).await;
    let done = served.until_success(&job).await;
    assert_eq!(done["result"]["metadata"]["final_ai_pages"], 20, "{done}");
    let (head, body) = bounded(received(&receiver)).await;
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).unwrap().1.to_owned()
    };
    let message: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&message["type"], &message["data"]["id"]), (&"job.success".into(), &job.as_str().into()));
    let (time, secret) = (header("webhook-timestamp").parse().unwrap(), Secret::new(secret.trim()));
    let signature = webhook::sign(&secret, &header("webhook-id"), time, &body);
    assert_eq!(header("webhook-signature"), signature.to_lowercase());
    served.signal(Signal::TERM);
    served.ended().await.code(0);
}

#[tokio::test]
async fn jobs_of_a_server_without_dispatcher_are_driven_by_another() {
    let bench = Bench::new(&["answer;delay=60ms"])
        .await
        .with("JOB_TIMEOUT", "60s")
        .with("IMAGE_DPI", "30")
        .with("MAX_RECEIVE_COUNT", "10")
        .with("RATE_LIMIT", "0");
    let mut killed = Served::start(&bench).await;
    let orphan = killed.submit(8).await;
    bench.calls(2).await;
    killed.signal(Signal::KILL);
    bounded(killed.process.wait()).await.unwrap();
    // It accepts, and takes over neither the killed process's job nor its own.
    let api = Served::start_with(&bench, &[("RUN_DISPATCHER", "0")]).await;
    let accepted = api.submit(2).await;
    let calls_before = bench.provider.calls().len();
    assert_eq!(api.get(&format!("/v1/jobs/{accepted}")).await.json()["status"], "queued");

    let dispatcher = Served::start(&bench).await;
    for (job, pages) in [(&orphan, 8), (&accepted, 2)] {
        let done = api.until_success(job).await;
        assert_eq!(done["result"]["metadata"]["final_ai_pages"], pages, "{done}");
    }
    assert!(bench.provider.calls().len() > calls_before);
    // The dispatching process looks for what the other one accepts while both run.
    let later = api.submit(3).await;
    let done = api.until_success(&later).await;
    assert_eq!(done["result"]["metadata"]["final_ai_pages"], 3, "{done}");
    let time = |name: &str| done[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let took = time("finished_at").duration_since(time("created_at"));
    assert!(took < jiff::SignedDuration::from_secs(20), "{took}: found at once, not by its deadline");
    for served in [api, dispatcher] {
        served.signal(Signal::TERM);
        served.ended().await.code(0);
    }
}
