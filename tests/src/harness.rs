//! The real use cases and the real driver over memory, in virtual time.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    app::{App, Ports},
    finish::{result::ResultDocument, results},
    ids::{JobId, PageNumber, TenantId},
    intake::submit::{Submission, SubmitError, Submitted, submit},
    job::{Job, JobOptions, RequestSource, jobs},
    keys::record,
    notices::send,
    notify::{deliver, relay},
    ports::{
        blobs::Blobs,
        bus::Bus,
        clock::Clock,
        flow::Flow,
        hooks::Hooks,
        notifier::Notifier,
        ocr::{NoOcr, Ocr},
        payments::Payments,
        pdf::Pdf,
        queue::Queue,
        records::{Change, Draft, Records, When},
        vault::Vault,
    },
    read::{
        dispatch::{Disposition, dispatch_until},
        outcome::ModelCall,
        pages::{self, Claim, Page},
        waiting::Waiting,
    },
    secret::Secret,
    settings::Settings,
    time::{after, within},
    trace::TraceContext,
};
use everypage_local::{Driver, LocalFlow};
use everypage_testkit::{
    clock::VirtualClock,
    faulty::{Faults, Faulty},
    ids::CountingIds,
    memory::{
        MemoryBlobs, MemoryPayments, MemoryQueue, MemoryRecords, PlainVault, RecordingBus, RecordingHooks,
        RecordingNotifier, RecordingTraces,
    },
    pdf::{FakeDocument, FakePdf},
    vision::FakeVision,
};
use futures::future::join_all;

/// What survives a crash: the storage and the external services.
pub struct Harness {
    pub clock: Arc<VirtualClock>,
    pub records: Arc<MemoryRecords>,
    pub blobs: Arc<MemoryBlobs>,
    pub queue: Arc<MemoryQueue>,
    pub vision: Arc<FakeVision>,
    pub pdf: Arc<dyn Pdf>,
    pub ocr: Arc<dyn Ocr>,
    pub bus: Arc<RecordingBus>,
    pub notifier: Arc<RecordingNotifier>,
    pub hooks: Arc<RecordingHooks>,
    pub payments: Arc<MemoryPayments>,
    pub traces: Arc<RecordingTraces>,
    pub ids: Arc<CountingIds>,
    pub faults: Arc<Faults>,
    pub settings: Settings,
}

/// Settings with keys for both providers, changed by `pairs`.
pub fn settings(pairs: &[(&str, &str)]) -> Settings {
    let base = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    let read = Settings::read(|name| {
        let given = pairs.iter().chain(&base).find(|(key, _)| *key == name);
        given.map(|(_, value)| value.to_string())
    });
    match read {
        Ok(reading) => reading.settings,
        Err(faults) => panic!("{faults:?}"),
    }
}

impl Harness {
    pub fn new(pairs: &[(&str, &str)]) -> Self {
        Self::with_faults(pairs, Faults::none(), false)
    }

    pub fn with_faults(pairs: &[(&str, &str)], faults: Arc<Faults>, deliver_twice: bool) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let queue = if deliver_twice {
            MemoryQueue::delivering_twice(clock.clone())
        } else {
            MemoryQueue::new(clock.clone())
        };
        Self {
            records: Arc::default(),
            blobs: Arc::default(),
            queue: Arc::new(queue),
            vision: Arc::new(FakeVision::healthy(clock.clone())),
            pdf: Arc::new(FakePdf::default()),
            ocr: Arc::new(NoOcr),
            bus: Arc::default(),
            notifier: Arc::default(),
            hooks: Arc::default(),
            payments: Arc::default(),
            traces: Arc::default(),
            ids: Arc::default(),
            faults,
            settings: settings(pairs),
            clock,
        }
    }

    /// Lets time pass.
    pub async fn advance(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Starts a process over the same storage.
    pub fn start(&self, node: &str) -> Process {
        self.start_on(node, self.records.clone())
    }

    /// Starts a process with its own access to the records, such as one with injected faults.
    pub fn start_on(&self, node: &str, records: Arc<dyn Records>) -> Process {
        let flow = Arc::new(LocalFlow::default());
        let faults = || self.faults.clone();
        let blobs: Arc<dyn Blobs> = self.blobs.clone();
        let (queue, flow_port): (Arc<dyn Queue>, Arc<dyn Flow>) = (self.queue.clone(), flow.clone());
        let (bus, notifier): (Arc<dyn Bus>, Arc<dyn Notifier>) = (self.bus.clone(), self.notifier.clone());
        let vault: Arc<dyn Vault> = Arc::new(PlainVault::default());
        let hooks: Arc<dyn Hooks> = self.hooks.clone();
        let payments: Arc<dyn Payments> = self.payments.clone();
        let ports = Ports {
            records: Arc::new(Faulty::new(records, faults())),
            blobs: Arc::new(Faulty::new(blobs, faults())),
            queue: Arc::new(Faulty::new(queue, faults())),
            flow: Arc::new(Faulty::new(flow_port, faults())),
            bus: Arc::new(Faulty::new(bus, faults())),
            notifiers: vec![Arc::new(Faulty::new(notifier, faults()))],
            vault: Arc::new(Faulty::new(vault, faults())),
            hooks: Arc::new(Faulty::new(hooks, faults())),
            payments: Arc::new(Faulty::new(payments, faults())),
            pdf: self.pdf.clone(),
            ocr: self.ocr.clone(),
            vision: self.vision.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            traces: self.traces.clone(),
        };
        let app = Arc::new(App::new(ports, self.settings.clone(), node));
        let driver = Arc::new(Driver::new(app.clone(), flow, 2));
        Process { app, driver, leaves_after: None }
    }
}

