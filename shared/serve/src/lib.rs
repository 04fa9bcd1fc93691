//! Everypage as a service in one process: API, workers and console over the embedded engine.

mod access;
mod connections;
mod console;
mod door;

use std::{net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

use axum::Router;
use everypage_api::{Api, Workers};
use everypage_core::{app::Stop, domain::ids::JobId, ports::Fault, store::keys};
use everypage_local::{LocalBackend, OpenError};
use everypage_system::prometheus::Prometheus;
use tokio::net::TcpListener;
use tracing::{info, warn};

/// What is held when a stop is asked for may take so long to be finished.
pub const GRACE: Duration = Duration::from_secs(20);

const UPKEEP: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "no API key was ever made here, so only this machine may come in: listen on 127.0.0.1, or make a key \
         first with `everypage keys create --role operator`; asked for was {0}"
    )]
    Open(SocketAddr),
    #[error("{address} can't be listened on: {error}")]
    Address { address: SocketAddr, error: std::io::Error },
    #[error(transparent)]
    Engine(#[from] OpenError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A server that listens and does not answer yet.
pub struct Server {
    engine: Arc<LocalBackend>,
    listener: TcpListener,
    address: SocketAddr,
    /// Nobody needs a key, for there is none.
    pub open: bool,
    prometheus: Option<Prometheus>,
    grace: Duration,
}

/// Pages of ended jobs come to the process that serves.
struct Here(Arc<LocalBackend>);

impl Workers for Here {
    fn attend(&self, job: &JobId) {
        self.0.resume(job);
    }
}

impl Server {
    /// Takes the address. Without any key it has to be one that only this machine reaches.
    pub async fn bind(engine: Arc<LocalBackend>, address: SocketAddr) -> Result<Self, ServeError> {
        let open = !keys::any(&engine.app).await?;
        if open && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        let failed = |error| ServeError::Address { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { engine, listener, address, open, prometheus: None, grace: GRACE })
    }

    /// Metrics of this process are answered at `/metrics`.
    pub fn with_metrics(self, prometheus: Prometheus) -> Self {
        Self { prometheus: Some(prometheus), ..self }
    }

    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Where it listens; the port is the one that was given where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn router(&self, stop: &Stop) -> Result<Router, ServeError> {
        let app = &self.engine.app;
        let mut api = Api::new(app.clone())
            .with_workers(Arc::new(Here(self.engine.clone())))
            .streaming(stop.clone())
            .drawing()
            .spooling_in(self.engine.spool()?)
            .checking_keys();
        if let Some(limit) = NonZeroU32::new(app.settings.rate_limit) {
            api = api.limiting(limit);
        }
        if let Some(prometheus) = self.prometheus.clone() {
            api = api.with_metrics(Arc::new(move || prometheus.render()));
        }
        let router = everypage_api::router_beside(api, console::routes());
        Ok(access::logged(door::guard(router, app.clone(), self.open), app.clock.clone()))
    }

    /// What histograms gather is taken in from time to time even where nobody scrapes.
    async fn upkeep(&self) {
        loop {
            self.engine.app.clock.sleep(UPKEEP).await;
            if let Some(prometheus) = &self.prometheus {
                prometheus.upkeep();
            }
        }
    }

    /// Answers and works until `stop` is asked for; then takes nothing new, finishes what it holds
    /// within its grace and leaves the rest to the next start.
    pub async fn run(self, stop: &Stop) -> Result<(), ServeError> {
        // Before documents come in, so that others see that this process lives.
        self.engine.recover_jobs().await?;
        let router = self.router(stop)?;
        let clock = self.engine.app.clock.clone();
        let answering = connections::serve(&self.listener, router, clock.clone(), stop);
        let working = async {
            let worked = self.engine.run_until(stop).await;
            let by_itself = !stop.is_asked();
            // Nobody would work on what is accepted from here on.
            stop.ask();
            worked?;
            match by_itself {
                true => Err(ServeError::from(Fault::broken("engine", "it stopped by itself"))),
                false => Ok(()),
            }
        };
        let out_of_time = async {
            stop.asked().await;
            clock.sleep(self.grace).await;
        };
        tokio::select! {
            biased;
            ((), worked) = async { tokio::join!(answering, working) } => worked?,
            () = out_of_time => warn!("not everything was finished in time; it goes on at the next start"),
            () = self.upkeep() => {}
        }
        self.engine.flush().await?;
        info!("stopped");
        Ok(())
    }
}
