//! Response bodies that arrive in chunks, with pauses, or incomplete.

use std::{convert::Infallible, io, iter, time::Duration};

use futures::{Stream, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};

use super::log::OpenCall;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The chunks of a body.
pub(super) struct Payload {
    pub(super) chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    /// Before each chunk but the first.
    pub(super) pause: Duration,
    /// The `content-length` header; without one the transfer is chunked.
    pub(super) announced: Option<u64>,
    /// Closes the connection instead of ending the body.
    pub(super) breaks_off: bool,
}

const CHUNK_BYTES: usize = 16 * 1024;

impl Payload {
    pub(super) fn whole(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let announced = Some(body.len() as u64);
        Self { chunks: Box::new(iter::once(body)), pause: Duration::ZERO, announced, breaks_off: false }
    }

    pub(super) fn half(body: impl Into<Bytes>) -> Self {
        let mut body = body.into();
        let announced = Some(body.len() as u64);
        body.truncate(body.len() / 2);
        Self { announced, breaks_off: true, ..Self::whole(body) }
    }

    pub(super) fn drip(body: impl Into<Bytes>, bytes: usize, pause: Duration) -> Self {
        let mut rest = body.into();
        let announced = Some(rest.len() as u64);
        let chunks = iter::from_fn(move || {
            let chunk = rest.split_to(bytes.max(1).min(rest.len()));
            (!chunk.is_empty()).then_some(chunk)
        });
        Self { chunks: Box::new(chunks), pause, announced, breaks_off: false }
    }

    /// `before`, then `bytes` letters generated while they are sent, then `after`.
    pub(super) fn padded(before: String, bytes: u64, after: String) -> Self {
        let block = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let mut left = bytes;
        let padding = iter::from_fn(move || {
            let length = left.min(CHUNK_BYTES as u64);
            left -= length;
            (length > 0).then(|| block.slice(..length as usize))
        });
        let chunks = iter::once(before.into()).chain(padding).chain(iter::once(after.into()));
        Self { chunks: Box::new(chunks), pause: Duration::ZERO, announced: None, breaks_off: false }
    }

    /// The body of `call`; the call ends with it.
    pub(super) fn into_body(self, call: OpenCall) -> Body {
        StreamBody::new(frames(self, call)).boxed_unsync()
    }
}

/// A body of a control route.
pub(super) fn plain(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn frames(payload: Payload, call: OpenCall) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send {
    let Payload { chunks, pause, breaks_off, .. } = payload;
    let state = (chunks.peekable(), call, true);
    stream::unfold(Some(state), move |state| async move {
        let (mut chunks, mut call, first) = state?;
        if !first && !pause.is_zero() {
            wait(pause).await;
        }
        let Some(chunk) = chunks.next() else {
            call.sent();
            // Lets the connection send what was written before it is closed.
            tokio::task::yield_now().await;
            return breaks_off.then(|| (Err(io::Error::other("the script ends here")), None));
        };
        call.wrote(chunk.len());
        if chunks.peek().is_none() && !breaks_off {
            call.sent();
        }
        Some((Ok(Frame::data(chunk)), Some((chunks, call, false))))
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a slow provider is slow in real time, as its clients' timeouts are"
)]
pub(super) async fn wait(pause: Duration) {
    tokio::time::sleep(pause).await;
}