pub struct Process {
    pub app: Arc<App>,
    pub driver: Arc<Driver>,
    /// Workers leave after this time, like those of Lambda; without it they stay.
    pub leaves_after: Option<Duration>,
}

/// Workers that leave, and the messages that each takes at a time.
const INVOCATIONS: usize = 2;
const BATCH_SIZE: usize = 3;

impl Process {
    pub async fn submit(&self, document: &FakeDocument) -> Result<Submitted, SubmitError> {
        self.submit_with(document, |_| {}, None, None).await
    }

    pub async fn submit_with(
        &self,
        document: &FakeDocument,
        change: impl FnOnce(&mut JobOptions),
        password: Option<&str>,
        key: Option<&str>,
    ) -> Result<Submitted, SubmitError> {
        let file = temp_file(document.bytes());
        let mut submission = self.submission(&file);
        change(&mut submission.options);
        submission.password = password.map(Secret::new);
        submission.idempotency_key = key.map(str::to_owned);
        submit(&self.app.intake, submission).await
    }

    /// Submits a document as part of the caller's trace.
    pub async fn submit_traced(
        &self,
        document: &FakeDocument,
        caller: TraceContext,
    ) -> Result<Submitted, SubmitError> {
        let file = temp_file(document.bytes());
        submit(&self.app.intake, Submission { traceparent: Some(caller), ..self.submission(&file) }).await
    }

    fn submission(&self, file: &tempfile::NamedTempFile) -> Submission {
        Submission {
            tenant: TenantId::new("local"),
            user: None,
            source: RequestSource::Cli,
            name: "report.pdf".into(),
            file: file.path().to_owned(),
            password: None,
            options: JobOptions::from_settings(&self.app.settings),
            idempotency_key: None,
            traceparent: None,
        }
    }

    /// Drives the job to its end, together with workers, relay and webhooks. These get a moment afterwards
    /// to release what they hold, as in a graceful shutdown.
    pub async fn finish(&self, id: &JobId) -> Job {
        let work = async {
            let job = self.driver.drive(id).await.expect("the job is not deleted");
            self.app.store.clock.sleep(Duration::from_millis(100)).await;
            job
        };
        tokio::select! {
            biased;
            job = work => job,
            _ = futures::future::join4(self.work(), relay::run(&self.app.publisher), deliver::run(&self.app.publisher), send::run(&self.app.notices)) => unreachable!("they run until they are dropped"),
        }
    }

    /// Runs the workers for `time`, then drops them at any point of their work.
    pub async fn work_for(&self, time: Duration) {
        within(self.app.store.clock.as_ref(), time, self.work()).await;
    }

    async fn work(&self) {
        match self.leaves_after {
            Some(time) => drop(join_all((0..INVOCATIONS).map(|_| self.invoke_workers(time))).await),
            None => self.driver.work().await,
        }
    }

    /// Receives and processes messages by workers that have to leave after `time`.
    async fn invoke_workers(&self, time: Duration) {
        let (clock, queue) = (&self.app.store.clock, &self.app.queue);
        loop {
            let visibility = self.app.settings.page_visibility;
            let received = queue.receive(BATCH_SIZE, visibility).await.unwrap_or_default();
            if received.is_empty() {
                clock.sleep(Duration::from_millis(100)).await;
                continue;
            }
            let leave_by = after(clock.now(), time);
            // A message that is neither deleted nor put back is delivered again.
            join_all(received.iter().map(|delivery| async move {
                match dispatch_until(&self.app.reader, delivery, leave_by).await {
                    Disposition::Done => drop(queue.delete(&delivery.receipt).await),
                    Disposition::Later(pause) => drop(queue.put_back(&delivery.receipt, pause).await),
                }
            }))
            .await;
        }
    }

    /// Drives the job for `time`, then kills the process at any point of its work.
    pub async fn kill_after(&self, id: &JobId, time: Duration) -> Option<Job> {
        within(self.app.store.clock.as_ref(), time, self.finish(id)).await
    }

    /// Makes a page wait for its next round after `call`, as a worker does.
    pub async fn make_page_wait(&self, id: &JobId, page: u32, waiting: Waiting, call: ModelCall) {
        let (store, number) = (&self.app.store, PageNumber::new(page).expect("pages count from 1"));
        let claim = pages::claim(store, id, number, 0, None, "test/1", Duration::from_secs(1)).await;
        let Ok(Claim::Granted(held)) = claim else { panic!("page {page} is not free: {claim:?}") };
        let value =
            Page { lease: None, waiting: Some(waiting), earlier_calls: vec![call], ..held.value.clone() };
        let draft = Draft::new(record::page(id, number), serde_json::to_string(&value).expect("encodable"));
        let change = Change::Put { draft, when: When::Version(held.version) };
        store.write(vec![change]).await.expect("written");
    }

    pub async fn job(&self, id: &JobId) -> Job {
        jobs::load(&self.app.store, id).await.expect("the job is there").value
    }

    pub async fn result(&self, job: &Job) -> ResultDocument {
        results::read_document(self.app.blobs.as_ref(), job, None)
            .await
            .expect("readable")
            .expect("published")
    }

    pub async fn version(&self, job: &Job, version: u32) -> ResultDocument {
        results::read_document(self.app.blobs.as_ref(), job, Some(version))
            .await
            .expect("readable")
            .expect("published")
    }
}

/// A file with these bytes, deleted when it is dropped.
pub fn temp_file(bytes: Vec<u8>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

/// Seconds since `epoch`.
pub fn seconds(clock: &dyn Clock) -> f64 {
    clock.now().duration_since(everypage_testkit::clock::epoch()).as_secs_f64()
}
