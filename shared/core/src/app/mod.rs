//! The application: every room with the ports that it uses, assembled once per process from a backend's
//! ports and the settings.
//!
//! Drivers, Lambda handlers and routes hold the [`App`] and pass to each use case only the room that it
//! needs, such as [`App::reader`] to `dispatch`. So a use case shows in its arguments what it can touch.

mod retrying;

use std::sync::Arc;

pub use retrying::Retrying;

use tokio::sync::{Notify, watch};

use crate::{
    admission::Admission,
    billing::Billing,
    dead_letters::DeadLetters,
    events::{Store, outbox::Outbox},
    finish::{Finisher, erase::Eraser},
    intake::Intake,
    job::Interrupts,
    notices::Notices,
    notify::Publisher,
    plan::Planner,
    ports::{
        blobs::Blobs, bus::Bus, clock::Clock, flow::Flow, hooks::Hooks, ids::Ids, notifier::Notifier,
        ocr::Ocr, payments::Payments, pdf::Pdf, queue::Queue, records::Records, traces::Traces, vault::Vault,
        vision::Vision,
    },
    prepare::Preparer,
    read::{PageReader, backlog::Backlog, breakers::Breakers, hedges::Hedges, paces::Paces, slots::Slots},
    recover::Recovery,
    settings::Settings,
    telemetry::spans::Tracer,
    tenants::Tenants,
};

/// The outside world as a backend provides it.
#[derive(Clone)]
pub struct Ports {
    pub records: Arc<dyn Records>,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub pdf: Arc<dyn Pdf>,
    pub ocr: Arc<dyn Ocr>,
    pub vision: Arc<dyn Vision>,
    pub bus: Arc<dyn Bus>,
    /// Each notice is sent by all of them.
    pub notifiers: Vec<Arc<dyn Notifier>>,
    pub hooks: Arc<dyn Hooks>,
    pub payments: Arc<dyn Payments>,
    pub vault: Arc<dyn Vault>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub traces: Arc<dyn Traces>,
}

/// The ports that are the same for every backend: the PDF parser, OCR, the models, and outbound calls.
#[derive(Clone)]
pub struct Outside {
    /// The channels of notices besides the backend's own.
    pub notifiers: Vec<Arc<dyn Notifier>>,
    pub pdf: Arc<dyn Pdf>,
    pub ocr: Arc<dyn Ocr>,
    pub vision: Arc<dyn Vision>,
    pub hooks: Arc<dyn Hooks>,
    pub payments: Arc<dyn Payments>,
    pub traces: Arc<dyn Traces>,
}

/// Every room with the ports that it uses, and the ports themselves for drivers, handlers and routes.
pub struct App {
    pub settings: Arc<Settings>,
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub vault: Arc<dyn Vault>,
    pub vision: Arc<dyn Vision>,
    pub tenants: Tenants,
    pub notices: Notices,
    pub billing: Billing,
    pub eraser: Eraser,
    pub dead_letters: DeadLetters,
    pub interrupts: Interrupts,
    pub admission: Admission,
    pub intake: Intake,
    pub preparer: Preparer,
    pub planner: Planner,
    pub reader: PageReader,
    pub finisher: Finisher,
    pub publisher: Publisher,
    pub recovery: Recovery,
}

