//! The scripted provider over plain HTTP, as another process uses it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use everypage_scripted_provider::{Behaviour, Script, ScriptedProvider};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Returns status and body; each call has its own connection.
async fn send(provider: &ScriptedProvider, method: &str, path: &str, body: &str) -> (u16, String) {
    let (head, body) = exchange(provider, method, path, body).await;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, body)
}

/// Returns the head and the body of the response.
async fn exchange(provider: &ScriptedProvider, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response).await;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), body.to_owned())
}

fn chat(model: &str, page: u32) -> String {
    json!({ "model": model, "messages": [{ "role": "user", "content": format!("Page {page} of 9") }] })
        .to_string()
}

async fn call(provider: &ScriptedProvider, model: &str, page: u32) -> u16 {
    send(provider, "POST", "/v1/chat/completions", &chat(model, page)).await.0
}

#[tokio::test]
async fn another_process_can_read_counts_replace_the_script_and_reset() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    assert_eq!(call(&provider, "a", 1).await, 200);
    let (status, reply) =
        send(&provider, "POST", "/script", "# outage\nmodel=a=503\npage=2=429;retry-after=1\n").await;
    assert_eq!((status, reply.as_str()), (200, "2 rules\n"));
    assert_eq!(call(&provider, "a", 1).await, 503);
    assert_eq!(call(&provider, "b", 2).await, 429);

    let counts: Value = serde_json::from_str(&send(&provider, "GET", "/calls", "").await.1).unwrap();
    assert_eq!(counts["total"], 3);
    assert_eq!(
        counts["models"][0],
        json!({
            "provider": "openai", "model": "a", "calls": 2, "in_flight": 0, "max_in_flight": 1,
            "results": { "200": 1, "503": 1 },
        })
    );
    assert_eq!(counts["behaviours"], json!({ "answer": 1, "503": 1, "429;retry-after=1": 1 }));
    let log: Value = serde_json::from_str(&send(&provider, "GET", "/calls/log", "").await.1).unwrap();
    assert_eq!((&log[2]["seq"], &log[2]["page"], &log[2]["outcome"]), (&json!(3), &json!(2), &json!("sent")));

    assert_eq!(send(&provider, "POST", "/reset", "").await.0, 200);
    assert_eq!((provider.counts().total, provider.calls().len()), (0, 0));
}

