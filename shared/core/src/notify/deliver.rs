//! Notifies the webhooks of tenants that jobs ended: signed, at least once.
//!
//! ```text
//! the event is stored in the outbox ─▶ relay: enqueue() writes a delivery, then clears the outbox mark
//!                                                   │ due
//! sender: leases it ─▶ POST ─ 2xx ─▶ delivered
//!              ▲         └── else: due again after 1 s, 4 s, 16 s; then a dead letter
//!              └──────────── redriven ─────────────────────────────┘
//! ```
//!
//! A crash anywhere leaves the outbox mark or a delivery that is due: the next process continues there.

use std::{collections::HashMap, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tracing::{info, warn};

use crate::{
    dead_letters::{
        Subject,
        add::{self, NewDeadLetter},
    },
    event::{Aggregate, Event},
    events::{Store, trail},
    ids::{CorrelationId, DeadLetterId, JobId, TenantId},
    job::{Job, jobs},
    notify::{
        Publisher, webhook,
        webhooks::{self, Delivery, Progress},
    },
    ports::{
        Fault,
        hooks::{HookError, WebhookRequest},
    },
    records::Versioned,
    telemetry::spans::Open,
    time::{after, until},
    trace::{SpanKind, TraceContext},
};

/// Lease of a delivery while it is sent. Longer than any call takes: when it expires, the sender is gone.
const SEND_LEASE: Duration = Duration::from_secs(60);
/// Concurrent calls, in total and per tenant: a receiver that hangs delays its own tenant only.
const MAX_CALLS: usize = 64;
const MAX_CALLS_PER_TENANT: usize = 4;
/// Deliveries read per page of the index, and in total before some are sent: a tenant with more due
/// deliveries than that delays the other tenants until some of its own are sent.
const LIST_SIZE: usize = 100;
const MAX_LISTED: usize = 1000;
/// How often the sender polls for deliveries that other processes enqueued.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Writes a delivery for each of `events` that ends a job, if its tenant has a webhook. Repeating it changes
/// nothing.
pub async fn enqueue(publisher: &Publisher, events: &[Event]) -> Result<(), Fault> {
    for event in events.iter().filter(|event| webhook::ends_job(event)) {
        let Aggregate::Job(id) = &event.aggregate else { continue };
        let tenant = &event.metadata.tenant;
        if webhooks::of_tenant(&publisher.store, tenant).await?.is_none() {
            continue;
        }
        // `None` if the job was deleted in the meantime.
        let Some(job) = job_after(&publisher.store, id, event).await? else { continue };
        let delivery = Delivery {
            id: webhooks::delivery_id(event),
            tenant: tenant.clone(),
            job: id.clone(),
            correlation_id: Some(event.correlation_id.clone()),
            body: webhook::body(&job, event.timestamp).to_string(),
            progress: Progress::Waiting,
            attempts: 0,
            attempts_since_redrive: 0,
            redrives: 0,
            due: publisher.store.clock.now(),
            last_error: None,
            traceparent: Some(job.trace()),
        };
        // Not written if it was enqueued before.
        webhooks::save(&publisher.store, None, delivery).await?;
        publisher.wake_sender();
    }
    Ok(())
}

/// The job right after `end`, which is not its current state if the relay is late.
async fn job_after(store: &Store, id: &JobId, end: &Event) -> Result<Option<Job>, Fault> {
    let Some(current) = jobs::find(store, id).await? else { return Ok(None) };
    if current.value.head.sequence == end.sequence {
        return Ok(Some(current.value));
    }
    let mut trail = trail::read(store, &end.aggregate).await?;
    trail.retain(|event| event.sequence <= end.sequence);
    Job::replay(&trail).map_err(|error| Fault::broken("records", error))
}

/// Sends each due delivery once, within the limits of concurrent calls.
pub async fn deliver(publisher: &Publisher) -> Result<(), Fault> {
    let mut sender = Sender::new(publisher);
    sender.start_due().await?;
    while !sender.is_idle() {
        sender.wait(None).await;
    }
    Ok(())
}

/// Sends deliveries concurrently.
struct Sender<'a> {
    publisher: &'a Publisher,
    calls: FuturesUnordered<BoxFuture<'a, (String, bool)>>,
    /// The tenants of the deliveries being sent, by delivery id.
    in_flight: HashMap<String, TenantId>,
    sent: usize,
}

