//! Everypage over a deployed stack: the core's ports, connected.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everypage_core::{
    app::{App, Outside, Ports},
    config::{Reading, Settings},
    ports::{Fault, clock::Clock, ids::Ids, records::Records},
};
use everypage_system::{SystemClock, UlidIds};

use crate::{
    Clients, DynamoRecords, EventBridgeBus, KmsVault, Place, S3Blobs, SfnFlow, SnsNotifier, SqsQueue, secrets,
};

/// A cold start that fails keeps the batch that it is for hidden for minutes: the secret is worth some
/// tries, which settings that are yet to be read can't speak of.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

async fn secret_of(clients: &Clients, secret: &str) -> Result<BTreeMap<String, String>, Fault> {
    for pause in AGAIN {
        match secrets::read(&clients.secrets, secret).await {
            Err(Fault::Unreachable { .. } | Fault::Throttled { .. }) => SystemClock.sleep(pause).await,
            read => return read,
        }
    }
    secrets::read(&clients.secrets, secret).await
}

#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// Every mistake, each naming its variable.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    #[error("there is no stack {stack} in account {account}, {region}: no queue {missing} was found")]
    Unknown { stack: String, account: String, region: String, missing: String },
    #[error(transparent)]
    Fault(#[from] Fault),
}

pub struct Stack {
    pub app: Arc<App>,
    pub place: Place,
    pub blobs: Arc<S3Blobs>,
    pub queue: Arc<SqsQueue>,
    pub flow: Arc<SfnFlow>,
}

impl Stack {
    /// The settings that hold for a stack: those in `var`, and in the stack's secret. As everywhere, an
    /// empty variable is one that is not set: a parameter that was left empty hides nothing.
    pub async fn settings(
        clients: &Clients,
        place: &Place,
        var: impl Fn(&str) -> Option<String>,
    ) -> Result<Reading, StackError> {
        let secrets = match &place.secrets {
            Some(secret) => secret_of(clients, secret).await?,
            None => Default::default(),
        };
        let given = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        Settings::read(|name| given(name).or_else(|| secrets.get(name).cloned()))
            .map_err(StackError::Settings)
    }

    pub fn connect(
        clients: Clients,
        place: Place,
        settings: Settings,
        outside: Outside,
    ) -> Result<Self, StackError> {
        let records: Arc<dyn Records> = Arc::new(DynamoRecords::new(clients.dynamodb, &place.table));
        let blobs = Arc::new(S3Blobs::new(clients.s3, &place.bucket));
        let queue = SqsQueue::new(clients.sqs, place.queues.clone())?;
        let queue = Arc::new(queue.with_dead_letter_queues(&place.dead_letter_queues));
        let flow = Arc::new(SfnFlow::new(clients.sfn, &place.state_machine, records.clone()));
        let Outside { pdf, vision, hooks, payments, traces } = outside;
        let ports = Ports {
            records,
            blobs: blobs.clone(),
            queue: queue.clone(),
            flow: flow.clone(),
            pdf,
            vision,
            bus: Arc::new(EventBridgeBus::new(clients.eventbridge, &place.bus)),
            hooks,
            payments,
            notifier: Arc::new(SnsNotifier::new(clients.sns, &place.topic)),
            vault: Arc::new(KmsVault::new(clients.kms, &place.key)),
            clock: Arc::new(SystemClock),
            ids: Arc::new(UlidIds),
            traces,
        };
        let app = Arc::new(App::new(ports, settings, UlidIds.fresh()));
        Ok(Self { app, place, blobs, queue, flow })
    }
}
