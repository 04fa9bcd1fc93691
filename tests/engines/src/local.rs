//! The engine of one machine, with the real reader of PDFs and the real HTTP adapters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use everypage_core::{
    app::{App, Outside},
    config::Settings,
    domain::{ids::JobId, secret::Secret},
    usecases::upload::{Object, arrived},
};
use everypage_local::LocalBackend;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_providers::{HttpHooks, HttpPayments, OtlpTraces, Providers};
use everypage_testkit::{fake_payment_server::FakePaymentServer, provider::ScriptedProvider};
use tokio::task::JoinHandle;

use crate::{
    bench::{Bench, CREDIT_PRICE, Document, VISIBILITY, script},
    collector::{Collector, Span},
    program,
};

pub struct OneMachine {
    folder: tempfile::TempDir,
    settings: Settings,
    provider: ScriptedProvider,
    payment_server: FakePaymentServer,
    collector: Collector,
    running: Mutex<Option<(Arc<LocalBackend>, JoinHandle<()>)>>,
}

impl OneMachine {
    pub async fn start() -> Self {
        let provider = ScriptedProvider::start(script()).await.unwrap();
        let payment_server = FakePaymentServer::start().await.unwrap();
        let collector = Collector::start().await;
        let visibility = format!("{}s", VISIBILITY.as_secs());
        let settings = Settings::read(|name| match name {
            "OPENAI_BASE_URL" => Some(provider.openai_base_url()),
            "ANTHROPIC_BASE_URL" => Some(provider.anthropic_base_url()),
            "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => Some("scripted".into()),
            "PAYMENT_URL" => Some(payment_server.url()),
            "CREDIT_PRICE_USD" => Some(CREDIT_PRICE.into()),
            "PAGE_VISIBILITY" => Some(visibility.clone()),
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(collector.endpoint()),
            _ => None,
        });
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            settings: settings.unwrap().settings,
            provider,
            payment_server,
            collector,
            running: Mutex::new(None),
        };
        bench.run().await;
        bench
    }

    /// As a process that is started over the same folder.
    async fn run(&self) {
        let child = ChildCommand::new(program("everypage-intake")).arg("pdf-child");
        let adapter = everypage_providers::Settings::of(&self.settings).unwrap();
        let outside = Outside {
            pdf: Arc::new(IsolatedPdf::new(child, self.settings.pdf)),
            vision: Arc::new(Providers::new(adapter).unwrap()),
            hooks: Arc::new(HttpHooks::new(true).unwrap()),
            payments: Arc::new(HttpPayments::of(&self.settings).unwrap()),
            traces: Arc::new(OtlpTraces::of(&self.settings, "everypage").unwrap().unwrap()),
        };
        let engine = LocalBackend::open(self.folder.path(), self.settings.clone(), outside).await.unwrap();
        let engine = Arc::new(engine);
        let driven = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.run().await.unwrap() })
        };
        *self.running.lock().unwrap() = Some((engine, driven));
    }
}

#[async_trait(?Send)]
impl Bench for OneMachine {
    fn app(&self) -> Arc<App> {
        self.running.lock().unwrap().as_ref().unwrap().0.app.clone()
    }

    fn provider(&self) -> &ScriptedProvider {
        &self.provider
    }

    fn payment_server(&self) -> &FakePaymentServer {
        &self.payment_server
    }

    fn collector(&self) -> &Collector {
        &self.collector
    }

    async fn submit(&self, document: Document<'_>) -> JobId {
        let file = self.folder.path().join(format!("{}-{}", document.tenant, document.name));
        std::fs::write(&file, &document.bytes).unwrap();
        let key = format!("incoming/{}/{}", document.tenant, document.name);
        let password = document.password.map(Secret::new);
        let trace = document.traceparent.map(|trace| ("traceparent".to_owned(), trace.to_owned()));
        let metadata: BTreeMap<String, String> = trace.into_iter().collect();
        let object =
            Object { key: &key, version: "1", file: &file, metadata: &metadata, password: password.as_ref() };
        arrived(&self.app(), object).await.unwrap().job.id
    }

    async fn kill_workers(&self) {
        let running = self.running.lock().unwrap().take();
        let (engine, driven) = running.unwrap();
        driven.abort();
        let _ = driven.await;
        drop(engine);
        self.run().await;
    }

    async fn take_on(&self, job: &JobId) {
        let engine = self.running.lock().unwrap().as_ref().unwrap().0.clone();
        assert!(engine.claim(job).await.unwrap());
    }

    fn check_services(&self, spans: &[Span]) {
        assert!(spans.iter().all(|span| span.service == "everypage"), "{spans:?}");
    }

    /// Nothing to do: its process lives on and looks itself.
    async fn sweep(&self) {}
}