#[tokio::test]
async fn a_bad_script_is_rejected_by_name_and_the_old_one_stays() {
    let provider = ScriptedProvider::start(Behaviour::Status(500)).await.unwrap();
    let (status, reply) = send(&provider, "POST", "/script", "answer\nhnag").await;
    assert!(status == 400 && reply.starts_with("\"hnag\" is not a behaviour"), "{reply}");
    assert_eq!(send(&provider, "POST", "/script", "[{}]").await.0, 400);
    assert_eq!(call(&provider, "a", 1).await, 500);
    assert_eq!(send(&provider, "POST", "/script", r#"[{"then":"answer"}]"#).await.0, 200);
    assert_eq!(call(&provider, "a", 1).await, 200);
}

#[tokio::test]
async fn a_reset_restarts_the_script() {
    let provider = ScriptedProvider::start(Script::parse(["first=1=500"]).unwrap()).await.unwrap();
    assert_eq!([call(&provider, "a", 1).await, call(&provider, "a", 1).await], [500, 200]);
    provider.reset();
    assert_eq!(call(&provider, "a", 1).await, 500);
}

#[tokio::test]
async fn half_a_body_is_half_and_a_reset_is_nothing() {
    let provider = ScriptedProvider::start(Behaviour::HalfBody).await.unwrap();
    let (status, body) = send(&provider, "POST", "/v1/messages", &chat("a", 1)).await;
    assert!(status == 200 && body.len() > 20 && serde_json::from_str::<Value>(&body).is_err(), "{body}");
    provider.set_script(Behaviour::Reset);
    assert_eq!(send(&provider, "POST", "/v1/messages", &chat("a", 1)).await, (0, String::new()));
}

#[tokio::test]
async fn an_unknown_path_lists_the_known_ones() {
    let provider = ScriptedProvider::start(Script::default()).await.unwrap();
    let (status, reply) = send(&provider, "GET", "/nothing", "").await;
    assert!(status == 404 && reply.contains("/calls"));
    assert_eq!(provider.counts().total, 0);
}

#[tokio::test]
async fn dropping_the_handle_closes_connections_that_hang() {
    let provider = ScriptedProvider::start(Behaviour::Hang).await.unwrap();
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let body = chat("a", 1);
    let request =
        format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    provider.until(|counts| counts.in_flight == 1).await;
    drop(provider);
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn calls_above_the_capacity_are_refused_until_one_ends() {
    let script = Script::parse(["limit;at-once=2;retry-after=3", "page=1=hang"]).unwrap();
    let provider = ScriptedProvider::start(script).await.unwrap();
    let hanging = [call(&provider, "a", 1), call(&provider, "b", 1)];
    tokio::select! {
        _ = futures::future::join_all(hanging) => panic!("a call that hangs has ended"),
        () = provider.until(|counts| counts.in_flight == 2) => {}
    }
    // The server may not have noticed yet that both clients are gone.
    provider.until(|counts| counts.in_flight == 0).await;
    assert_eq!(call(&provider, "a", 2).await, 200);

    let open = tokio::spawn(async move {
        let waiting = [call(&provider, "a", 1), call(&provider, "a", 1)];
        let refused = async {
            provider.until(|counts| counts.in_flight == 2).await;
            exchange(&provider, "POST", "/v1/chat/completions", &chat("a", 2)).await.0
        };
        tokio::select! {
            _ = futures::future::join_all(waiting) => panic!("a call that hangs has ended"),
            head = refused => (head, provider.counts()),
        }
    });
    let (head, counts) = open.await.unwrap();
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 3"), "{head}");
    assert_eq!((counts.max_in_flight, counts.models[0].max_in_flight), (3, 3));
    assert_eq!(counts.models[0].results["429"], 1);
}

#[tokio::test]
async fn every_response_announces_the_limit_in_its_dialect() {
    let script = Script::parse(["limit;requests=2/3600s;tokens=5000/60s;headers"]).unwrap();
    let provider = ScriptedProvider::start(script).await.unwrap();
    for (status, remaining) in [("200", "1"), ("200", "0"), ("429", "0")] {
        let (head, _) = exchange(&provider, "POST", "/v1/chat/completions", &chat("a", 1)).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert!(head.contains("x-ratelimit-limit-requests: 2\r\n"), "{head}");
        assert!(head.contains(&format!("x-ratelimit-remaining-requests: {remaining}\r\n")), "{head}");
        assert!(
            head.contains("x-ratelimit-reset-requests: ") && head.contains("x-ratelimit-limit-tokens: 5000")
        );
        assert!(!head.contains("retry-after"), "{head}");
    }
    let (head, _) = exchange(&provider, "POST", "/v1/messages", &chat("a", 1)).await;
    assert!(head.contains("anthropic-ratelimit-requests-remaining: 0\r\n"), "{head}");
    assert!(head.contains("anthropic-ratelimit-tokens-reset: 20"), "{head}");
}

#[tokio::test]
async fn a_limit_of_output_tokens_is_used_up_by_answers() {
    let script = Script::parse([
        "limit;output-tokens=20/3600s;headers",
        r#"text="an answer of twelve tokens, at four bytes each""#,
    ]);
    let provider = ScriptedProvider::start(script.unwrap()).await.unwrap();
    for (status, remaining) in [("200", "8"), ("200", "0"), ("429", "0")] {
        let (head, _) = exchange(&provider, "POST", "/v1/messages", &chat("a", 1)).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let header = format!("anthropic-ratelimit-output-tokens-remaining: {remaining}\r\n");
        assert!(head.contains(&header) && !head.contains("input-tokens"), "{head}");
    }
    let (head, _) = exchange(&provider, "POST", "/v1/chat/completions", &chat("a", 1)).await;
    assert!(!head.contains("ratelimit"), "{head}");
}
