//! Putting something among the dead letters, once, and telling whoever is responsible.

use tracing::{error, warn};

use crate::{
    dead_letters::{self, DeadLetter, DeadLetterEvent, DeadLetters, Subject},
    digest::sha256_hex,
    event::Head,
    events::Store,
    ids::{CorrelationId, DeadLetterId, Priority, TenantId},
    job::{
        Job,
        message::{PageMessage, PartialMessage},
    },
    ports::{Fault, notifier::Notice, queue::Delivery, records::Change},
    records::Versioned,
    settings::Settings,
    tenants,
};

/// How something died. `id` and `redrive_count` are the same for the same death, so that burying twice
/// makes one letter.
pub struct NewDeadLetter {
    pub id: DeadLetterId,
    pub subject: Subject,
    pub tenant: TenantId,
    pub priority: Priority,
    pub correlation_id: CorrelationId,
    pub reason: String,
    /// Deliveries before it was given up.
    pub receive_count: u32,
    pub redrive_count: u32,
    pub message: Option<String>,
}

impl NewDeadLetter {
    pub fn of_job(job: &Job, reason: String) -> Self {
        Self {
            id: dead_letters::job_dead_letter_id(&job.id, job.redrives),
            subject: Subject::Job { job: job.id.clone() },
            tenant: job.received.tenant.clone(),
            priority: job.received.options.priority,
            correlation_id: job.correlation_id.clone(),
            reason,
            receive_count: job.redrives + 1,
            redrive_count: 0,
            message: None,
        }
    }

    pub fn of_page(delivery: &Delivery, message: &PageMessage, reason: String) -> Self {
        Self {
            id: dead_letters::page_dead_letter_id(&message.job_id, message.page_id),
            subject: Subject::Page { job: message.job_id.clone(), page: message.page_id },
            tenant: message.tenant.clone(),
            priority: message.priority,
            correlation_id: message.correlation_id.clone(),
            reason,
            receive_count: delivery.receive_count,
            redrive_count: message.redrive_count,
            message: Some(delivery.body.clone()),
        }
    }

    /// Of a message that can't be read: what can be made out of it says whose it is.
    pub fn of_message(settings: &Settings, delivery: &Delivery, reason: String) -> Self {
        let id = message_dead_letter_id(&delivery.body);
        let remains = PartialMessage::of(&delivery.body);
        Self {
            correlation_id: remains.correlation.unwrap_or_else(|| CorrelationId::new(id.as_str())),
            id,
            subject: Subject::Message,
            tenant: remains.tenant.unwrap_or_else(|| TenantId::new(settings.tenant.clone())),
            priority: delivery.lane,
            reason,
            receive_count: delivery.receive_count,
            redrive_count: 0,
            message: Some(delivery.body.clone()),
        }
    }
}

/// The letter of a message that can't be read, whatever name its queue gives it today.
pub fn message_dead_letter_id(body: &str) -> DeadLetterId {
    DeadLetterId::new(format!("message-{}", &sha256_hex(body.as_bytes())[..16]))
}

/// Writes the letter, if this death has none, and tells whoever is responsible.
pub async fn bury(dead_letters: &DeadLetters, death: NewDeadLetter) -> Result<(), Fault> {
    let known = dead_letters::find(&dead_letters.store, &death.id).await?;
    if !is_new(&death, known.as_ref()) {
        return Ok(());
    }
    notify(dead_letters, &death).await;
    let (letter, event) = letter(&dead_letters.store, &death, known.as_ref());
    if dead_letters::save(&dead_letters.store, known.as_ref(), letter, event).await? {
        log(&death);
    }
    Ok(())
}

/// The writes that make the letter, for somebody who writes the death itself with them; none when it has
/// one. Whoever is responsible has been told.
pub async fn moves(store: &Store, death: &NewDeadLetter) -> Result<Vec<Change>, Fault> {
    let known = dead_letters::find(store, &death.id).await?;
    if !is_new(death, known.as_ref()) {
        return Ok(vec![]);
    }
    let (letter, event) = letter(store, death, known.as_ref());
    dead_letters::moves(store, known.as_ref(), letter, event).await
}

/// One that was redriven and died again waits once more, by the same letter.
fn is_new(death: &NewDeadLetter, known: Option<&Versioned<DeadLetter>>) -> bool {
    known.is_none_or(|known| known.value.redrive_count < death.redrive_count)
}

fn letter(
    store: &Store,
    death: &NewDeadLetter,
    known: Option<&Versioned<DeadLetter>>,
) -> (DeadLetter, DeadLetterEvent) {
    let now = store.clock.now();
    let letter = DeadLetter {
        id: death.id.clone(),
        tenant: death.tenant.clone(),
        subject: death.subject.clone(),
        reason: death.reason.clone(),
        receive_count: death.receive_count,
        redrive_count: death.redrive_count,
        first_at: known.map_or(now, |known| known.value.first_at),
        last_at: now,
        correlation_id: death.correlation_id.clone(),
        priority: death.priority,
        message: death.message.clone(),
        redriven_at: None,
        revived: None,
        purged: false,
        head: known.map_or_else(Head::default, |known| known.value.head.clone()),
    };
    let (subject, reason) = (death.subject.clone(), death.reason.clone());
    (letter, DeadLetterEvent::Added { subject, reason, receive_count: death.receive_count })
}

pub fn log(death: &NewDeadLetter) {
    let NewDeadLetter { id, tenant, reason, .. } = death;
    error!(dead_letter = %id, %tenant, reason, "dead letter added");
}

/// Before the letter is written: a crash in between tells twice, and never not at all. A notice that
/// can't be sent must not keep the letter from being written.
pub async fn notify(dead_letters: &DeadLetters, death: &NewDeadLetter) {
    let NewDeadLetter { id, tenant, reason, .. } = death;
    let settings = tenants::settings(&dead_letters.tenants, tenant).await;
    let notice = Notice {
        tenant: tenant.clone(),
        responsible: settings.ok().and_then(|settings| settings.responsible.clone()),
        subject: format!("Everypage gave up on {id}"),
        body: format!("{reason}\nSee it: everypage dlq show {id}\nTry again: everypage dlq redrive {id}"),
    };
    if let Err(fault) = dead_letters.notifier.notify(&notice).await {
        warn!(%fault, dead_letter = %id, "notice not sent");
    }
}
