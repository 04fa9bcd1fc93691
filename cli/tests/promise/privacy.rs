//! Only results contain document text: no log, event or message does, and none contains a prompt, a
//! key or a password. Every scenario logs at the most detailed level, as JSON and as text.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use everypage_core::{
    ids::JobId,
    ports::records::{Key, Records},
};
use everypage_local::{Database, SqliteRecords};
use everypage_scripted_provider::{Behaviour, Script};
use everypage_testkit::{http::Answer, sample_pdf};
use mupdf::pdf::{Encryption, PdfDocument, PdfWriteOptions};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    builder::{Page, document},
    hostile::runaway,
    serve::Served,
    support::{Bench, Ran, bounded, end, interrupt},
};

/// Markers that only a leak can put elsewhere.
const WORDS: [&str; 2] = ["Wmarkerone", "Wmarkertwo"];
const ANSWER: &str = "Amarker";
const PROMPT: &str = "Pmarker";
const KEY: &str = "Kmarker";
const PASSWORD: &str = "Smarker";
const MARKERS: [&str; 6] = [WORDS[0], WORDS[1], ANSWER, PROMPT, KEY, PASSWORD];

/// How a scenario logs: as JSON or as text, to standard error or to a file.
#[derive(Clone, Copy, Debug)]
enum Log {
    Json,
    Pretty,
    JsonFile,
    PrettyFile,
}

const LOGS: [Log; 4] = [Log::Json, Log::Pretty, Log::JsonFile, Log::PrettyFile];

impl Log {
    async fn bench(self, rules: &[&str]) -> Bench {
        let bench = Bench::new(rules)
            .await
            .with("LOG_LEVEL", "trace")
            .with("AI_SYSTEM_PROMPT", &format!("Read the page. {PROMPT}."))
            .with("OPENAI_API_KEY", &format!("sk-{KEY}-openai"))
            .with("ANTHROPIC_API_KEY", &format!("sk-{KEY}-anthropic"))
            .with("REQUEST_TIMEOUT", "500ms")
            .with("PATIENCE", "1s")
            .with("IMAGE_DPI", "20");
        let bench = match self {
            Self::Json | Self::JsonFile => bench.with("LOG_PRETTY", "false"),
            Self::Pretty | Self::PrettyFile => bench.with("LOG_PRETTY", "true"),
        };
        let file = bench.path("log");
        std::fs::write(bench.path("open.pdf"), sample_pdf::pages_with_text(&WORDS)).unwrap();
        std::fs::write(bench.path("locked.pdf"), locked(&sample_pdf::pages_with_text(&WORDS))).unwrap();
        match self {
            Self::Json | Self::Pretty => bench,
            Self::JsonFile | Self::PrettyFile => bench.with("LOG_FILE", &file),
        }
    }
}

fn locked(plain: &[u8]) -> Vec<u8> {
    let mut options = PdfWriteOptions::default();
    options.set_encryption(Encryption::Aes256).set_user_password(PASSWORD).set_owner_password("owner");
    let mut bytes = Vec::new();
    PdfDocument::from_bytes(plain).unwrap().write_to_with_options(&mut bytes, options).unwrap();
    bytes
}

#[track_caller]
fn has_no_marker(text: &str, what: &str) {
    for marker in MARKERS {
        if let Some(at) = text.find(marker) {
            let (from, to) = (at.saturating_sub(200), (at + 200).min(text.len()));
            panic!("{what} has {marker}: …{}…", String::from_utf8_lossy(&text.as_bytes()[from..to]));
        }
    }
}

