//! The backend as a scenario uses it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    ids::{JobId, TenantId},
    job::{Job, jobs},
    tenants,
};
use everypage_testkit::{
    fake_payment_server::FakePaymentServer,
    provider::{Script, ScriptedProvider},
};

use crate::collector::{Collector, Span};

/// How long a killed worker keeps its page in these tests. Short, because the scenarios wait for it.
pub const VISIBILITY: Duration = Duration::from_secs(8);

/// The price of one credit in these tests.
pub const CREDIT_PRICE: &str = "0.05";

#[async_trait(?Send)]
pub trait TestBackend: Send + Sync {
    /// The use cases over this backend's storage.
    fn app(&self) -> Arc<App>;

    fn provider(&self) -> &ScriptedProvider;

    /// The payment service that credits are bought through.
    fn payment_server(&self) -> &FakePaymentServer;

    /// Receives the backend's spans.
    fn collector(&self) -> &Collector;

    /// Uploads a document; returns the job that it becomes.
    async fn submit(&self, document: Document<'_>) -> JobId;

    /// Kills every running worker without a chance to clean up.
    async fn kill_workers(&self);

    /// Makes sure that a worker handles messages of a job that has ended.
    async fn take_on(&self, job: &JobId);

    /// Asserts that each span was sent by the service that does this work.
    fn check_services(&self, spans: &[Span]);

    /// What the backend has sent to managed services so far, where it has any.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// Runs the sweep now, where a schedule runs it every minute.
    async fn sweep(&self);
}

/// Calls of managed services.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Messages sent to the queues.
    pub messages: u64,
    /// Reads and writes of the table.
    pub record_calls: u64,
}

pub struct Document<'a> {
    /// Each scenario has its own tenant.
    pub tenant: &'a str,
    pub name: &'a str,
    pub bytes: Vec<u8>,
    pub password: Option<&'a str>,
    /// The caller's position in its own trace.
    pub traceparent: Option<&'a str>,
}

/// Models behave by their names, which start with the tenant of their scenario.
pub fn script() -> Script {
    let rules = [
        "model=failover-one=500",
        "model=down-*=503",
        "model=hang-*=hang",
        "model=cancel-*=hang",
        "model=crash-one;first=1=hang",
        "model=poison-one;first=3=hang",
        "model=native-one;first=3=hang",
        "model=heal-*;first=4=refusal",
        "model=crowd-*=answer;delay=50ms",
        "model=trace-one=500",
    ];
    Script::parse(rules).unwrap()
}

/// Gives a tenant its own models, so that no scenario opens another's breakers, and other settings.
pub async fn tenant(app: &App, name: &str, variables: &[(&str, &str)]) {
    let models = [
        ("OPENAI_PRIMARY_MODEL", "one"),
        ("OPENAI_SECONDARY_MODEL", "two"),
        ("ANTHROPIC_PRIMARY_MODEL", "three"),
        ("ANTHROPIC_SECONDARY_MODEL", "four"),
    ];
    let models = models.map(|(variable, model)| (variable.to_owned(), Some(format!("{name}-{model}"))));
    let others = variables.iter().map(|(name, value)| (name.to_string(), Some(value.to_string())));
    let all: Vec<_> = models.into_iter().chain(others).collect();
    tenants::change(&app.tenants, &TenantId::new(name), &all, "test").await.unwrap();
}

/// Polls until there is an answer, for at most `limit`.
#[expect(clippy::disallowed_methods, reason = "these backends run in real time")]
pub async fn until<T>(what: &str, limit: Duration, poll: impl AsyncFn() -> Option<T>) -> T {
    let waited = tokio::time::timeout(limit, async {
        loop {
            if let Some(answer) = poll().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Waits until the job has ended.
pub async fn ended(backend: &dyn TestBackend, id: &JobId, limit: Duration) -> Job {
    until(&format!("end of job {id}"), limit, async || {
        let job = jobs::find(&backend.app().store, id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await
}
