//! Connections: a limit on their number, and timeouts for clients that only hold them open.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use crate::refusals::{self, Turn};
use axum::{
    Router,
    body::Body,
    http::{Request, Response},
    response::IntoResponse,
};
use everypage_api::{Peer, Problem, Shares};
use everypage_core::{ports::clock::Clock, time::within};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tower::ServiceExt;
use tower_http::timeout::TimeoutBody;
use tracing::{debug, warn};

/// Further connections wait until one is closed.
const MAX_CONNECTIONS: usize = 1024;
/// Further connections of one address are closed at once. A proxy in front has half of all; one client that holds
/// connections open leaves the other half.
const MAX_CONNECTIONS_PER_PEER: usize = MAX_CONNECTIONS / 2;
/// The head of a request, which is received before its caller is known: the longest has a key and a few headers.
pub(crate) const MAX_HEAD_BYTES: usize = 32 << 10;
pub(crate) const MAX_HEADERS: usize = 64;
/// Time to receive the head of a request; also closes idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to receive the next part of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a whole request: enough for a large document over a slow line.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(30 * 60);
/// The pause after a connection could not be accepted, mostly for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Handles requests until `stop` is requested, and then those that have started.
pub async fn serve(listener: &TcpListener, router: Router, clock: Arc<dyn Clock>, stop: &CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let shares = Shares::new(MAX_CONNECTIONS_PER_PEER);
    let mut open = JoinSet::new();
    loop {
        let permit = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Ok(permit) = slots.clone().acquire_owned() => permit,
        };
        while open.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(share) = shares.take(peer.ip()) else { continue };
                let (router, clock, stop) = (router.clone(), clock.clone(), stop.clone());
                open.spawn(async move {
                    connection(stream, peer, router, clock, &stop).await;
                    drop((permit, share));
                });
            }
            Err(error) => {
                warn!(%error, "connection not accepted");
                clock.sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    while open.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
) {
    // Responses are small and written whole: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let turn = Turn::default();
    let stream = refusals::Connection::new(stream, turn.clone());
    let service = service_fn(move |request| {
        turn.begin();
        let (turn, responding) = (turn.clone(), respond(router.clone(), clock.clone(), peer, request));
        async move { responding.await.map(|response| turn.end_with(response)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        // The buffer alone would let a head through that arrives at once and is somewhat longer.
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection failed");
    }
}

async fn respond(
    router: Router,
    clock: Arc<dyn Clock>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut request = request.map(|body| Body::new(TimeoutBody::new(BODY_TIMEOUT, body)));
    request.extensions_mut().insert(Peer(peer.ip()));
    match within(clock.as_ref(), MAX_REQUEST_TIME, router.oneshot(request)).await {
        Some(response) => response,
        None => Ok(Problem::timeout().into_response()),
    }
}