/// Checks everything but the result: messages, logs, and what the commands show.
async fn nothing_leaked(bench: &Bench, log: Log, ran: &Ran) {
    has_no_marker(&ran.stderr, &format!("{log:?}: standard error"));
    let logged = match log {
        Log::Json | Log::Pretty => ran.stderr.clone(),
        Log::JsonFile | Log::PrettyFile => bench.read("log"),
    };
    assert!(logged.contains("INFO") || logged.contains("WARN"), "{log:?} logs nothing: {logged}");
    has_no_marker(&logged, &format!("{log:?}: the log"));
    let job = bench.job().await;
    for look in [
        vec!["events", "list", "--limit", "1000", "--json"],
        vec!["jobs", "events", &job, "--json"],
        vec!["jobs", "show", &job, "--json"],
        vec!["jobs", "list"],
        vec!["dlq", "list", "--json"],
        vec!["dlq", "list"],
        vec!["breakers", "--json"],
        vec!["config", "check"],
    ] {
        let ran = bench.run(&look).await.code(0);
        has_no_marker(&ran.stderr, &format!("{look:?}, standard error"));
        // The prompt is a setting, and this command shows settings.
        let shown = if look[0] == "config" { ran.stdout.replace(PROMPT, "") } else { ran.stdout };
        has_no_marker(&shown, &format!("{look:?}"));
    }
    assert!(!stored(bench).contains(PASSWORD), "{log:?}: the database has the password");
    assert!(!stored(bench).contains(KEY), "{log:?}: the database has the key");
}

/// Every byte of the database and its write-ahead log, including those of deleted records.
fn stored(bench: &Bench) -> String {
    let bytes = |name: &str| std::fs::read(bench.folder.path().join("data").join(name)).unwrap_or_default();
    let all = [bytes("everypage.db"), bytes("everypage.db-wal")].concat();
    assert!(!all.is_empty());
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn when_nothing_fails() {
    for log in LOGS {
        let answer = format!("text=\"{ANSWER}: what the model read\"");
        let bench = log.bench(&[&answer]).await;
        let ran = bench.run(&["process", &bench.path("open.pdf"), "-vv"]).await.code(0).prints(ANSWER);
        nothing_leaked(&bench, log, &ran).await;
    }
}

#[tokio::test]
async fn when_models_fail_and_providers_send_garbage() {
    let answer = format!("text=\"{ANSWER}: what the model read\"");
    let logs = LOGS.iter().copied().cycle();
    for (rules, log) in [
        vec!["openai:gpt-5.4=503", "openai:gpt-5.4-mini=hang", &answer],
        vec!["openai:gpt-5.4=401", &answer],
        vec!["openai:*=garbage", "anthropic:*=html"],
        vec!["openai:*=wrong-json", "anthropic:*=half-body"],
        vec!["openai:*=refusal", "anthropic:*=truncated"],
        vec!["openai:*=loop", "anthropic:*=empty"],
        vec!["400"],
    ]
    .into_iter()
    .zip(logs)
    {
        let bench = log.bench(&rules).await;
        let ran = bench.run(&["process", &bench.path("open.pdf"), "-v"]).await;
        assert!(matches!(ran.code, 0 | 3), "{rules:?}: {}", ran.stderr);
        nothing_leaked(&bench, log, &ran.prints("marker")).await;
    }
}

#[tokio::test]
async fn when_a_page_becomes_a_dead_letter() {
    for log in [Log::Json, Log::PrettyFile] {
        // An unknown error becomes a dead letter, whose message is not shown.
        let bench = log.bench(&["page=1=418"]).await;
        let ran = bench.run(&["process", &bench.path("open.pdf")]).await.code(3);
        let letters = bench.run(&["dlq", "list", "--json"]).await.json();
        assert_eq!(letters.as_array().unwrap().len(), 1, "{}", ran.stderr);
        let id = letters[0]["id"].as_str().unwrap();
        for look in [vec!["dlq", "show", id], vec!["dlq", "show", id, "--json"]] {
            has_no_marker(&bench.run(&look).await.code(0).stdout, &format!("{look:?}"));
        }
        nothing_leaked(&bench, log, &ran).await;
    }
}

#[tokio::test]
async fn when_the_password_is_wrong_and_when_it_is_right() {
    for log in [Log::Json, Log::PrettyFile] {
        let bench = log.bench(&[]).await;
        let file = bench.path("locked.pdf");
        let wrong = format!("not-{PASSWORD}\n");
        let ran = bench.run_with(&["process", &file, "--password-stdin"], &wrong).await.code(1);
        nothing_leaked(&bench, log, &ran).await;
        let ran = bench.run(&["process", &file, "--password", PASSWORD]).await.code(0).prints(WORDS[1]);
        nothing_leaked(&bench, log, &ran).await;
        assert!(secret(&bench).await.is_none(), "{log:?}: the sealed password is stored after intake");
        let right = format!("{PASSWORD}\n");
        let ran = bench.run_with(&["dlq", "redrive", "--all", "--password-stdin"], &right).await.code(0);
        nothing_leaked(&bench, log, &ran).await;
    }
}

/// A server that stores every byte posted to it.
async fn receiver() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stored: Arc<Mutex<Vec<u8>>> = Arc::default();
    let all = stored.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let all = all.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !is_complete(&request) && stream.read_buf(&mut request).await.is_ok_and(|read| read > 0)
                {
                }
                all.lock().unwrap().extend(request);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await;
            });
        }
    });
    (address, stored)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let end = request.windows(4).position(|four| four == b"\r\n\r\n");
    end.is_some_and(|end| request.len() >= end + 4 + length.unwrap_or(0))
}

