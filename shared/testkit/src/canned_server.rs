//! An HTTP server that answers every request with the same bytes and records what it received.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[derive(Default)]
struct Received {
    connections: usize,
    requests: Vec<String>,
}

/// A running server on loopback, for as long as the test's runtime.
pub struct CannedServer {
    pub url: String,
    received: Arc<Mutex<Received>>,
}

impl CannedServer {
    /// `head`: status line and headers, without the length. `{authorization}` and `{x-api-key}` in the
    /// body become the value of that request header.
    pub async fn start(head: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Received::default()));
        let recorder = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                recorder.lock().connections += 1;
                tokio::spawn(serve(stream, Arc::clone(&recorder), head, body));
            }
        });
        Self { url, received }
    }

    /// Every request so far: head and body as one text.
    pub fn requests(&self) -> Vec<String> {
        self.received.lock().requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.received.lock().connections
    }
}

async fn serve(mut stream: TcpStream, received: Arc<Mutex<Received>>, head: &str, body: &str) {
    while let Some(request) = read_request(&mut stream).await {
        let mut body = body.to_owned();
        for name in ["authorization", "x-api-key"] {
            body = body.replace(&format!("{{{name}}}"), header(&request, name).unwrap_or_default());
        }
        received.lock().requests.push(request);
        let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length: usize = header(head, "content-length").unwrap_or("0").parse().ok()?;
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The value of a header of a request.
pub fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let lines = request.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