impl<'a> Sender<'a> {
    fn new(publisher: &'a Publisher) -> Self {
        Self { publisher, calls: FuturesUnordered::new(), in_flight: HashMap::new(), sent: 0 }
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn has_room_for(&self, delivery: &Delivery) -> bool {
        let of_tenant = self.in_flight.values().filter(|tenant| **tenant == delivery.tenant).count();
        of_tenant < MAX_CALLS_PER_TENANT && !self.in_flight.contains_key(&delivery.id)
    }

    /// Starts sending due deliveries within the limits; returns the time until the next one is due, if it is
    /// known.
    async fn start_due(&mut self) -> Result<Option<Duration>, Fault> {
        let now = self.publisher.store.clock.now();
        let (mut after, mut listed) = (None, 0);
        while self.calls.len() < MAX_CALLS && listed < MAX_LISTED {
            let (deliveries, next) = webhooks::list_waiting(&self.publisher.store, after, LIST_SIZE).await?;
            listed += deliveries.len();
            for delivery in deliveries {
                if delivery.value.due > now {
                    return Ok(Some(until(now, delivery.value.due)));
                }
                if self.calls.len() < MAX_CALLS && self.has_room_for(&delivery.value) {
                    self.in_flight.insert(delivery.value.id.clone(), delivery.value.tenant.clone());
                    self.calls.push(send_or_pause(self.publisher, delivery).boxed());
                }
            }
            after = next;
            if after.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// Waits until one of the calls has ended or `pause` is over.
    async fn wait(&mut self, pause: Option<Duration>) {
        let clock = &self.publisher.store.clock;
        let paused = async {
            match pause {
                Some(pause) => clock.sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some((id, sent)) = self.calls.next() => {
                self.in_flight.remove(&id);
                self.sent += usize::from(sent);
            }
            () = paused => {}
        }
    }
}

/// Sends a delivery; returns its id and whether it was sent. After a fault it keeps its place in flight for
/// [`POLL_INTERVAL`], so that it is not retried without a pause.
async fn send_or_pause(publisher: &Publisher, delivery: Versioned<Delivery>) -> (String, bool) {
    let sent = match send(publisher, &delivery).await {
        Ok(sent) => sent,
        Err(fault) => {
            let Delivery { id, job, .. } = &delivery.value;
            let LogFields { tenant, correlation, trace } = LogFields::of(&delivery.value);
            warn!(webhook = %id, %job, tenant, correlation, trace, %fault, "webhook not sent yet");
            publisher.store.clock.sleep(POLL_INTERVAL).await;
            false
        }
    };
    (delivery.value.id, sent)
}

/// Fields of every log line about a delivery, besides its id and its job.
struct LogFields<'a> {
    tenant: &'a str,
    correlation: Option<&'a str>,
    trace: Option<String>,
}

impl<'a> LogFields<'a> {
    fn of(delivery: &'a Delivery) -> Self {
        Self {
            tenant: delivery.tenant.as_str(),
            correlation: delivery.correlation_id.as_ref().map(CorrelationId::as_str),
            trace: delivery.traceparent.map(|job| job.trace_id()),
        }
    }
}

/// Leases and sends a delivery; false if another process leased it first or the tenant has no webhook.
async fn send(publisher: &Publisher, waiting: &Versioned<Delivery>) -> Result<bool, Fault> {
    let delivery = &waiting.value;
    let hook = webhooks::of_tenant(&publisher.store, &delivery.tenant).await?;
    let Some(hook) = hook else {
        let dropped = Delivery { progress: Progress::Dropped, ..delivery.clone() };
        webhooks::save(&publisher.store, Some(waiting), dropped).await?;
        return Ok(false);
    };
    let now = publisher.store.clock.now();
    let leased = Delivery {
        attempts: delivery.attempts + 1,
        attempts_since_redrive: delivery.attempts_since_redrive + 1,
        due: after(now, SEND_LEASE),
        ..delivery.clone()
    };
    let Some(leased) = webhooks::save(&publisher.store, Some(waiting), leased).await? else {
        return Ok(false);
    };
    // Without its secret a message can't be signed: handled like a receiver that does not accept it.
    let secret = match publisher.vault.open(&hook.sealed_secret).await {
        Ok(secret) => secret,
        Err(fault) => {
            let error = HookError::Failed(format!("the webhook's secret can't be opened: {fault}"));
            record_failure(publisher, &leased, &error).await?;
            return Ok(true);
        }
    };
    let (id, time) = (&delivery.id, now.as_second());
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id.clone()),
        ("webhook-timestamp", time.to_string()),
        ("webhook-signature", webhook::sign(&secret, id, time, &delivery.body)),
    ];
    let mut span = delivery.traceparent.map(|job| span(&publisher.store, job, &leased.value));
    headers.extend(span.as_ref().map(|span| ("traceparent", span.context().to_string())));
    let call = WebhookRequest { headers, url: hook.url, body: delivery.body.clone() };
    let posted = publisher.hooks.post(&call).await;
    if let (Err(error), Some(span)) = (&posted, &mut span) {
        span.failed(error.name());
    }
    drop(span);
    match posted {
        Ok(()) => {
            let LogFields { tenant, correlation, trace } = LogFields::of(delivery);
            info!(webhook = %id, job = %delivery.job, tenant, correlation, trace, attempt = leased.value.attempts, "webhook delivered");
            let delivered =
                Delivery { progress: Progress::Delivered, last_error: None, ..leased.value.clone() };
            webhooks::save(&publisher.store, Some(&leased), delivered).await?;
        }
        Err(error) => record_failure(publisher, &leased, &error).await?,
    }
    Ok(true)
}

/// Schedules a retry of a delivery that failed, or adds a dead letter if no retry is left or would help.
async fn record_failure(
    publisher: &Publisher,
    leased: &Versioned<Delivery>,
    error: &HookError,
) -> Result<(), Fault> {
    let delivery = &leased.value;
    let LogFields { tenant, correlation, trace } = LogFields::of(delivery);
    warn!(webhook = %delivery.id, job = %delivery.job, tenant, correlation, trace, attempt = delivery.attempts, %error, "webhook not delivered");
    let pause = publisher.settings.retry_intervals.get(delivery.attempts_since_redrive as usize - 1);
    let next = match (error, pause) {
        (HookError::Failed(_), Some(pause)) => Delivery {
            due: after(publisher.store.clock.now(), *pause),
            last_error: Some(error.to_string()),
            ..delivery.clone()
        },
        _ => {
            // The dead letter first: after a crash in between it is added again, which changes nothing.
            let dead_letter = dead_letter(&publisher.store, delivery, &error.to_string()).await?;
            add::add(&publisher.dead_letters, dead_letter).await?;
            Delivery { progress: Progress::Dead, last_error: Some(error.to_string()), ..delivery.clone() }
        }
    };
    webhooks::save(&publisher.store, Some(leased), next).await?;
    Ok(())
}

async fn dead_letter(store: &Store, delivery: &Delivery, error: &str) -> Result<NewDeadLetter, Fault> {
    let job = jobs::find(store, &delivery.job).await?.map(|job| job.value);
    let correlation_id = job.as_ref().map(|job| job.correlation_id.clone());
    Ok(NewDeadLetter {
        id: DeadLetterId::new(&delivery.id),
        subject: Subject::Webhook { job: delivery.job.clone(), delivery: delivery.id.clone() },
        tenant: delivery.tenant.clone(),
        priority: job.map(|job| job.received.options.priority).unwrap_or_default(),
        correlation_id: correlation_id.unwrap_or_else(|| CorrelationId::new(&delivery.id)),
        reason: format!("the tenant's webhook was not delivered: {error}"),
        receive_count: delivery.attempts,
        redrive_count: delivery.redrives,
        message: None,
    })
}

/// Makes a delivery that was given up due again, with a new series of retries; false if it does not exist.
pub async fn redrive(publisher: &Publisher, id: &str) -> Result<bool, Fault> {
    loop {
        let Some(before) = webhooks::find(&publisher.store, id).await? else { return Ok(false) };
        if before.value.progress == Progress::Waiting {
            return Ok(true);
        }
        let redriven = Delivery {
            progress: Progress::Waiting,
            attempts_since_redrive: 0,
            redrives: before.value.redrives + 1,
            due: publisher.store.clock.now(),
            ..before.value.clone()
        };
        if webhooks::save(&publisher.store, Some(&before), redriven).await?.is_some() {
            publisher.wake_sender();
            return Ok(true);
        }
    }
}

/// Sends deliveries as they become due, until it is dropped.
pub async fn run(publisher: &Publisher) {
    let mut sender = Sender::new(publisher);
    loop {
        let pause = match sender.start_due().await {
            Ok(next) => next.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL),
            Err(fault) => {
                warn!(%fault, "due webhooks not listed yet");
                POLL_INTERVAL
            }
        };
        tokio::select! {
            biased;
            () = sender.wait(Some(pause)) => {}
            () = publisher.webhook_enqueued() => {}
        }
    }
}

/// Sends deliveries for at most `time`, and returns earlier if none becomes due before the end; returns how
/// many were sent. For processes that do not keep running, such as Lambda functions.
pub async fn run_for(publisher: &Publisher, time: Duration) -> Result<usize, Fault> {
    let end = after(publisher.store.clock.now(), time);
    let mut sender = Sender::new(publisher);
    loop {
        let now = publisher.store.clock.now();
        // Calls that were started are completed.
        let next = if now < end { sender.start_due().await? } else { None };
        let next = next.filter(|pause| after(now, *pause) < end);
        if sender.is_idle() && next.is_none() {
            return Ok(sender.sent);
        }
        sender.wait(next).await;
    }
}

/// The span of one attempt to deliver a webhook, a child of the job's span.
fn span<'a>(store: &'a Store, job: TraceContext, delivery: &Delivery) -> Open<'a> {
    Open::new(&store.tracer, job, "webhook", SpanKind::Client)
        .with("everypage.job", delivery.job.as_str())
        .with("everypage.webhook", delivery.id.as_str())
        .with("everypage.attempt", delivery.attempts)
}
