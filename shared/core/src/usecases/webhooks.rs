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

use std::time::Duration;

use futures::{StreamExt, stream};
use tracing::{info, warn};

use super::bury::{Death, bury};
use crate::{
    app::App,
    domain::{
        event::{Aggregate, Event},
        ids::{CorrelationId, DeadLetterId},
        webhook,
    },
    ports::{
        Fault,
        clock::{after, until},
        hooks::{Call, HookError},
    },
    spans,
    store::{
        Kept,
        dead::Subject,
        jobs,
        webhooks::{self, Delivery, Progress},
    },
};

/// A sender that has not reported by then is gone: longer than any call takes.
const SENDING: Duration = Duration::from_secs(60);
/// Sent at once, so that one slow receiver holds nobody up for long.
const AT_ONCE: usize = 16;
const LOOKED_AT: usize = 100;
/// What other processes announced is looked for so often.
const LOOK: Duration = Duration::from_secs(5);

/// Writes down what tenants are to be told of these events. Doing it again changes nothing.
pub async fn announce(app: &App, events: &[Event]) -> Result<(), Fault> {
    for event in events.iter().filter(|event| webhook::is_end(event)) {
        let Aggregate::Job(id) = &event.aggregate else { continue };
        let tenant = &event.metadata.tenant;
        if webhooks::of_tenant(app, tenant).await?.is_none() {
            continue;
        }
        // Deleted meanwhile: there is nothing left to tell of.
        let Some(job) = jobs::find(app, id).await? else { continue };
        let delivery = Delivery {
            id: format!("msg_{}", event.id),
            tenant: tenant.clone(),
            job: id.clone(),
            body: webhook::body(&job.value, event.timestamp).to_string(),
            progress: Progress::Waiting,
            attempts: 0,
            tries: 0,
            redrives: 0,
            due: app.clock.now(),
            last_error: None,
            traceparent: Some(job.value.trace()),
        };
        // Refused when it was announced before.
        webhooks::store(app, None, delivery).await?;
        app.announced();
    }
    Ok(())
}

/// Sends what is due, once each; answers how many were sent and when the next one is due.
pub async fn deliver(app: &App) -> Result<(usize, Option<Duration>), Fault> {
    let now = app.clock.now();
    let (due, later): (Vec<_>, Vec<_>) =
        webhooks::waiting(app, LOOKED_AT).await?.into_iter().partition(|kept| kept.value.due <= now);
    let sendings: Vec<_> = due.iter().map(|kept| send(app, kept)).collect();
    let sent: Vec<Result<bool, Fault>> = stream::iter(sendings).buffer_unordered(AT_ONCE).collect().await;
    let mut count = 0;
    for sent in sent {
        count += usize::from(sent?);
    }
    let next = later.first().map(|kept| until(app.clock.now(), kept.value.due));
    Ok((count, next))
}

/// Sends one, unless somebody else does.
async fn send(app: &App, kept: &Kept<Delivery>) -> Result<bool, Fault> {
    let delivery = &kept.value;
    let hook = webhooks::of_tenant(app, &delivery.tenant).await?;
    let Some(hook) = hook else {
        webhooks::store(app, Some(kept), Delivery { progress: Progress::Dropped, ..delivery.clone() })
            .await?;
        return Ok(false);
    };
    let now = app.clock.now();
    let taken = Delivery {
        attempts: delivery.attempts + 1,
        tries: delivery.tries + 1,
        due: after(now, SENDING),
        ..delivery.clone()
    };
    let Some(taken) = webhooks::store(app, Some(kept), taken).await? else { return Ok(false) };
    let secret = app.vault.open(&hook.sealed_secret).await?;
    let (id, time) = (&delivery.id, now.as_second());
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id.clone()),
        ("webhook-timestamp", time.to_string()),
        ("webhook-signature", webhook::sign(&secret, id, time, &delivery.body)),
    ];
    let mut span = delivery.traceparent.map(|job| spans::webhook(app, job, &taken.value));
    headers.extend(span.as_ref().map(|span| ("traceparent", span.context().to_string())));
    let call = Call { headers, url: hook.url, body: delivery.body.clone() };
    let posted = app.hooks.post(&call).await;
    if let (Err(error), Some(span)) = (&posted, &mut span) {
        span.failed(error.name());
    }
    drop(span);
    match posted {
        Ok(()) => {
            info!(webhook = %id, job = %delivery.job, attempt = taken.value.attempts, "webhook delivered");
            let done = Delivery { progress: Progress::Delivered, last_error: None, ..taken.value.clone() };
            webhooks::store(app, Some(&taken), done).await?;
        }
        Err(error) => put_off(app, &taken, &error).await?,
    }
    Ok(true)
}

