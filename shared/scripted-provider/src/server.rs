//! The server's connections, and the handle that tests hold.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use everypage_core::providers::target::Provider;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    Call, Counts, Script,
    dialect::{self, DIALECTS, Dialect},
    log::CallLog,
    request::ModelRequest,
    routes::route,
    running::{Decision, RunningScript},
};

/// Further connections wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;

/// A running scripted provider. Dropping it closes its port and every connection.
pub struct ScriptedProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: AbortHandle,
}

/// State that the handle and every connection share.
pub(super) struct Shared {
    script: Mutex<RunningScript>,
    pub(super) log: Arc<CallLog>,
}

impl ScriptedProvider {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(script: impl Into<Script>) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    pub async fn start_at(address: SocketAddr, script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script: Mutex::new(RunningScript::new(script.into())), log: CallLog::new() });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The value of the provider's `*_BASE_URL` setting.
    pub fn base_url(&self, provider: Provider) -> String {
        dialect::of(provider).map(|dialect| dialect.base_url(self.address)).unwrap_or_default()
    }

    pub fn openai_base_url(&self) -> String {
        self.base_url(Provider::OpenAi)
    }

    pub fn anthropic_base_url(&self) -> String {
        self.base_url(Provider::Anthropic)
    }

    /// Each provider's variables that make Everypage call this server: its base URL and a key.
    pub fn environment(&self) -> Vec<[(&'static str, String); 2]> {
        let variables = |dialect: &&dyn Dialect| {
            let names = dialect.provider().profile().variables;
            [(names.base_url, dialect.base_url(self.address)), (names.api_key, "scripted".to_owned())]
        };
        DIALECTS.iter().map(variables).collect()
    }

    /// Replaces the script from the next call on; calls so far stay counted.
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

    /// Calls to the models of this name, of all providers.
    pub fn calls_to(&self, model: &str) -> u64 {
        self.counts().models.iter().filter(|count| count.model == model).map(|count| count.calls).sum()
    }

    /// The highest number of calls in flight to a model of this name.
    pub fn max_in_flight(&self, model: &str) -> u64 {
        let models = self.counts().models;
        models.iter().filter(|count| count.model == model).map(|count| count.max_in_flight).max().unwrap_or(0)
    }

    /// Discards calls and counts, and restarts the script.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Every call after the one with this `seq`, oldest first.
    pub fn calls_after(&self, seq: u64) -> Vec<Call> {
        self.shared.log.calls_after(seq)
    }

    /// Waits until `met` holds for the counts; callers bound it with a timeout.
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
    pub(super) fn next(&self, request: &ModelRequest) -> Decision {
        self.running().next(request, Instant::now())
    }

    pub(super) fn play(&self, script: Script) {
        *self.running() = RunningScript::new(script);
    }

    pub(super) fn reset(&self) {
        self.running().rewind();
        self.log.reset();
    }

    fn running(&self) -> MutexGuard<'_, RunningScript> {
        self.script.lock()
    }
}

/// The accepting task owns the connections, so that they end with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // Without this every small chunk of a drip would wait for the previous one's acknowledgement.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| route(Arc::clone(&shared), request));
            // Half of the behaviours break the connection on purpose.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            drop(slot);
        });
        while connections.try_join_next().is_some() {}
    }
}
