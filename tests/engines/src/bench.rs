//! What a story asks of an engine, whichever it is.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    domain::{
        ids::{JobId, TenantId},
        job::Job,
    },
    store::{jobs, tenants},
};
use everypage_testkit::{
    fake_payment_server::FakePaymentServer,
    provider::{Script, ScriptedProvider},
};

use crate::collector::{Collector, Span};

/// How long a silent worker keeps its page on these benches. Short, because the stories sit it out.
pub const VISIBILITY: Duration = Duration::from_secs(8);

/// Of one credit, on these benches.
pub const CREDIT_PRICE: &str = "0.05";

#[async_trait(?Send)]
pub trait Bench: Send + Sync {
    /// The use cases over this engine's storage, as its tools have them.
    fn app(&self) -> Arc<App>;

    fn provider(&self) -> &ScriptedProvider;

    /// The payment service that the engine's credits are bought through.
    fn payment_server(&self) -> &FakePaymentServer;

    /// Where the engine's spans go.
    fn collector(&self) -> &Collector;

    /// Hands a document in, with what its metadata says; the job that it became.
    async fn submit(&self, document: Document<'_>) -> JobId;

    /// Kills whoever works on pages now, as the system does: without a word.
    async fn kill_workers(&self);

    /// Makes sure that somebody works on messages of a job that has ended.
    async fn take_on(&self, job: &JobId);

    /// Whether a job's spans were told by the parts of the engine that do such work.
    fn check_services(&self, spans: &[Span]);

    /// Lets a minute's net be drawn, where the engine has one.
    async fn sweep(&self);
}

pub struct Document<'a> {
    /// Whose it is; each story has a tenant of its own.
    pub tenant: &'a str,
    pub name: &'a str,
    pub bytes: Vec<u8>,
    pub password: Option<&'a str>,
    /// Where in a trace of their own whoever hands it in is.
    pub traceparent: Option<&'a str>,
}

/// Every story's models behave by their names, which begin with the name of its tenant.
pub fn script() -> Script {
    let rules = [
        "model=failover-one=500",
        "model=down-*=503",
        "model=hang-*=hang",
        "model=cancel-*=hang",
        "model=crash-one;first=1=hang",
        "model=poison-one;first=3=hang",
        "model=native-one;first=3=hang",
        "model=mend-*;first=4=refusal",
        "model=crowd-*=answer;delay=50ms",
        "model=trace-one=500",
    ];
    Script::parse(rules).unwrap()
}

/// Gives a tenant models of its own, so that no story trips another's breakers, and what else it
/// wants otherwise.
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
    tenants::change(app, &TenantId::new(name), &all).await.unwrap();
}

/// Asks again and again until there is an answer, for `limit` at most.
#[expect(clippy::disallowed_methods, reason = "these engines live in real time")]
pub async fn until<T>(what: &str, limit: Duration, ask: impl AsyncFn() -> Option<T>) -> T {
    let waited = tokio::time::timeout(limit, async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// The job once it has ended.
pub async fn ended(bench: &dyn Bench, id: &JobId, limit: Duration) -> Job {
    until(&format!("end of job {id}"), limit, async || {
        let job = jobs::find(&bench.app(), id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await
}
