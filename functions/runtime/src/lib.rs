//! What the functions share: how one starts, what it says when it fails, and that its events are
//! published and its metrics told before it falls asleep.

mod emf;
mod failure;
mod log;
mod no_pdf;
mod scratch;
mod xray;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

pub use emf::Emf;
pub use failure::{FailedStep, Name};
pub use no_pdf::NoPdf;
pub use scratch::start_afresh;

use everypage_aws::{Clients, Stack, StackError, StackResources};
use everypage_core::{
    app::{App, Outside},
    config::Settings,
    domain::job::Job,
    ports::{
        clock::after,
        pdf::Pdf,
        traces::{NoTraces, Traces},
    },
    store::nodes,
    usecases::relay,
};
use everypage_providers::{HttpHooks, HttpPayments, OtlpTraces, Providers, SettingsError};
use jiff::Timestamp;
use tracing::{Span, error_span, warn};
use xray::XRay;

/// How often an instance tells that it is there; see `sweep::SILENT`.
const BEAT: Duration = Duration::from_secs(60);

/// One instance of a function, from its cold start on.
pub struct Instance {
    pub stack: Stack,
    emf: Emf,
    told: Mutex<Option<Timestamp>>,
}

impl Instance {
    /// Reads the environment and the stack's secret and connects; nothing else can be misconfigured
    /// afterwards. `pdf` is made from the settings.
    pub async fn start(pdf: impl FnOnce(&Settings) -> Arc<dyn Pdf>) -> Result<Self, StackError> {
        let emf = Emf::install();
        let resources = StackResources::read(environment).map_err(StackError::Settings)?;
        let clients = Clients::connect(environment("AWS_ENDPOINT_URL"), environment("AWS_REGION")).await;
        let reading = Stack::settings(&clients, &resources, environment).await?;
        log::start(&reading.settings.log.level);
        for warning in &reading.warnings {
            warn!("{warning}");
        }
        let settings = reading.settings;
        let vision = everypage_providers::Settings::of(&settings).map_err(|error| error.to_string());
        let vision = vision.and_then(|adapter| Providers::new(adapter).map_err(|error| error.to_string()));
        let vision = vision.map_err(|error| StackError::Settings(vec![error]))?;
        let wrong = |error: SettingsError| StackError::Settings(vec![error.to_string()]);
        let outside = Outside {
            pdf: pdf(&settings),
            vision: Arc::new(vision),
            hooks: Arc::new(HttpHooks::new(settings.webhook_allow_private).map_err(wrong)?),
            payments: Arc::new(HttpPayments::of(&settings).map_err(wrong)?),
            traces: traces(&settings)?,
        };
        let stack = Stack::connect(clients, resources, settings, outside)?;
        Ok(Self { stack, emf, told: Mutex::new(None) })
    }

    pub fn app(&self) -> &App {
        &self.stack.app
    }

    /// Runs one invocation's work, publishes the events that it stored and tells its metrics, however
    /// it ends.
    pub async fn invocation<T>(&self, work: impl Future<Output = T>) -> T {
        let all = async {
            self.tell().await;
            tokio::select! {
                biased;
                done = around(self.app(), work) => done,
                never = self.keep_telling() => never,
            }
        };
        let done = self.emf.around(self.app().clock.as_ref(), all).await;
        self.app().traces.flush().await;
        done
    }

    /// A long invocation must not be taken for one that vanished.
    async fn keep_telling<T>(&self) -> T {
        loop {
            self.app().clock.sleep(BEAT).await;
            self.tell().await;
        }
    }

    /// From time to time, so that events are found that this instance may leave behind.
    async fn tell(&self) {
        let now = self.app().clock.now();
        let due = {
            let mut told = self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let due = told.is_none_or(|at| after(at, BEAT) <= now);
            if due {
                *told = Some(now);
            }
            due
        };
        if due && let Err(fault) = nodes::seen(self.app()).await {
            // The work is worth more than the promptness of its events.
            warn!(%fault, "instance not listed");
            *self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        }
    }
}

/// To the collector that the settings name; else to X-Ray, where Lambda offers it.
fn traces(settings: &Settings) -> Result<Arc<dyn Traces>, StackError> {
    let function = environment("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|| "everypage".into());
    let otlp =
        OtlpTraces::of(settings, &function).map_err(|error| StackError::Settings(vec![error.to_string()]))?;
    if let Some(otlp) = otlp {
        return Ok(Arc::new(otlp));
    }
    let Some(daemon) = environment("AWS_XRAY_DAEMON_ADDRESS") else { return Ok(Arc::new(NoTraces)) };
    Ok(match XRay::connect(&daemon) {
        Ok(xray) => Arc::new(xray),
        Err(error) => {
            warn!(%error, daemon, "no traces");
            Arc::new(NoTraces)
        }
    })
}

/// Does `work`, then publishes the events that it stored. A function is frozen once it has answered,
/// so this comes before the answer.
pub async fn around<T>(app: &App, work: impl Future<Output = T>) -> T {
    let done = work.await;
    if let Err(fault) = relay::relay_own(app).await {
        // They stay marked, for the next invocation or the sweep.
        warn!(%fault, "events not published yet");
    }
    done
}

/// Work on a job, so that every line of the log about it names it; there whatever is logged.
pub fn at_work_on(job: &Job) -> Span {
    error_span!(
        "job",
        job = %job.id,
        tenant = %job.received.tenant,
        correlation = %job.correlation_id,
        trace = job.trace().trace_id(),
    )
}

/// The one place where a function's settings enter.
pub fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place where settings enter")]
    std::env::var(name).ok()
}
