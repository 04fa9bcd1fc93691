//! Turns hyper's own answers to a head that it can't read into problem documents.
//!
//! Such a request never reaches the router: hyper writes a bare `400` or `431` and closes the connection. A
//! [`Connection`] is the stream below hyper. It knows when no request is being answered, and what is written then
//! and is such a status is hyper's own answer:
//!
//! ```text
//! idle ── head is read: Turn::begin ──▶ a request is answered ── its body has ended and all is flushed ──▶ idle
//!   └── hyper writes `HTTP/1.1 4…`: a problem is written instead
//! ```

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{body::Body, http::Response};
use everypage_api::{Problem, ProblemCode};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const IDLE: u8 = 0;
const ANSWERING: u8 = 1;
/// The body has ended; parts of it may be in hyper's buffer.
const FLUSHING: u8 = 2;

/// Whose turn it is to write: hyper's own, or the router's.
#[derive(Clone, Default)]
pub struct Turn(Arc<AtomicU8>);

impl Turn {
    /// A request was read: what is written from here on is its response.
    pub fn begin(&self) {
        self.0.store(ANSWERING, Ordering::Relaxed);
    }

    /// The response, which ends the turn when hyper is done with its body.
    pub fn end_with(&self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(Counted { body, turn: self.clone() }))
    }

    fn flushed(&self) {
        let _ = self.0.compare_exchange(FLUSHING, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }
}

/// The body of a response, unchanged.
struct Counted {
    body: Body,
    turn: Turn,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.turn.0.store(FLUSHING, Ordering::Relaxed);
    }
}

/// The stream of a connection.
pub struct Connection<S> {
    stream: S,
    turn: Turn,
    /// The bytes that replace hyper's own answer, from `written` on.
    problem: Vec<u8>,
    written: usize,
}

impl<S> Connection<S> {
    pub fn new(stream: S, turn: Turn) -> Self {
        Self { stream, turn, problem: Vec::new(), written: 0 }
    }
}

impl<S: AsyncWrite + Unpin> Connection<S> {
    /// Takes hyper's own answer to a head, if that is what `bytes` are.
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let problem = self.turn.is_idle().then(|| problem(bytes)).flatten();
        if let Some(problem) = problem {
            (self.problem, self.written) = (problem, 0);
            return true;
        }
        false
    }

    fn poll_problem(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.problem.len() {
            let rest = &self.problem[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The whole response that says what hyper's own answer means; `None` if the bytes are something else.
fn problem(bytes: &[u8]) -> Option<Vec<u8>> {
    let (code, detail) = match bytes.strip_prefix(b"HTTP/1.1 ")?.first_chunk::<3>()? {
        b"400" => (ProblemCode::BadRequest, "the head of the request is not HTTP/1.1".to_owned()),
        b"431" => {
            let (bytes, headers) = (super::connections::MAX_HEAD_BYTES, super::connections::MAX_HEADERS);
            let detail = format!("the head of the request has more than {bytes} bytes or {headers} headers");
            (ProblemCode::HeadTooLarge, detail)
        }
        _ => return None,
    };
    let (problem, media_type) = (Problem::new(code, detail), everypage_api::PROBLEM_MEDIA_TYPE);
    let (status, body) = (code.status(), problem.document());
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        status.as_u16(),
        body.len(),
    )
    .into_bytes();
    response.extend(body);
    Some(response)
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_problem(context))?;
        if self.replace(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_problem(context))?;
        // Hyper's own answer is one part: it has no body.
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && self.replace(first)
        {
            return Poll::Ready(Ok(first.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes the stream only when nothing is left in its own buffer.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_problem(context))?;
        self.turn.flushed();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_problem(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{Router, http::StatusCode, routing::get};
    use everypage_core::ports::clock::Clock;
    use everypage_system::SystemClock;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// What looks like an answer of hyper.
    const DECOY: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    /// A server with a route that answers with text, and one whose answer has no body.
    async fn server() -> SocketAddr {
        let router = Router::new()
            .route("/text", get(|| async { DECOY.repeat(3) }))
            .route("/bare", get(|| async { StatusCode::CONFLICT }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        tokio::spawn(async move {
            crate::connections::serve(&listener, router, clock, &CancellationToken::new()).await;
        });
        address
    }

    /// What the server answers to these bytes, until it closes the connection.
    async fn answers(request: &str) -> String {
        let mut stream = TcpStream::connect(server().await).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes while we send resets the connection, after its answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[track_caller]
    fn is_problem(answer: &str, status: &str, code: &str) {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(head.contains("content-type: application/problem+json"), "{answer}");
        assert!(head.contains("connection: close"), "{answer}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["code"], body["status"].to_string().as_str()), (&code.into(), &status[..3]));
        assert!(!body["detail"].as_str().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_head_that_hyper_cannot_read_is_answered_with_a_problem() {
        for bad in ["nonsense\r\n\r\n", "GET /text HTTP/1.1\r\na b: c\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n"] {
            is_problem(&answers(bad).await, "400 Bad Request", "bad_request");
        }
        let headers =
            |count: usize| (0..count).fold(String::new(), |head, at| head + &format!("h{at}: 1\r\n"));
        let many = format!("GET /text HTTP/1.1\r\n{}\r\n", headers(65));
        is_problem(&answers(&many).await, "431 Request Header Fields Too Large", "head_too_large");
        let long = format!("GET /text HTTP/1.1\r\nh: {}\r\n\r\n", "x".repeat(33 << 10));
        is_problem(&answers(&long).await, "431 Request Header Fields Too Large", "head_too_large");
    }

    #[tokio::test]
    async fn a_bad_head_after_good_requests_is_a_problem_too() {
        let mut stream = TcpStream::connect(server().await).await.unwrap();
        for (path, status) in [("/text", "200"), ("/bare", "409"), ("/none", "404")] {
            stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            let expected = if path == "/text" { DECOY.len() * 3 } else { 0 };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
            let mut body = vec![0; expected];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(
                String::from_utf8(body).unwrap(),
                if expected > 0 { DECOY.repeat(3) } else { String::new() }
            );
        }
        stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        is_problem(&answer, "400 Bad Request", "bad_request");
    }

    /// The router's own answers are its own, also those without a body and those that quote an answer.
    #[tokio::test]
    async fn answers_of_the_router_are_not_replaced() {
        let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let bare = answers(&ask("/bare")).await;
        assert!(bare.starts_with("HTTP/1.1 409") && !bare.contains("problem"), "{bare}");
        assert!(answers(&ask("/text")).await.ends_with(&DECOY.repeat(3)));
    }
}
