//! Connections: taken up to a number, with limits on those that only hold them open.

use std::{sync::Arc, time::Duration};

use axum::Router;
use everypage_core::{app::Stop, ports::clock::Clock};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use tracing::{debug, warn};

/// More wait until one of these is closed.
const MOST_CONNECTIONS: usize = 1024;
/// A request's head has to be there by then; a connection without a request is closed then.
const HEAD: Duration = Duration::from_secs(30);
/// Where connections can't be taken, for want of files mostly, it is tried again after this.
const NO_ROOM: Duration = Duration::from_millis(200);

/// Answers until `stop` is asked for, then until the requests that were begun are answered.
pub async fn serve(listener: TcpListener, router: Router, clock: Arc<dyn Clock>, stop: &Stop) {
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection was not taken");
                clock.sleep(NO_ROOM).await;
                continue;
            }
        };
        // Answers are small and whole: waiting for more to send only makes them late.
        let _ = stream.set_nodelay(true);
        let (service, stop) = (TowerToHyperService::new(router.clone()), stop.clone());
        open.spawn(async move {
            let _permit = permit;
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
        });
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}
