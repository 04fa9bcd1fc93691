//! Shared by the Lambda functions: how an instance starts, how it reports failures, and that its
//! events are published and its metrics emitted before it is frozen.

mod failure;
mod log;
mod no_pdf;
mod scratch;
mod secret_watch;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

pub use failure::{ErrorName, FailedStep};
pub use scratch::use_fresh_temp_dir;

pub use everypage_aws::Stack;
use everypage_aws::{Clients, StackError, StackResources};
use everypage_core::{
    app::{App, Outside},
    events::nodes,
    job::Job,
    notices::send,
    notify::relay,
    ports::{
        ocr::{NoOcr, Ocr},
        pdf::Pdf,
        traces::{NoTraces, Traces},
    },
    settings::Settings,
    time::after,
};
use everypage_outbound::{HttpPayments, HttpWebhooks, OtlpLogs, OtlpTraces};
use everypage_telemetry::{Emf, XRay};
use everypage_vision::HttpVision;
use jiff::Timestamp;
use no_pdf::NoPdf;
use parking_lot::Mutex;
use secret_watch::{SecretWatch, WatchedVision};
use tracing::{Span, error_span, info, warn};

/// How often an instance reports that it is alive; see `sweep::NODE_TIMEOUT`.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60);

/// Time for notices before the response; the sweep sends what is left.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// Reads a variable of the environment.
type Environment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;
/// Creates what reads documents.
type MakeReaders = Box<dyn Fn(&Settings) -> Readers + Send + Sync>;

/// The adapters that read documents: only intake has them.
pub struct Readers {
    pub pdf: Arc<dyn Pdf>,
    pub ocr: Arc<dyn Ocr>,
}

impl Readers {
    /// For a function that reads no documents.
    pub fn none() -> Self {
        Self { pdf: Arc::new(NoPdf), ocr: Arc::new(NoOcr) }
    }
}

/// One instance of a function, from its cold start on.
pub struct Instance {
    clients: Clients,
    resources: StackResources,
    environment: Environment,
    make_readers: MakeReaders,
    current: Mutex<Arc<Stack>>,
    secret: SecretWatch,
    key_refused: Arc<AtomicBool>,
    emf: Emf,
    /// Flushed after each invocation, as traces are.
    logs: Option<OtlpLogs>,
    last_heartbeat: Mutex<Option<Timestamp>>,
}

impl Instance {
    /// Reads the environment and the stack's secret and connects. Every mistake in the settings is an
    /// error here, so that none shows up later.
    pub async fn start(
        make_readers: impl Fn(&Settings) -> Readers + Send + Sync + 'static,
    ) -> Result<Self, StackError> {
        Self::start_in(Box::new(environment), Box::new(make_readers)).await
    }

    async fn start_in(environment: Environment, make_readers: MakeReaders) -> Result<Self, StackError> {
        let resources = StackResources::read(&environment).map_err(StackError::Settings)?;
        let emf = Emf::install(&resources.metrics_namespace);
        let clients = Clients::connect(environment("AWS_ENDPOINT_URL"), environment("AWS_REGION")).await;
        let secrets = Stack::secrets(&clients, &resources).await?;
        let reading = Stack::settings(&secrets, &environment)?;
        let function = function_name(&environment);
        let logs = OtlpLogs::from_settings(&reading.settings, &function).map_err(invalid)?;
        log::start(&reading.settings.log.level, logs.clone());
        for warning in &reading.warnings {
            warn!("{warning}");
        }
        let key_refused = Arc::new(AtomicBool::new(false));
        let readers = make_readers(&reading.settings);
        let stack = connect(&clients, &resources, reading.settings, readers, &key_refused, &environment)?;
        let secret = SecretWatch::new(secrets, stack.app.store.clock.now(), key_refused.clone());
        let current = Mutex::new(Arc::new(stack));
        let last_heartbeat = Mutex::new(None);
        Ok(Self {
            clients,
            resources,
            environment,
            make_readers,
            current,
            secret,
            key_refused,
            emf,
            logs,
            last_heartbeat,
        })
    }

