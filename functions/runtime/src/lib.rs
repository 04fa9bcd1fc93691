//! What the Lambda functions share: how an instance starts, how it reports failures, and that its
//! events are published and its metrics emitted before it is frozen.

mod failure;
mod log;
mod no_pdf;
mod scratch;

use std::{sync::Arc, time::Duration};

pub use failure::{ErrorName, FailedStep};
pub use no_pdf::NoPdf;
pub use scratch::use_fresh_temp_dir;

use everypage_aws::{Clients, Stack, StackError, StackResources};
use everypage_core::{
    app::{App, Outside},
    events::nodes,
    job::Job,
    notices::send,
    notify::relay,
    ports::{
        ocr::NoOcr,
        pdf::Pdf,
        traces::{NoTraces, Traces},
    },
    settings::Settings,
    time::after,
};
use everypage_outbound::{HttpPayments, HttpWebhooks, OtlpTraces};
use everypage_telemetry::{Emf, XRay};
use everypage_vision::HttpVision;
use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::{Span, error_span, warn};

/// How often an instance reports that it is alive; see `sweep::NODE_TIMEOUT`.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60);

/// Time for notices before the response; the sweep sends what is left.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// One instance of a function, from its cold start on.
pub struct Instance {
    pub stack: Stack,
    emf: Emf,
    last_heartbeat: Mutex<Option<Timestamp>>,
}

impl Instance {
    /// Reads the environment and the stack's secret and connects. Every mistake in the settings is an
    /// error here, so that none shows up later. `pdf` creates the reader of PDFs.
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
        let vision = HttpVision::from_settings(&settings).map_err(invalid)?;
        let vision = match clients.signer() {
            Some(signer) => vision.with_signer(Arc::new(signer)),
            None => vision,
        };
        let outside = Outside {
            pdf: pdf(&settings),
            ocr: Arc::new(NoOcr),
            vision: Arc::new(vision),
            hooks: Arc::new(HttpWebhooks::new(settings.webhook_allow_private).map_err(invalid)?),
            payments: Arc::new(HttpPayments::from_settings(&settings).map_err(invalid)?),
            traces: traces(&settings)?,
            // Notices go to the stack's topic.
            notifiers: vec![],
        };
        let stack = Stack::connect(clients, resources, settings, outside)?;
        Ok(Self { stack, emf, last_heartbeat: Mutex::new(None) })
    }

    pub fn app(&self) -> &App {
        &self.stack.app
    }

    /// Runs the work of one invocation, then publishes the events that it stored and emits its metrics,
    /// however it ends.
    pub async fn invocation<T>(&self, work: impl Future<Output = T>) -> T {
        let all = async {
            self.heartbeat_if_due().await;
            tokio::select! {
                biased;
                done = publish_after(self.app(), work) => done,
                never = self.keep_alive() => never,
            }
        };
        let done = self.emf.emit_during(self.app().store.clock.as_ref(), all).await;
        self.app().store.tracer.traces.flush().await;
        done
    }

    /// Sends heartbeats, so that the sweep does not take a long invocation for a dead one.
    async fn keep_alive<T>(&self) -> T {
        loop {
            self.app().store.clock.sleep(HEARTBEAT_INTERVAL).await;
            self.heartbeat_if_due().await;
        }
    }

    /// Records that this instance is alive, so that the sweep finds the events that it may leave
    /// unpublished.
    async fn heartbeat_if_due(&self) {
        let now = self.app().store.clock.now();
        {
            let mut last = self.last_heartbeat.lock();
            if last.is_some_and(|last| after(last, HEARTBEAT_INTERVAL) > now) {
                return;
            }
            *last = Some(now);
        }
        if let Err(fault) = nodes::record_heartbeat(&self.app().store).await {
            // Not worth failing the work: it is stored with the next event.
            warn!(%fault, "heartbeat failed");
            *self.last_heartbeat.lock() = None;
        }
    }
}

fn invalid(error: impl std::fmt::Display) -> StackError {
    StackError::Settings(vec![error.to_string()])
}

/// Traces go to the collector of the settings, else to X-Ray where Lambda offers it.
fn traces(settings: &Settings) -> Result<Arc<dyn Traces>, StackError> {
    let function = environment("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_else(|| "everypage".into());
    if let Some(otlp) = OtlpTraces::from_settings(settings, &function).map_err(invalid)? {
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
