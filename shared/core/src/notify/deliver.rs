//! Telling tenants of the ends of their jobs: at least once, signed, and never lost.
//!
//! ```text
//! the end is stored with its outbox mark ─▶ relay: announce() writes a delivery, then the mark goes
//!                                                   │ due
//! sender: takes it for a while ─▶ POST ─ 2xx ─▶ delivered
//!              ▲                    └── else: due again after 1 s, 4 s, 16 s; then a dead letter
//!              └──────────── redriven ───────────────────────────────────────┘
//! ```
//!
//! A crash anywhere leaves the mark or a delivery that is due: the next one goes on from there.

use std::{collections::HashMap, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tracing::{info, warn};

use crate::{
    dead_letters::{
        Subject,
        add::{NewDeadLetter, bury},
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
        hooks::{Call, HookError},
    },
    records::Versioned,
    telemetry::spans::Open,
    time::{after, until},
    trace::{SpanKind, TraceContext},
};

/// A sender that has not reported by then is gone: longer than any call takes.
const SENDING: Duration = Duration::from_secs(60);
/// Sent at once, and to one tenant: a receiver that hangs holds up its own messages, not others'.
const BATCH_SIZE: usize = 64;
const AT_ONCE_TO_ONE: usize = 4;
/// Deliveries looked at together, and at most before some are sent: a tenant with more than that in
/// front of all others holds them up for as long as it takes to send some.
const LOOKED_AT: usize = 100;
const MOST_LOOKED_AT: usize = 1000;
/// What other processes announced is looked for so often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Writes down what tenants are to be told of these events. Doing it again changes nothing.
pub async fn announce(publisher: &Publisher, events: &[Event]) -> Result<(), Fault> {
    for event in events.iter().filter(|event| webhook::is_end(event)) {
        let Aggregate::Job(id) = &event.aggregate else { continue };
        let tenant = &event.metadata.tenant;
        if webhooks::of_tenant(&publisher.store, tenant).await?.is_none() {
            continue;
        }
        // Deleted meanwhile: there is nothing left to tell of.
        let Some(job) = ended_by(&publisher.store, id, event).await? else { continue };
        let delivery = Delivery {
            id: webhooks::delivery_id(event),
            tenant: tenant.clone(),
            job: id.clone(),
            correlation_id: Some(event.correlation_id.clone()),
            body: webhook::body(&job, event.timestamp).to_string(),
            progress: Progress::Waiting,
            attempts: 0,
            tries: 0,
            redrives: 0,
            due: publisher.store.clock.now(),
            last_error: None,
            traceparent: Some(job.trace()),
        };
        // Refused when it was announced before.
        webhooks::store(&publisher.store, None, delivery).await?;
        publisher.announced();
    }
    Ok(())
}

/// The job as this event left it, whatever became of it since: a relay may come late.
async fn ended_by(store: &Store, id: &JobId, end: &Event) -> Result<Option<Job>, Fault> {
    let Some(now) = jobs::find(store, id).await? else { return Ok(None) };
    if now.value.head.sequence == end.sequence {
        return Ok(Some(now.value));
    }
    let mut trail = trail::read(store, &end.aggregate).await?;
    trail.retain(|event| event.sequence <= end.sequence);
    Job::replay(&trail).map_err(|error| Fault::broken("records", error))
}

/// Sends what is due and has room, once each.
pub async fn deliver(publisher: &Publisher) -> Result<(), Fault> {
    let mut sender = Sender::new(publisher);
    sender.begin().await?;
    while !sender.is_idle() {
        sender.wait(None).await;
    }
    Ok(())
}

/// Deliveries on their way, each on its own.
struct Sender<'a> {
    publisher: &'a Publisher,
    calls: FuturesUnordered<BoxFuture<'a, (String, bool)>>,
    /// Whose they are.
    under_way: HashMap<String, TenantId>,
    sent: usize,
}