    /// The stack for an invocation. When its secret has changed, it is connected with the new settings; settings
    /// that can't be read or used leave it as it is.
    pub async fn stack(&self) -> Arc<Stack> {
        let current = self.current.lock().clone();
        let now = current.app.store.clock.now();
        if !self.secret.is_due(now) {
            return current;
        }
        self.secret.mark_read(now);
        match self.reconnect().await {
            Ok(None) => current,
            Ok(Some(stack)) => {
                info!("the secret has changed: its settings are used from now on");
                *self.current.lock() = stack.clone();
                // The new connection has a name of its own, under which its events are found.
                *self.last_heartbeat.lock() = None;
                stack
            }
            Err(error) => {
                warn!(%error, "the secret can't be used; the settings stay as they are");
                current
            }
        }
    }

    /// Reads the secret; `None` if it is unchanged.
    async fn reconnect(&self) -> Result<Option<Arc<Stack>>, StackError> {
        let secrets = Stack::secrets(&self.clients, &self.resources).await?;
        if self.secret.is_known(&secrets) {
            return Ok(None);
        }
        let settings = Stack::settings(&secrets, &self.environment)?.settings;
        let readers = (self.make_readers)(&settings);
        let stack =
            connect(&self.clients, &self.resources, settings, readers, &self.key_refused, &self.environment)?;
        self.secret.replace(secrets);
        Ok(Some(Arc::new(stack)))
    }

    /// Runs the work of one invocation on `stack`, then publishes the events that it stored and emits its
    /// metrics, however it ends.
    pub async fn invocation<T>(&self, stack: &Stack, work: impl Future<Output = T>) -> T {
        let app = &stack.app;
        let all = async {
            self.heartbeat_if_due(app).await;
            tokio::select! {
                biased;
                done = publish_after(app, work) => done,
                never = self.keep_alive(app) => never,
            }
        };
        let done = self.emf.emit_during(app.store.clock.as_ref(), all).await;
        app.store.tracer.traces.flush().await;
        if let Some(logs) = &self.logs {
            logs.flush().await;
        }
        done
    }

    /// Sends heartbeats, so that the sweep does not take a long invocation for a dead one.
    async fn keep_alive<T>(&self, app: &App) -> T {
        loop {
            app.store.clock.sleep(HEARTBEAT_INTERVAL).await;
            self.heartbeat_if_due(app).await;
        }
    }

    /// Records that this instance is alive, so that the sweep finds the events that it may leave
    /// unpublished.
    async fn heartbeat_if_due(&self, app: &App) {
        let now = app.store.clock.now();
        {
            let mut last = self.last_heartbeat.lock();
            if last.is_some_and(|last| after(last, HEARTBEAT_INTERVAL) > now) {
                return;
            }
            *last = Some(now);
        }
        if let Err(fault) = nodes::record_heartbeat(&app.store).await {
            // Not worth failing the work: it is stored with the next event.
            warn!(%fault, "heartbeat failed");
            *self.last_heartbeat.lock() = None;
        }
    }
}

/// Connects the use cases with the stack's resources and the outside world.
fn connect(
    clients: &Clients,
    resources: &StackResources,
    settings: Settings,
    readers: Readers,
    key_refused: &Arc<AtomicBool>,
    environment: &Environment,
) -> Result<Stack, StackError> {
    let vision = HttpVision::from_settings(&settings).map_err(invalid)?;
    let vision = match clients.signer() {
        Some(signer) => vision.with_signer(Arc::new(signer)),
        None => vision,
    };
    let vision = WatchedVision { inner: Arc::new(vision), key_refused: key_refused.clone() };
    let outside = Outside {
        pdf: readers.pdf,
        ocr: readers.ocr,
        vision: Arc::new(vision),
        hooks: Arc::new(HttpWebhooks::new(settings.webhook_allow_private).map_err(invalid)?),
        payments: Arc::new(HttpPayments::from_settings(&settings).map_err(invalid)?),
        traces: traces(&settings, environment)?,
        // Notices go to the stack's topic.
        notifiers: vec![],
    };
    let stack = Stack::connect(clients.clone(), resources.clone(), settings, outside)?;
    stack.blobs.keep_downloads();
    Ok(stack)
}

fn invalid(error: impl std::fmt::Display) -> StackError {
    StackError::Settings(vec![error.to_string()])
}

