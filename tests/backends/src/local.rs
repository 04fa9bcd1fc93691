//! The local backend, with the real PDF reader and the real HTTP adapters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use everypage_core::{
    app::{App, Outside},
    ids::JobId,
    intake::accept::{Object, accept},
    ports::ocr::NoOcr,
    secret::Secret,
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_outbound::{HttpPayments, HttpWebhooks, OtlpTraces};
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_testkit::{fake_payment_server::FakePaymentServer, provider::ScriptedProvider};
use everypage_vision::HttpVision;
use tokio::task::JoinHandle;

use crate::{
    collector::{Collector, Span},
    program,
    test_backend::{CREDIT_PRICE, Document, TestBackend, VISIBILITY, script},
};

pub struct LocalTestBackend {
    folder: tempfile::TempDir,
    settings: Settings,
    provider: ScriptedProvider,
    payment_server: FakePaymentServer,
    collector: Collector,
    running: Mutex<Option<(Arc<LocalBackend>, JoinHandle<()>)>>,
}

impl LocalTestBackend {
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
        let backend = Self {
            folder: tempfile::tempdir().unwrap(),
            settings: settings.unwrap().settings,
            provider,
            payment_server,
            collector,
            running: Mutex::new(None),
        };
        backend.run().await;
        backend
    }

    /// Starts the backend over the same folder, like a new process.
    async fn run(&self) {
        let child = ChildCommand::new(program("everypage-intake")).arg("pdf-child");
        let outside = Outside {
            pdf: Arc::new(IsolatedPdf::new(child, self.settings.pdf)),
            ocr: Arc::new(NoOcr),
            vision: Arc::new(HttpVision::from_settings(&self.settings).unwrap()),
            hooks: Arc::new(HttpWebhooks::new(true).unwrap()),
            payments: Arc::new(HttpPayments::from_settings(&self.settings).unwrap()),
            notifiers: vec![],
            traces: Arc::new(OtlpTraces::from_settings(&self.settings, "everypage").unwrap().unwrap()),
        };
        let backend = LocalBackend::open(self.folder.path(), self.settings.clone(), outside).await.unwrap();
        let backend = Arc::new(backend);
        let driven = {
            let backend = backend.clone();
            tokio::spawn(async move { backend.run().await.unwrap() })
        };
        *self.running.lock().unwrap() = Some((backend, driven));
    }
}

#[async_trait(?Send)]
impl TestBackend for LocalTestBackend {
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
        accept(&self.app().intake, object).await.unwrap().job.id
    }

    async fn kill_workers(&self) {
        let running = self.running.lock().unwrap().take();
        let (backend, driven) = running.unwrap();
        driven.abort();
        let _ = driven.await;
        drop(backend);
        self.run().await;
    }

    async fn take_on(&self, job: &JobId) {
        let backend = self.running.lock().unwrap().as_ref().unwrap().0.clone();
        assert!(backend.claim(job).await.unwrap());
    }

    fn check_services(&self, spans: &[Span]) {
        assert!(spans.iter().all(|span| span.service == "everypage"), "{spans:?}");
    }

    /// Does nothing: the running process sweeps itself.
    async fn sweep(&self) {}
}
