//! A server that gives every request the same bytes, and keeps what it was sent.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[derive(Clone, Default)]
struct Kept {
    connections: usize,
    requests: Vec<String>,
}

pub struct Canned {
    pub url: String,
    kept: Arc<Mutex<Kept>>,
}

impl Canned {
    /// `head`: status line and headers, without the length. A `{header}` in the body becomes the
    /// value of that request header.
    pub async fn start(head: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Kept::default()));
        let seen = Arc::clone(&kept);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, Arc::clone(&seen), head, body));
            }
        });
        Self { url, kept }
    }

    pub fn requests(&self) -> Vec<String> {
        self.kept.lock().unwrap().requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.kept.lock().unwrap().connections
    }
}

async fn serve(mut stream: TcpStream, kept: Arc<Mutex<Kept>>, head: &str, body: &str) {
    while let Some(request) = read_request(&mut stream).await {
        let mut body = body.to_owned();
        for name in ["authorization", "x-api-key"] {
            body = body.replace(&format!("{{{name}}}"), header(&request, name).unwrap_or_default());
        }
        kept.lock().unwrap().requests.push(request);
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

pub fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let lines = request.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