impl App {
    pub fn new(ports: Ports, settings: Settings, node: impl Into<String>) -> Self {
        let settings = Arc::new(settings);
        let blobs: Arc<dyn Blobs> = Arc::new(retrying(ports.blobs, &ports.clock, &ports.ids, &settings));
        let queue: Arc<dyn Queue> = Arc::new(retrying(ports.queue, &ports.clock, &ports.ids, &settings));
        let flow: Arc<dyn Flow> = Arc::new(retrying(ports.flow, &ports.clock, &ports.ids, &settings));
        let store = Store {
            records: Arc::new(retrying(ports.records.clone(), &ports.clock, &ports.ids, &settings)),
            records_once: ports.records,
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            tracer: Tracer { traces: ports.traces, clock: ports.clock.clone(), ids: ports.ids },
            node: node.into(),
            environment: settings.environment.clone(),
            outbox: Arc::new(Outbox::default()),
            heartbeats: Arc::default(),
            stored: watch::Sender::new(()),
            notice_stored: Arc::default(),
        };
        let (vault, vision) = (ports.vault, ports.vision);
        let tenants = Tenants::new(store.clone(), settings.clone());
        let notices = Notices { store: store.clone(), tenants: tenants.clone(), notifiers: ports.notifiers };
        let admission = Admission::new(store.clone(), flow.clone(), settings.clone());
        let dead_letters = DeadLetters { store: store.clone(), admission: admission.clone() };
        let interrupts = Interrupts::default();
        let billing = Billing {
            store: store.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
            vault: vault.clone(),
            payments: ports.payments,
        };
        let eraser = Eraser {
            store: store.clone(),
            blobs: blobs.clone(),
            flow: flow.clone(),
            settings: settings.clone(),
            interrupts: interrupts.clone(),
        };
        let intake = Intake {
            store: store.clone(),
            blobs: blobs.clone(),
            admission: admission.clone(),
            vault: vault.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
        };
        let preparer = Preparer {
            store: store.clone(),
            blobs: blobs.clone(),
            pdf: ports.pdf,
            ocr: ports.ocr,
            vault: vault.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
        };
        let planner = Planner {
            store: store.clone(),
            blobs: blobs.clone(),
            flow: flow.clone(),
            vision: vision.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
            admission: admission.clone(),
        };
        let finisher = Finisher {
            store: store.clone(),
            admission: admission.clone(),
            blobs: blobs.clone(),
            queue: queue.clone(),
            settings: settings.clone(),
            preparer: preparer.clone(),
            planner: planner.clone(),
            interrupts: interrupts.clone(),
        };
        let paces = Paces::new(store.clone(), settings.clone());
        let reader = PageReader {
            store: store.clone(),
            blobs: blobs.clone(),
            queue: queue.clone(),
            flow: flow.clone(),
            vision: vision.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
            dead_letters: dead_letters.clone(),
            breakers: Breakers::new(store.clone(), settings.clone()),
            slots: Slots::new(store.clone(), settings.clone(), paces.clone()),
            paces,
            hedges: Hedges::new(store.clone()),
            backlog: Backlog::default(),
            interrupts: interrupts.clone(),
            late_pages: Arc::new(finisher.clone()),
            preparer: preparer.clone(),
        };
        let publisher = Publisher {
            store: store.clone(),
            bus: ports.bus,
            hooks: ports.hooks,
            vault: vault.clone(),
            tenants: tenants.clone(),
            settings: settings.clone(),
            dead_letters: dead_letters.clone(),
            webhook_due: Arc::new(Notify::new()),
            subscriptions: Arc::default(),
        };
        let recovery = Recovery {
            store: store.clone(),
            admission: admission.clone(),
            blobs: blobs.clone(),
            queue: queue.clone(),
            flow: flow.clone(),
            vault: vault.clone(),
            settings: settings.clone(),
            billing: billing.clone(),
            eraser: eraser.clone(),
            notices: notices.clone(),
            dead_letters: dead_letters.clone(),
            reader: reader.clone(),
            finisher: finisher.clone(),
            publisher: publisher.clone(),
        };
        Self {
            settings,
            store,
            blobs,
            queue,
            flow,
            vault,
            vision,
            tenants,
            notices,
            billing,
            eraser,
            dead_letters,
            interrupts,
            admission,
            intake,
            preparer,
            planner,
            reader,
            finisher,
            publisher,
            recovery,
        }
    }
}

fn retrying<P: ?Sized>(
    port: Arc<P>,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
    settings: &Settings,
) -> Retrying<P> {
    Retrying::new(port, clock.clone(), ids.clone(), settings.retry_intervals.clone())
}
