//! The AWS backend over a deployed stack: the core's ports with their adapters.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everypage_core::{
    app::{App, Outside, Ports},
    ports::{Fault, clock::Clock, ids::Ids, records::Records},
    settings::{Reading, Settings},
};
use everypage_system::{SystemClock, UlidIds};

use crate::{
    Clients, DynamoRecords, EventBridgeBus, KmsVault, S3Blobs, SfnFlow, SnsNotifier, SqsQueue,
    StackResources, secrets, unthrottled::Unthrottled,
};

/// Backoff for reading the secret. A failed cold start hides its batch of messages for minutes, so the
/// read is retried; the intervals can't be a setting, because settings are read from the secret.
const SECRET_RETRY_INTERVALS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

async fn read_secret(clients: &Clients, secret: &str) -> Result<BTreeMap<String, String>, Fault> {
    for pause in SECRET_RETRY_INTERVALS {
        match secrets::read(&clients.secrets, secret).await {
            Err(Fault::Unreachable { .. } | Fault::Throttled { .. }) => SystemClock.sleep(pause).await,
            read => return read,
        }
    }
    secrets::read(&clients.secrets, secret).await
}

#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// All errors in the settings, each with its variable.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    #[error("there is no stack {stack} in account {account}, {region}: no queue {missing} was found")]
    Unknown { stack: String, account: String, region: String, missing: String },
    #[error(transparent)]
    Fault(#[from] Fault),
}

pub struct Stack {
    pub app: Arc<App>,
    pub resources: StackResources,
    pub blobs: Arc<S3Blobs>,
    pub queue: Arc<SqsQueue>,
    pub flow: Arc<SfnFlow>,
}

impl Stack {
    /// Reads the variables of the stack's secret; none if it has no secret.
    pub async fn secrets(
        clients: &Clients,
        resources: &StackResources,
    ) -> Result<BTreeMap<String, String>, Fault> {
        match &resources.secrets {
            Some(secret) => read_secret(clients, secret).await,
            None => Ok(BTreeMap::new()),
        }
    }

    /// Reads the settings of a stack from `var` and from the variables of its secret. An empty variable counts
    /// as not set, so that a template parameter left empty does not hide the secret's value.
    pub fn settings(
        secrets: &BTreeMap<String, String>,
        var: impl Fn(&str) -> Option<String>,
    ) -> Result<Reading, StackError> {
        let given = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        Settings::read(|name| given(name).or_else(|| secrets.get(name).cloned()))
            .map_err(StackError::Settings)
    }

    pub fn connect(
        clients: Clients,
        resources: StackResources,
        settings: Settings,
        outside: Outside,
    ) -> Result<Self, StackError> {
        let table: Arc<dyn Records> = Arc::new(DynamoRecords::new(clients.dynamodb, &resources.table));
        let records: Arc<dyn Records> =
            Arc::new(Unthrottled::new(table, Arc::new(SystemClock), Arc::new(UlidIds)));
        let blobs = Arc::new(S3Blobs::new(clients.s3, &resources.bucket));
        let queue = SqsQueue::new(clients.sqs, resources.queues.clone())?;
        let queue = Arc::new(queue.with_dead_letter_queues(&resources.dead_letter_queues));
        let flow = Arc::new(SfnFlow::new(clients.sfn, &resources.state_machine, records.clone()));
        let Outside { pdf, ocr, vision, hooks, payments, traces, mut notifiers } = outside;
        notifiers.push(Arc::new(SnsNotifier::new(clients.sns, &resources.topic)));
        let ports = Ports {
            records,
            blobs: blobs.clone(),
            queue: queue.clone(),
            flow: flow.clone(),
            pdf,
            ocr,
            vision,
            bus: Arc::new(EventBridgeBus::new(clients.eventbridge, &resources.bus)),
            hooks,
            payments,
            notifiers,
            vault: Arc::new(KmsVault::new(clients.kms, &resources.key)),
            clock: Arc::new(SystemClock),
            ids: Arc::new(UlidIds),
            traces,
        };
        let app = Arc::new(App::new(ports, settings, UlidIds.fresh()));
        // The sweep publishes the events of a process that ended before it did.
        app.store.heartbeats.require();
        Ok(Self { app, resources, blobs, queue, flow })
    }
}