/// The log, the traces and the webhooks of a server contain no document text, key or secret.
#[tokio::test]
async fn when_it_serves() {
    for log in [Log::Json, Log::PrettyFile] {
        let answer = format!("text=\"{ANSWER}: what the model read\"");
        let (address, heard) = receiver().await;
        let bench = log
            .bench(&["openai:gpt-5.4=503", "page=2=418", &answer])
            .await
            .with("RATE_LIMIT", "0")
            .with("WEBHOOK_ALLOW_PRIVATE", "true")
            .with("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"))
            .with("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Tmarker");
        let key = bench.run(&["keys", "create", "--role", "operator"]).await.code(0).stdout.trim().to_owned();
        let url = format!("http://{address}/hook");
        let secret = bench.run(&["webhook", "set", &url]).await.code(0).stdout.trim().to_owned();
        let served = Served::start(&bench).await;
        let bearer = format!("Bearer {key}");
        let ask = async |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
            let headers = [headers, &[("authorization", bearer.as_str())]].concat();
            served.ask(method, path, &headers, body).await
        };
        let pdf = ("content-type", "application/pdf");
        let file = |name: &str| std::fs::read(bench.path(name)).unwrap();
        let ended = async |answer: Answer| {
            assert_eq!(answer.status, 202, "{answer:?}");
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            bounded(async {
                while matches!(
                    ask("GET", &format!("/v1/jobs/{id}"), &[], b"").await.json()["status"].as_str(),
                    Some("queued" | "processing")
                ) {}
            })
            .await;
            id
        };
        let open = ended(ask("POST", "/v1/jobs", &[pdf], &file("open.pdf")).await).await;
        let (wrong, right) = (format!("not-{PASSWORD}"), PASSWORD);
        let locked = file("locked.pdf");
        for password in [&wrong, right] {
            let headers = [pdf, ("everypage-password", password)];
            ended(ask("POST", "/v1/jobs?force=true", &headers, &locked).await).await;
        }
        // Mistakes: a password in the URL, an unknown key.
        let rejected = ask("POST", &format!("/v1/jobs?password={PASSWORD}"), &[pdf], &file("open.pdf")).await;
        assert_eq!(rejected.status, 422, "{rejected:?}");
        let unknown = ("authorization", "Bearer ep_Kmarker_unknown");
        assert_eq!(served.ask("GET", "/v1/jobs", &[unknown], b"").await.status, 401);
        let result = ask("GET", &format!("/v1/jobs/{open}/result?format=text"), &[], b"").await;
        assert!(result.body.contains(ANSWER), "{result:?}");
        for path in
            ["/v1/events", "/v1/dlq", "/v1/breakers", "/v1/load", "/v1/stats", "/v1/webhook", "/metrics"]
        {
            let answer = ask("GET", path, &[], b"").await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            has_no_marker(&answer.body, path);
            assert!(!answer.body.contains(&secret) && !answer.body.contains(&key), "{path}: {answer:?}");
        }
        served.signal(Signal::TERM);
        let ran = served.ended().await.code(0);
        let logged = match log {
            Log::Json | Log::Pretty => ran.stderr.clone(),
            Log::JsonFile | Log::PrettyFile => bench.read("log"),
        };
        let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
        assert!(heard.contains("/v1/traces") && heard.contains("finalize"), "spans were exported");
        assert!(heard.contains("/hook") && heard.contains("job.success"), "webhooks were sent");
        has_no_marker(&heard, "traces and webhooks");
        for (text, what) in [(&ran.stderr, "standard error"), (&logged, "the log"), (&heard, "the receiver")]
        {
            assert!(!text.contains(&key), "{log:?}: {what} has the API key");
            assert!(!text.contains(&secret), "{log:?}: {what} has the webhook's secret");
        }
        assert!(!logged.contains("Tmarker"), "{log:?}: the log has the collector's key");
        nothing_leaked(&bench, log, &ran).await;
    }
}