impl<'a> Sender<'a> {
    fn new(publisher: &'a Publisher) -> Self {
        Self { publisher, calls: FuturesUnordered::new(), under_way: HashMap::new(), sent: 0 }
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn has_room_for(&self, delivery: &Delivery) -> bool {
        let theirs = self.under_way.values().filter(|tenant| **tenant == delivery.tenant).count();
        theirs < AT_ONCE_TO_ONE && !self.under_way.contains_key(&delivery.id)
    }

    /// Begins what is due and has room; answers how long it is until the next one is due.
    async fn begin(&mut self) -> Result<Option<Duration>, Fault> {
        let now = self.publisher.store.clock.now();
        let (mut place, mut looked_at) = (None, 0);
        while self.calls.len() < BATCH_SIZE && looked_at < MOST_LOOKED_AT {
            let (some, next) = webhooks::waiting_from(&self.publisher.store, place, LOOKED_AT).await?;
            looked_at += some.len();
            for kept in some {
                if kept.value.due > now {
                    return Ok(Some(until(now, kept.value.due)));
                }
                if self.calls.len() < BATCH_SIZE && self.has_room_for(&kept.value) {
                    self.under_way.insert(kept.value.id.clone(), kept.value.tenant.clone());
                    self.calls.push(send_or_rest(self.publisher, kept).boxed());
                }
            }
            place = next;
            if place.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// Until one of them has ended, or `pause` is over.
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
                self.under_way.remove(&id);
                self.sent += usize::from(sent);
            }
            () = paused => {}
        }
    }
}

/// Sends one, and says whether it did. After a fault of ours its place is held for a while, so that
/// it is not tried without a pause.
async fn send_or_rest(publisher: &Publisher, kept: Versioned<Delivery>) -> (String, bool) {
    let sent = match send(publisher, &kept).await {
        Ok(sent) => sent,
        Err(fault) => {
            let Logged { tenant, correlation, trace } = Logged::of(&kept.value);
            warn!(webhook = %kept.value.id, job = %kept.value.job, tenant, correlation, trace, %fault, "webhook not sent yet");
            publisher.store.clock.sleep(POLL_INTERVAL).await;
            false
        }
    };
    (kept.value.id, sent)
}

/// What every line of the log about a delivery names beside it and its job.
struct Logged<'a> {
    tenant: &'a str,
    correlation: Option<&'a str>,
    trace: Option<String>,
}

impl<'a> Logged<'a> {
    fn of(delivery: &'a Delivery) -> Self {
        Self {
            tenant: delivery.tenant.as_str(),
            correlation: delivery.correlation_id.as_ref().map(CorrelationId::as_str),
            trace: delivery.traceparent.map(|job| job.trace_id()),
        }
    }
}