/// The name of this function in traces and logs.
fn function_name(environment: &Environment) -> String {
    environment("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|| "everypage".into())
}

/// Traces go to the collector of the settings, else to X-Ray where Lambda offers it.
fn traces(settings: &Settings, environment: &Environment) -> Result<Arc<dyn Traces>, StackError> {
    if let Some(otlp) = OtlpTraces::from_settings(settings, &function_name(environment)).map_err(invalid)? {
        return Ok(Arc::new(otlp));
    }
    let Some(daemon) = environment("AWS_XRAY_DAEMON_ADDRESS") else { return Ok(Arc::new(NoTraces)) };
    Ok(match XRay::connect(&daemon) {
        Ok(xray) => Arc::new(xray),
        Err(error) => {
            warn!(%error, daemon, "no traces: the X-Ray daemon can't be reached");
            Arc::new(NoTraces)
        }
    })
}

/// Runs `work`, then publishes the events that it stored: before the response, because Lambda freezes
/// the function after it.
async fn publish_after<T>(app: &App, work: impl Future<Output = T>) -> T {
    let done = work.await;
    if let Err(fault) = relay::relay_own(&app.publisher).await {
        // They stay in the outbox, for the next invocation or the sweep.
        warn!(%fault, "events not published yet");
    }
    send::flush(&app.notices, NOTICE_TIME).await;
    done
}

/// A span around the work on a job, which adds its id to every line of the log. Of level error, so that
/// it is on at every log level.
pub fn job_span(job: &Job) -> Span {
    error_span!(
        "job",
        job = %job.id,
        tenant = %job.received.tenant,
        correlation = %job.correlation_id,
        trace = job.trace().trace_id(),
    )
}

/// Reads a variable of the environment; the only place of a function that does.
pub fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{Router, extract::State};
    use everypage_core::ids::TenantId;
    use serde_json::json;

    use super::*;

    /// A Secrets Manager with one secret.
    async fn serve(secret: &Arc<Mutex<String>>) -> String {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let respond = async |State(secret): State<Arc<Mutex<String>>>| {
            json!({ "SecretString": secret.lock().clone() }).to_string()
        };
        let router = Router::new().fallback(respond).with_state(secret.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn a_changed_secret_is_used_without_a_new_instance_and_a_bad_one_is_not() {
        let secret = Arc::new(Mutex::new(r#"{"OPENAI_API_KEY": "sk-1"}"#.to_owned()));
        let endpoint = serve(&secret).await;
        let environment = move |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            "AWS_REGION" => Some("eu-west-1".into()),
            name if everypage_aws::VARIABLES.contains(&name) => Some(name.to_owned()),
            name if name.starts_with("QUEUE_URL_") || name.starts_with("DLQ_URL_") => {
                Some(format!("https://q/{name}"))
            }
            _ => None,
        };
        let instance =
            Instance::start_in(Box::new(environment), Box::new(|_| Readers::none())).await.unwrap();
        let tenants = |stack: &Stack| {
            let settings = &stack.app.settings;
            (settings.allows_tenant(&TenantId::new("acme")), settings.allows_tenant(&TenantId::new("globex")))
        };
        let first = instance.stack().await;
        assert_eq!(tenants(&first), (true, true));

        // Tenants do not have to fit into the environment of a function, which has 4 KB.
        let many: Vec<String> = (0..3000).map(|n| format!("tenant-{n}")).chain(["acme".into()]).collect();
        *secret.lock() = json!({ "OPENAI_API_KEY": "sk-2", "TENANTS": many.join(",") }).to_string();
        assert!(Arc::ptr_eq(&first, &instance.stack().await), "it is not read for each invocation");
        let old = Timestamp::UNIX_EPOCH;
        instance.secret.mark_read(old);
        let second = instance.stack().await;
        assert_eq!(tenants(&second), (true, false));
        instance.secret.mark_read(old);
        assert!(Arc::ptr_eq(&second, &instance.stack().await), "nothing has changed");

        for bad in ["no JSON", r#"{"JOB_TIMEOUT": "soon"}"#] {
            *secret.lock() = bad.to_owned();
            instance.secret.mark_read(old);
            assert!(Arc::ptr_eq(&second, &instance.stack().await), "{bad}");
        }
    }
}
