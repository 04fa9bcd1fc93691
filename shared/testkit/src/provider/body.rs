//! Response bodies that go wrong: in pieces, with pauses, without an end.

use std::{convert::Infallible, io, iter, time::Duration};

use futures::{Stream, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};

use super::log::OpenCall;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What is to be sent, piece by piece.
pub(super) struct Payload {
    pub(super) pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    /// Before each piece but the first.
    pub(super) pause: Duration,
    /// The length that the headers promise; without one the body is chunked.
    pub(super) announced: Option<u64>,
    /// Ends with a closed connection instead of a proper end.
    pub(super) breaks_off: bool,
}

const CHUNK_BYTES: usize = 16 * 1024;

impl Payload {
    pub(super) fn whole(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let announced = Some(body.len() as u64);
        Self { pieces: Box::new(iter::once(body)), pause: Duration::ZERO, announced, breaks_off: false }
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
        let pieces = iter::from_fn(move || {
            let piece = rest.split_to(bytes.max(1).min(rest.len()));
            (!piece.is_empty()).then_some(piece)
        });
        Self { pieces: Box::new(pieces), pause, announced, breaks_off: false }
    }

    /// `before`, then `bytes` letters made up while they are sent, then `after`.
    pub(super) fn padded(before: String, bytes: u64, after: String) -> Self {
        let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let mut left = bytes;
        let padding = iter::from_fn(move || {
            let length = left.min(CHUNK_BYTES as u64);
            left -= length;
            (length > 0).then(|| chunk.slice(..length as usize))
        });
        let pieces = iter::once(before.into()).chain(padding).chain(iter::once(after.into()));
        Self { pieces: Box::new(pieces), pause: Duration::ZERO, announced: None, breaks_off: false }
    }

    /// The body of `call`, which ends with it.
    pub(super) fn into_body(self, call: OpenCall) -> Body {
        StreamBody::new(frames(self, call)).boxed_unsync()
    }
}

/// A body outside the script.
pub(super) fn plain(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn frames(payload: Payload, call: OpenCall) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send {
    let Payload { pieces, pause, breaks_off, .. } = payload;
    let state = (pieces.peekable(), call, true);
    stream::unfold(Some(state), move |state| async move {
        let (mut pieces, mut call, first) = state?;
        if !first && !pause.is_zero() {
            wait(pause).await;
        }
        let Some(piece) = pieces.next() else {
            call.sent();
            // Lets what was written so far leave before the connection is torn down.
            tokio::task::yield_now().await;
            return breaks_off.then(|| (Err(io::Error::other("the script ends here")), None));
        };
        call.wrote(piece.len());
        if pieces.peek().is_none() && !breaks_off {
            call.sent();
        }
        Some((Ok(Frame::data(piece)), Some((pieces, call, false))))
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a provider's slowness is real time, as its clients' timeouts are"
)]
pub(super) async fn wait(pause: Duration) {
    tokio::time::sleep(pause).await;
}
