//! Everypage as a service in one process: API, workers and console over the local backend.

mod access_log;
mod connections;
mod console;
mod guard;
mod refusals;
mod transfer;

use std::{net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use axum::Router;
use everypage_api::{Api, Workers};
use everypage_core::{ids::JobId, ports::Fault, tenants::api_keys};
use everypage_local::{LocalBackend, OpenError};
use everypage_telemetry::prometheus::Prometheus;
use tokio::net::TcpListener;
use tracing::{info, warn};

/// The time that a stopping server has to finish its work.
pub const GRACE: Duration = Duration::from_secs(20);

/// How often histograms are compacted.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "can't listen on {0}: no API key exists, so only this machine may connect; listen on 127.0.0.1, or \
         create a key with `everypage keys create --role operator`"
    )]
    Open(SocketAddr),
    #[error("can't listen on {address}: {error}")]
    Address { address: SocketAddr, error: std::io::Error },
    #[error(transparent)]
    Backend(#[from] OpenError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A server that has its address and handles no requests yet.
pub struct Server {
    backend: Arc<LocalBackend>,
    listener: TcpListener,
    address: SocketAddr,
    /// No API key exists, so that requests of this machine need none.
    pub open: bool,
    prometheus: Option<Prometheus>,
    grace: Duration,
}

/// Lets this process drive the messages of jobs that have ended.
struct LocalWorkers(Arc<LocalBackend>);

impl Workers for LocalWorkers {
    fn resume(&self, job: &JobId) {
        self.0.resume(job);
    }
}

impl Server {
    /// Binds the address; fails where no API key exists and other machines could connect.
    pub async fn bind(backend: Arc<LocalBackend>, address: SocketAddr) -> Result<Self, ServeError> {
        let open = !api_keys::any_exist(&backend.app.store).await?;
        if open && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        let failed = |error| ServeError::Address { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { backend, listener, address, open, prometheus: None, grace: GRACE })
    }

    /// Serves the metrics of this process at `/metrics`.
    pub fn with_metrics(self, prometheus: Prometheus) -> Self {
        Self { prometheus: Some(prometheus), ..self }
    }

    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The address that the server listens on, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn router(&self, stop: &CancellationToken) -> Result<Router, ServeError> {
        let app = &self.backend.app;
        let mut api = Api::new(app.clone())
            .with_workers(Arc::new(LocalWorkers(self.backend.clone())))
            .streaming(stop.clone())
            .rendering()
            .spooling_in(self.backend.spool()?)
            .checking_keys();
        if let Some(limit) = NonZeroU32::new(app.settings.rate_limit) {
            api = api.limiting(limit);
        }
        if let Some(prometheus) = self.prometheus.clone() {
            api = api.with_metrics(Arc::new(move || prometheus.render()));
        }
        let router = everypage_api::router_with(api, console::routes());
        let router = guard::layer(router, app.clone(), self.open);
        let router = transfer::layer(router, &app.settings.cors_origins);
        Ok(access_log::layer(router, app.store.clock.clone()))
    }

    /// Compacts histograms, which otherwise grow until the next scrape.
    async fn upkeep(&self) {
        loop {
            self.backend.app.store.clock.sleep(UPKEEP_INTERVAL).await;
            if let Some(prometheus) = &self.prometheus {
                prometheus.upkeep();
            }
        }
    }

    /// Handles requests and jobs until `stop` is requested; then accepts nothing new, finishes within its
    /// grace what it holds and leaves the rest to the next start.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), ServeError> {
        // Before the first request, so that other processes see that this one is alive.
        self.backend.recover_jobs().await?;
        let router = self.router(stop)?;
        let clock = self.backend.app.store.clock.clone();
        let serving = connections::serve(&self.listener, router, clock.clone(), stop);
        let working = async {
            let worked = self.backend.run_until(stop).await;
            let unexpected = !stop.is_cancelled();
            // No worker would process what the API accepts from here on.
            stop.cancel();
            worked?;
            match unexpected {
                true => Err(ServeError::from(Fault::broken("backend", "the workers stopped unexpectedly"))),
                false => Ok(()),
            }
        };
        let out_of_time = async {
            stop.cancelled().await;
            clock.sleep(self.grace).await;
        };
        tokio::select! {
            biased;
            ((), worked) = async { tokio::join!(serving, working) } => worked?,
            () = out_of_time => warn!("stopped before all work was finished; the next start continues it"),
            () = self.upkeep() => {}
        }
        self.backend.flush().await?;
        info!("stopped");
        Ok(())
    }
}
