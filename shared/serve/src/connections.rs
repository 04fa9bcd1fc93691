//! Connections: taken up to a number, with limits on those that only hold them open.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
    response::IntoResponse,
};
use everypage_api::{Peer, Problem};
use everypage_core::{
    app::Stop,
    ports::clock::{Clock, within},
};
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

/// More wait until one of these is closed.
const MOST_CONNECTIONS: usize = 1024;
/// A request's head has to be there by then; a connection without a request is closed then.
const HEAD: Duration = Duration::from_secs(30);
/// And so soon must a body go on.
const NEXT_BYTES: Duration = Duration::from_secs(30);
/// A large document over a slow line takes a while; longer than this nothing takes.
const WHOLE_REQUEST: Duration = Duration::from_secs(30 * 60);
/// Where connections can't be taken, for want of files mostly, it is tried again after this.
const NO_ROOM: Duration = Duration::from_millis(200);

/// Answers until `stop` is asked for, then until the requests that were begun are answered.
pub async fn serve(listener: &TcpListener, router: Router, clock: Arc<dyn Clock>, stop: &Stop) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut open = JoinSet::new();
    loop {
        let permit = tokio::select! {
            biased;
            () = stop.asked() => break,
            Ok(permit) = room.clone().acquire_owned() => permit,
        };
        while open.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = stop.asked() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (router, clock, stop) = (router.clone(), clock.clone(), stop.clone());
                open.spawn(async move {
                    connection(stream, peer, router, clock, &stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "a connection was not taken");
                clock.sleep(NO_ROOM).await;
            }
        }
    }
    while open.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, clock: Arc<dyn Clock>, stop: &Stop) {
    // Answers are small and whole: waiting for more to send only makes them late.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(router.clone(), clock.clone(), peer, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.asked() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended badly");
    }
}

async fn answer(
    router: Router,
    clock: Arc<dyn Clock>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut request = request.map(|body| Body::new(TimeoutBody::new(NEXT_BYTES, body)));
    request.extensions_mut().insert(Peer(peer.ip()));
    match within(clock.as_ref(), WHOLE_REQUEST, router.oneshot(request)).await {
        Some(answered) => answered,
        None => Ok(Problem::timeout().into_response()),
    }
}