/// Sends one, unless somebody else does.
async fn send(publisher: &Publisher, kept: &Versioned<Delivery>) -> Result<bool, Fault> {
    let delivery = &kept.value;
    let hook = webhooks::of_tenant(&publisher.store, &delivery.tenant).await?;
    let Some(hook) = hook else {
        webhooks::store(
            &publisher.store,
            Some(kept),
            Delivery { progress: Progress::Dropped, ..delivery.clone() },
        )
        .await?;
        return Ok(false);
    };
    let now = publisher.store.clock.now();
    let taken = Delivery {
        attempts: delivery.attempts + 1,
        tries: delivery.tries + 1,
        due: after(now, SENDING),
        ..delivery.clone()
    };
    let Some(taken) = webhooks::store(&publisher.store, Some(kept), taken).await? else { return Ok(false) };
    // Without its secret a message can't be signed: not delivered, like one that nobody takes.
    let secret = match publisher.vault.open(&hook.sealed_secret).await {
        Ok(secret) => secret,
        Err(fault) => {
            let error = HookError::Failed(format!("its secret can't be opened: {fault}"));
            put_off(publisher, &taken, &error).await?;
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
    let mut span = delivery.traceparent.map(|job| span(&publisher.store, job, &taken.value));
    headers.extend(span.as_ref().map(|span| ("traceparent", span.context().to_string())));
    let call = Call { headers, url: hook.url, body: delivery.body.clone() };
    let posted = publisher.hooks.post(&call).await;
    if let (Err(error), Some(span)) = (&posted, &mut span) {
        span.failed(error.name());
    }
    drop(span);
    match posted {
        Ok(()) => {
            let Logged { tenant, correlation, trace } = Logged::of(delivery);
            info!(webhook = %id, job = %delivery.job, tenant, correlation, trace, attempt = taken.value.attempts, "webhook delivered");
            let done = Delivery { progress: Progress::Delivered, last_error: None, ..taken.value.clone() };
            webhooks::store(&publisher.store, Some(&taken), done).await?;
        }
        Err(error) => put_off(publisher, &taken, &error).await?,
    }
    Ok(true)
}

/// Not delivered: later, or never by itself.
async fn put_off(publisher: &Publisher, taken: &Versioned<Delivery>, error: &HookError) -> Result<(), Fault> {
    let delivery = &taken.value;
    let Logged { tenant, correlation, trace } = Logged::of(delivery);
    warn!(webhook = %delivery.id, job = %delivery.job, tenant, correlation, trace, attempt = delivery.attempts, %error, "webhook not delivered");
    let pause = publisher.settings.retry_intervals.get(delivery.tries as usize - 1);
    let next = match (error, pause) {
        (HookError::Failed(_), Some(pause)) => Delivery {
            due: after(publisher.store.clock.now(), *pause),
            last_error: Some(error.to_string()),
            ..delivery.clone()
        },
        _ => {
            // The letter first: a crash in between buries it again, which changes nothing.
            bury(&publisher.dead_letters, death(&publisher.store, delivery, &error.to_string()).await?)
                .await?;
            Delivery { progress: Progress::Dead, last_error: Some(error.to_string()), ..delivery.clone() }
        }
    };
    webhooks::store(&publisher.store, Some(taken), next).await?;
    Ok(())
}

async fn death(store: &Store, delivery: &Delivery, error: &str) -> Result<NewDeadLetter, Fault> {
    let job = jobs::find(store, &delivery.job).await?.map(|kept| kept.value);
    let correlation_id = job.as_ref().map(|job| job.correlation_id.clone());
    Ok(NewDeadLetter {
        id: DeadLetterId::new(&delivery.id),
        subject: Subject::Webhook { job: delivery.job.clone(), delivery: delivery.id.clone() },
        tenant: delivery.tenant.clone(),
        priority: job.map(|job| job.received.options.priority).unwrap_or_default(),
        correlation_id: correlation_id.unwrap_or_else(|| CorrelationId::new(&delivery.id)),
        reason: format!("the tenant's webhook was not reached: {error}"),
        receive_count: delivery.attempts,
        redrive_count: delivery.redrives,
        message: None,
    })
}

/// Sends a delivery that was given up once more, with its counters reset.
pub async fn redrive(publisher: &Publisher, id: &str) -> Result<bool, Fault> {
    loop {
        let Some(kept) = webhooks::find(&publisher.store, id).await? else { return Ok(false) };
        if kept.value.progress == Progress::Waiting {
            return Ok(true);
        }
        let again = Delivery {
            progress: Progress::Waiting,
            tries: 0,
            redrives: kept.value.redrives + 1,
            due: publisher.store.clock.now(),
            ..kept.value.clone()
        };
        if webhooks::store(&publisher.store, Some(&kept), again).await?.is_some() {
            publisher.announced();
            return Ok(true);
        }
    }
}

/// Sends as it becomes due, for ever.
pub async fn run(publisher: &Publisher) {
    let mut sender = Sender::new(publisher);
    loop {
        let pause = match sender.begin().await {
            Ok(next) => next.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL),
            Err(fault) => {
                warn!(%fault, "webhooks not looked for yet");
                POLL_INTERVAL
            }
        };
        tokio::select! {
            biased;
            () = sender.wait(Some(pause)) => {}
            () = publisher.announcement() => {}
        }
    }
}

/// The same for a process that does not live on: until nothing is due within `time`.
pub async fn run_for(publisher: &Publisher, time: Duration) -> Result<usize, Fault> {
    let end = after(publisher.store.clock.now(), time);
    let mut sender = Sender::new(publisher);
    loop {
        let now = publisher.store.clock.now();
        // What was begun is brought to its end.
        let next = if now < end { sender.begin().await? } else { None };
        let next = next.filter(|pause| after(now, *pause) < end);
        if sender.is_idle() && next.is_none() {
            return Ok(sender.sent);
        }
        sender.wait(next).await;
    }
}

/// One sending of a tenant's webhook, under the job's span.
fn span<'a>(store: &'a Store, job: TraceContext, delivery: &Delivery) -> Open<'a> {
    Open::new(&store.tracer, job, "webhook", SpanKind::Client)
        .with("everypage.job", delivery.job.as_str())
        .with("everypage.webhook", delivery.id.as_str())
        .with("everypage.attempt", delivery.attempts)
}