/// The sealed password of the latest job, while it is stored.
async fn secret(bench: &Bench) -> Option<String> {
    let job = JobId::new(bench.job().await);
    let database = Database::open(Path::new(&bench.path("data/everypage.db"))).unwrap();
    let key = Key::new(format!("job#{job}"), "secret");
    SqliteRecords::new(database).get(&key).await.unwrap().map(|item| item.draft.body)
}

#[tokio::test]
async fn when_the_job_is_cancelled() {
    for log in [Log::JsonFile, Log::Pretty] {
        let bench = log.bench(&["hang"]).await.with("REQUEST_TIMEOUT", "1m");
        let child = bench.start(&["process", &bench.path("open.pdf")]);
        bench.calls(2).await;
        interrupt(&child);
        let ran = end(child).await.code(130).prints(WORDS[0]);
        nothing_leaked(&bench, log, &ran).await;
    }
}

/// The password must survive a crash, as the job does, and must not be readable in the database.
#[tokio::test]
async fn while_intake_runs_and_after_a_crash_the_password_is_sealed() {
    let log = Log::JsonFile;
    let bench = log.bench(&[]).await.with("PAGE_TIMEOUT", "3s");
    let file = bench.path("trap.pdf");
    std::fs::write(&file, locked(&document(&[Page::prose(1), runaway(), Page::prose(3)]))).unwrap();
    let args = ["process", &file, "--password-stdin", "--format", "json"];
    let mut child = bench.start(&args);
    tokio::io::AsyncWriteExt::write_all(child.stdin.as_mut().unwrap(), format!("{PASSWORD}\n").as_bytes())
        .await
        .unwrap();
    bounded(async {
        while !bench.run(&["jobs", "list", "--json"]).await.stdout.contains("ACKED") {
            let _ = tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await;
        }
    })
    .await;
    assert!(secret(&bench).await.is_some(), "intake is over too soon for this test");
    assert!(!stored(&bench).contains(PASSWORD), "in clear while intake runs");
    child.kill().await.unwrap();
    assert!(secret(&bench).await.is_some());
    assert!(!stored(&bench).contains(PASSWORD), "in clear after a crash");

    bench.provider.set_script(Script::always(Behaviour::Answer));
    let ran = bench.run(&["resume"]).await.code(4).reports("success, 3 pages");
    assert!(secret(&bench).await.is_none(), "stored after intake");
    nothing_leaked(&bench, log, &ran).await;
}