/// Not delivered: later, or never by itself.
async fn put_off(app: &App, taken: &Kept<Delivery>, error: &HookError) -> Result<(), Fault> {
    let delivery = &taken.value;
    warn!(webhook = %delivery.id, job = %delivery.job, attempt = delivery.attempts, %error, "webhook not delivered");
    let pause = app.settings.retry_intervals.get(delivery.tries as usize - 1);
    let next = match (error, pause) {
        (HookError::Failed(_), Some(pause)) => Delivery {
            due: after(app.clock.now(), *pause),
            last_error: Some(error.to_string()),
            ..delivery.clone()
        },
        _ => {
            // The letter first: a crash in between buries it again, which changes nothing.
            bury(app, death(app, delivery, &error.to_string()).await?).await?;
            Delivery { progress: Progress::Dead, last_error: Some(error.to_string()), ..delivery.clone() }
        }
    };
    webhooks::store(app, Some(taken), next).await?;
    Ok(())
}

async fn death(app: &App, delivery: &Delivery, error: &str) -> Result<Death, Fault> {
    let job = jobs::find(app, &delivery.job).await?.map(|kept| kept.value);
    let correlation_id = job.as_ref().map(|job| job.correlation_id.clone());
    Ok(Death {
        id: DeadLetterId::new(&delivery.id),
        subject: Subject::Webhook { job: delivery.job.clone(), delivery: delivery.id.clone() },
        tenant: delivery.tenant.clone(),
        priority: job.map(|job| job.received.options.priority).unwrap_or_default(),
        correlation_id: correlation_id.unwrap_or_else(|| CorrelationId::new(&delivery.id)),
        reason: format!("the tenant's webhook was not reached: {error}"),
        deliveries: delivery.attempts,
        sending: delivery.redrives,
        message: None,
    })
}

/// Sends a delivery that was given up once more, with its counters reset.
pub async fn redrive(app: &App, id: &str) -> Result<bool, Fault> {
    loop {
        let Some(kept) = webhooks::find(app, id).await? else { return Ok(false) };
        if kept.value.progress == Progress::Waiting {
            return Ok(true);
        }
        let again = Delivery {
            progress: Progress::Waiting,
            tries: 0,
            redrives: kept.value.redrives + 1,
            due: app.clock.now(),
            ..kept.value.clone()
        };
        if webhooks::store(app, Some(&kept), again).await?.is_some() {
            app.announced();
            return Ok(true);
        }
    }
}

/// Sends as it becomes due, for ever.
pub async fn run(app: &App) {
    loop {
        let pause = match deliver(app).await {
            // What was put off is among the waiting only now.
            Ok((1.., _)) => continue,
            Ok((0, next)) => next.unwrap_or(LOOK).min(LOOK),
            Err(fault) => {
                warn!(%fault, "webhooks not sent yet");
                LOOK
            }
        };
        tokio::select! {
            biased;
            () = app.announcement() => {}
            () = app.clock.sleep(pause) => {}
        }
    }
}

/// The same for a process that does not live on: until nothing is due within `time`.
pub async fn run_for(app: &App, time: Duration) -> Result<usize, Fault> {
    let end = after(app.clock.now(), time);
    let mut sent = 0;
    loop {
        let (count, next) = deliver(app).await?;
        sent += count;
        match next {
            _ if count > 0 && app.clock.now() < end => {}
            Some(pause) if after(app.clock.now(), pause) < end => app.clock.sleep(pause).await,
            _ => return Ok(sent),
        }
    }
}
