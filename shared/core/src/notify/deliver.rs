//! Sends events to the webhooks of tenants: signed, at least once, each webhook by itself.
//!
//! ```text
//! the event is stored in the outbox ─▶ relay: enqueue() writes a delivery per webhook that wants it, then
//!                                                   │ clears the outbox mark
//!                                                   │ due
//! sender: leases it ─▶ POST ─ 2xx ─▶ delivered
//!              ▲         └── else: due again after 1 s, 4 s, 16 s; then a dead letter
//!              └──────────── redriven ─────────────────────────────┘
//! ```
//!
//! A webhook whose receiver accepts nothing is paused ([`receivers`]).
//!
//! A crash anywhere leaves the outbox mark or a delivery that is due: the next process continues there. Where
//! no process keeps running, the one that ends a job sends the first attempt itself ([`notify_end`]).

use std::{collections::HashMap, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::{
    dead_letters::{
        self, Subject,
        add::{self, Cause, NewDeadLetter},
    },
    event::{Aggregate, Event, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, DeadLetterId, JobId, TenantId},
    job::{Job, jobs},
    keys::record,
    notify::{
        Publisher,
        receivers::{self, Admission},
        webhook,
        webhooks::{self, Delivery, Progress, Webhook},
    },
    ports::{
        Fault,
        hooks::{HookError, WebhookRequest},
    },
    records::{Versioned, decode},
    telemetry::{
        metrics::{Operation, measured},
        spans::Open,
    },
    time::{after, until},
    trace::{SpanKind, TraceContext},
};

/// Lease of a delivery while it is sent. Longer than any call takes: when it expires, the sender is gone.
const SEND_LEASE: Duration = Duration::from_secs(60);
/// Concurrent calls, in total, per tenant and per webhook: a receiver that hangs delays itself only, and several
/// of one tenant that tenant only.
const MAX_CALLS: usize = 64;
const MAX_CALLS_PER_TENANT: usize = 16;
const MAX_CALLS_PER_WEBHOOK: usize = 4;
/// Deliveries read per page of the index, and in total at a time: where one time ends, the next continues, so
/// that deliveries that are held back do not hide those behind them.
const LIST_SIZE: usize = 100;
const MAX_LISTED: usize = 1000;
/// How often the sender polls for deliveries that other processes enqueued.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Writes a delivery for each of `events` and each webhook of its tenant that wants it. Repeating it changes
/// nothing.
pub async fn enqueue(publisher: &Publisher, events: &[Event]) -> Result<(), Fault> {
    for event in events {
        let (store, tenant) = (&publisher.store, &event.metadata.tenant);
        if is_about_a_webhook(store, event).await? {
            continue;
        }
        // No end of a job is missed by what this process remembers, nor an event after a change of webhooks.
        let webhooks = match webhook::ends_job(event) || webhook::changes_webhooks(event) {
            true => publisher.subscriptions.read(store, tenant).await?,
            false => publisher.subscriptions.of(store, tenant).await?,
        };
        for webhook in webhooks.iter().filter(|webhook| webhook.wants(event)) {
            let Some(delivery) = new_delivery(store, webhook, event).await? else { continue };
            // Not written if it was enqueued before.
            webhooks::save(store, None, delivery).await?;
            publisher.wake_sender();
        }
    }
    Ok(())
}

/// Whether the event is about a message to a webhook that was given up. No webhook gets such an event: a message
/// about a message that was not accepted would not be accepted either, and so on forever.
async fn is_about_a_webhook(store: &Store, event: &Event) -> Result<bool, Fault> {
    let Aggregate::DeadLetter(id) = &event.aggregate else { return Ok(false) };
    let dead_letter = dead_letters::find(store, id).await?;
    Ok(dead_letter.is_some_and(|found| matches!(found.value.subject, Subject::Webhook { .. })))
}

/// The delivery of `event` to `webhook`; `None` if the job that it ends was deleted in the meantime.
async fn new_delivery(store: &Store, webhook: &Webhook, event: &Event) -> Result<Option<Delivery>, Fault> {
    let job = match &event.aggregate {
        Aggregate::Job(job) | Aggregate::Page(job, _) => Some(job.clone()),
        Aggregate::DeadLetter(id) => dead_letters::job_of(id),
        _ => None,
    };
    let (body, traceparent) = match &event.aggregate {
        Aggregate::Job(id) if webhook.events.is_empty() => {
            let Some(job) = job_after(store, id, event).await? else { return Ok(None) };
            (webhook::body(&job, event.timestamp), Some(job.trace()))
        }
        _ => {
            let Metadata { trace_id, span_id, .. } = &event.metadata;
            (webhook::event_body(event), format!("00-{trace_id}-{span_id}-01").parse().ok())
        }
    };
    let now = store.clock.now();
    Ok(Some(Delivery {
        id: webhooks::delivery_id(event, &webhook.id),
        tenant: event.metadata.tenant.clone(),
        hook: webhook.id.clone(),
        kind: event.kind.clone(),
        job,
        correlation_id: Some(event.correlation_id.clone()),
        priority: event.metadata.priority,
        body: body.to_string(),
        progress: Progress::Waiting,
        attempts: 0,
        attempts_since_redrive: 0,
        redrives: 0,
        created_at: Some(now),
        due: now,
        last_error: None,
        traceparent,
    }))
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

/// Sends the messages that `job` has ended, without waiting for the relay or the sweep; returns whether any was
/// sent. One attempt: retries are the sweep's. Nothing is sent for a job that is open, nor a message that another
/// process has sent or leased. After a crash of the process that ended the job, repeating its last step sends
/// what that process did not.
pub async fn notify_end(publisher: &Publisher, job: &Job) -> Result<bool, Fault> {
    if !job.state.is_terminal() {
        return Ok(false);
    }
    let webhooks = publisher.subscriptions.read(&publisher.store, &job.received.tenant).await?;
    if webhooks.is_empty() {
        return Ok(false);
    }
    let key = record::event(&Aggregate::Job(job.id.clone()), job.head.sequence);
    let Some(item) = publisher.store.records.get(&key).await? else { return Ok(false) };
    let last: Event = decode(&item)?.value;
    if !webhook::ends_job(&last) {
        return Ok(false);
    }
    enqueue(publisher, std::slice::from_ref(&last)).await?;
    let wanted = webhooks.iter().filter(|webhook| webhook.wants(&last));
    let ids: Vec<String> = wanted.map(|webhook| webhooks::delivery_id(&last, &webhook.id)).collect();
    // One that hangs or fails does not keep the others from being sent.
    let mut sent = false;
    for one in join_all(ids.into_iter().map(|id| send_now(publisher, id))).await {
        sent |= one?;
    }
    Ok(sent)
}

/// Sends a delivery if it is due; by its id, because the index of due deliveries lags.
async fn send_now(publisher: &Publisher, id: String) -> Result<bool, Fault> {
    let Some(delivery) = webhooks::find(&publisher.store, &id).await? else { return Ok(false) };
    let is_due = delivery.value.due <= publisher.store.clock.now();
    if delivery.value.progress != Progress::Waiting || !is_due {
        return Ok(false);
    }
    send(publisher, &delivery).await
}

/// Sends deliveries concurrently.
struct Sender<'a> {
    publisher: &'a Publisher,
    calls: FuturesUnordered<BoxFuture<'a, (String, bool)>>,
    /// The tenants and webhooks of the deliveries being sent, by delivery id.
    in_flight: HashMap<String, (TenantId, String)>,
    /// Where the next listing of due deliveries continues.
    listed_to: Option<String>,
    sent: usize,
}

impl<'a> Sender<'a> {
    fn new(publisher: &'a Publisher) -> Self {
        Self {
            publisher,
            calls: FuturesUnordered::new(),
            in_flight: HashMap::new(),
            listed_to: None,
            sent: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn has_room_for(&self, delivery: &Delivery) -> bool {
        let (mut of_tenant, mut of_webhook) = (0, 0);
        for (_, hook) in self.in_flight.values().filter(|(tenant, _)| *tenant == delivery.tenant) {
            of_tenant += 1;
            of_webhook += usize::from(*hook == delivery.hook);
        }
        of_tenant < MAX_CALLS_PER_TENANT
            && of_webhook < MAX_CALLS_PER_WEBHOOK
            && !self.in_flight.contains_key(&delivery.id)
    }

    /// Starts sending due deliveries within the limits; returns the time until the next one is due, if it is
    /// known.
    async fn start_due(&mut self) -> Result<Option<Duration>, Fault> {
        let now = self.publisher.store.clock.now();
        let (mut after, mut listed) = (self.listed_to.take(), 0);
        while self.calls.len() < MAX_CALLS && listed < MAX_LISTED {
            let (deliveries, next) = webhooks::list_waiting(&self.publisher.store, after, LIST_SIZE).await?;
            listed += deliveries.len();
            for delivery in deliveries {
                if delivery.value.due > now {
                    return Ok(Some(until(now, delivery.value.due)));
                }
                if self.calls.len() < MAX_CALLS && self.has_room_for(&delivery.value) {
                    let receiver = (delivery.value.tenant.clone(), delivery.value.hook.clone());
                    self.in_flight.insert(delivery.value.id.clone(), receiver);
                    self.calls.push(send_or_pause(self.publisher, delivery).boxed());
                }
            }
            after = next;
            if after.is_none() {
                return Ok(None);
            }
        }
        if listed >= MAX_LISTED {
            self.listed_to = after;
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
            let job = job.as_ref().map(JobId::as_str);
            warn!(webhook = %id, job, tenant, correlation, trace, %fault, "webhook not sent yet");
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

/// Leases and sends a delivery; false if another process leased it first or the webhook was removed.
async fn send(publisher: &Publisher, waiting: &Versioned<Delivery>) -> Result<bool, Fault> {
    let delivery = &waiting.value;
    let hook = webhooks::of_tenant(&publisher.store, &delivery.tenant, &delivery.hook).await?;
    let Some(hook) = hook else {
        let dropped = Delivery { progress: Progress::Dropped, body: String::new(), ..delivery.clone() };
        webhooks::save(&publisher.store, Some(waiting), dropped).await?;
        return Ok(false);
    };
    let now = publisher.store.clock.now();
    if !is_admitted(publisher, waiting, now).await? {
        return Ok(false);
    }
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
    let clock = publisher.store.clock.as_ref();
    let posted = measured(clock, Operation::Webhook, delivery.priority, publisher.hooks.post(&call)).await;
    if let (Err(error), Some(span)) = (&posted, &mut span) {
        span.failed(error.name());
    }
    drop(span);
    match posted {
        Ok(()) => {
            let LogFields { tenant, correlation, trace } = LogFields::of(delivery);
            let job = delivery.job.as_ref().map(JobId::as_str);
            info!(webhook = %id, job, tenant, correlation, trace, attempt = leased.value.attempts, "webhook delivered");
            let delivered =
                Delivery { progress: Progress::Delivered, last_error: None, ..leased.value.clone() };
            webhooks::save(&publisher.store, Some(&leased), delivered).await?;
            receivers::reset(&publisher.store, &delivery.tenant, &delivery.hook).await?;
        }
        Err(error) => record_failure(publisher, &leased, &error).await?,
    }
    Ok(true)
}

/// Whether a delivery may be sent now. If its webhook is paused it waits, and is dropped at last; what an operator
/// redrove is sent in any case.
async fn is_admitted(
    publisher: &Publisher,
    waiting: &Versioned<Delivery>,
    now: Timestamp,
) -> Result<bool, Fault> {
    let (store, delivery) = (&publisher.store, &waiting.value);
    let (tenant, hook) = (&delivery.tenant, delivery.hook.as_str());
    let receiver = receivers::load(store, tenant, hook).await?;
    let is_redriven = delivery.redrives > 0 && delivery.attempts_since_redrive == 0;
    let held = match receiver.value.admit(now) {
        Admission::Send => return Ok(true),
        _ if is_redriven => return Ok(true),
        Admission::Probe { next } => {
            return receivers::save(store, tenant, hook, receiver.version, &next).await;
        }
        Admission::WaitUntil(until) => wait_for_receiver(delivery, until, now),
    };
    webhooks::save(store, Some(waiting), held).await?;
    Ok(false)
}

/// A delivery whose webhook is paused until then; one that has waited for too long is dropped.
fn wait_for_receiver(delivery: &Delivery, until: Timestamp, now: Timestamp) -> Delivery {
    match delivery.created_at.is_some_and(|at| after(at, receivers::MAX_WAIT) <= now) {
        true => Delivery { progress: Progress::Dropped, body: String::new(), ..delivery.clone() },
        false => Delivery { due: until, ..delivery.clone() },
    }
}

/// Schedules a retry of a delivery that failed, or adds a dead letter if no retry is left or would help.
async fn record_failure(
    publisher: &Publisher,
    leased: &Versioned<Delivery>,
    error: &HookError,
) -> Result<(), Fault> {
    let delivery = &leased.value;
    let LogFields { tenant, correlation, trace } = LogFields::of(delivery);
    let job = delivery.job.as_ref().map(JobId::as_str);
    warn!(webhook = %delivery.id, job, tenant, correlation, trace, attempt = delivery.attempts, %error, "webhook not delivered");
    let pause = publisher.settings.retry_intervals.get(delivery.attempts_since_redrive as usize - 1);
    let next = match (error, pause) {
        (HookError::Failed(_), Some(pause)) => Delivery {
            due: after(publisher.store.clock.now(), *pause),
            last_error: Some(error.to_string()),
            ..delivery.clone()
        },
        _ => {
            let (store, now) = (&publisher.store, publisher.store.clock.now());
            let receiver = receivers::load(store, &delivery.tenant, &delivery.hook).await?.value;
            if let Some(until) = receiver.paused_until.filter(|_| delivery.redrives == 0) {
                // The dead letters before it stand for those of the pause.
                let held = wait_for_receiver(delivery, until, now);
                let held = Delivery { last_error: Some(error.to_string()), ..held };
                webhooks::save(store, Some(leased), held).await?;
                return Ok(());
            }
            // The dead letter first: after a crash in between it is added again, which changes nothing.
            let dead_letter = dead_letter(store, delivery, &error.to_string()).await?;
            add::add(&publisher.dead_letters, dead_letter).await?;
            receivers::count_dead_letter(store, &delivery.tenant, &delivery.hook).await?;
            Delivery {
                progress: Progress::DeadLetter,
                last_error: Some(error.to_string()),
                ..delivery.clone()
            }
        }
    };
    webhooks::save(&publisher.store, Some(leased), next).await?;
    Ok(())
}

async fn dead_letter(store: &Store, delivery: &Delivery, error: &str) -> Result<NewDeadLetter, Fault> {
    let job = match &delivery.job {
        Some(job) => jobs::find(store, job).await?.map(|job| job.value),
        None => None,
    };
    let correlation_id = job.as_ref().map(|job| job.correlation_id.clone());
    let correlation_id = correlation_id.or_else(|| delivery.correlation_id.clone());
    Ok(NewDeadLetter {
        id: DeadLetterId::new(&delivery.id),
        subject: Subject::Webhook { job: delivery.job.clone(), delivery: delivery.id.clone() },
        cause: Cause::Webhook,
        tenant: delivery.tenant.clone(),
        priority: job.map_or(delivery.priority, |job| job.received.options.priority),
        correlation_id: correlation_id.unwrap_or_else(|| CorrelationId::new(&delivery.id)),
        reason: format!("the webhook {} did not accept it: {error}", delivery.hook),
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
        .with("everypage.job", delivery.job.as_ref().map(JobId::as_str).unwrap_or_default())
        .with("everypage.webhook", delivery.id.as_str())
        .with("everypage.attempt", delivery.attempts)
}
