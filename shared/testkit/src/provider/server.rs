//! The server's connections, and the handle that tests hold.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

use super::{Behaviour, Call, Counts, Script, log::CallLog, request::Asked, routes::route, script::Playing};

/// Connections served at once; further ones wait to be accepted.
const CONNECTIONS: usize = 1024;

/// A running scripted provider. Dropping it closes its port and every connection.
pub struct ScriptedProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: AbortHandle,
}

/// The script and the record, for the handle and every connection.
pub(super) struct Shared {
    playing: Mutex<Playing>,
    pub(super) log: Arc<CallLog>,
}

impl ScriptedProvider {
    /// On a free port of 127.0.0.1.
    pub async fn start(script: impl Into<Script>) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    pub async fn start_at(address: SocketAddr, script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { playing: Mutex::new(Playing::new(script.into())), log: CallLog::new() });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As `OPENAI_BASE_URL` takes it.
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// As `ANTHROPIC_BASE_URL` takes it.
    pub fn anthropic_base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From the next call on; the calls made so far stay counted.
    pub fn set_script(&self, script: impl Into<Script>) {
        self.shared.play(script.into());
    }

    /// Every call since the start or the last reset, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.log.calls()
    }

    pub fn counts(&self) -> Counts {
        self.shared.log.counts()
    }

    /// Calls to a model of this name, of either provider.
    pub fn calls_to(&self, model: &str) -> u64 {
        self.counts().models.iter().filter(|count| count.model == model).map(|count| count.calls).sum()
    }

    /// The most calls to a model of this name that were under way at one time.
    pub fn max_in_flight(&self, model: &str) -> u64 {
        let models = self.counts().models;
        models.iter().filter(|count| count.model == model).map(|count| count.max_in_flight).max().unwrap_or(0)
    }

    /// Forgets calls and counts, and plays the script from its beginning.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Returns once the counts are so; bound it with a timeout.
    pub async fn until(&self, met: impl Fn(&Counts) -> bool) {
        self.shared.log.until(met).await;
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    /// What the script has for this call.
    pub(super) fn next(&self, asked: &Asked) -> Behaviour {
        self.playing().next(asked)
    }

    pub(super) fn play(&self, script: Script) {
        *self.playing() = Playing::new(script);
    }

    pub(super) fn reset(&self) {
        self.playing().rewind();
        self.log.reset();
    }

    fn playing(&self) -> MutexGuard<'_, Playing> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections live in the accepting task, so that they end with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // Without this every small piece of a drip would wait for the previous one's receipt.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| route(Arc::clone(&shared), request));
            // A broken connection is what half of the behaviours are about.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
}
