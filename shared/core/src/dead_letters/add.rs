//! Adds a dead letter, once, together with the notice to the responsible person.

use tracing::error;

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
    ports::{Fault, queue::Delivery, records::Change},
    records::Versioned,
    settings::Settings,
    telemetry::metrics::dead_letter_added,
};

/// Why a dead letter was added; its name is a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The document failed.
    Job,
    /// The page can't be read because of an error of ours.
    GaveUp,
    /// The worker died each time.
    Crashed,
    /// The page fell back after an error of an unknown kind.
    Unknown,
    /// A message that can't be parsed, or an upload that was refused.
    Unreadable,
    /// A message that no server accepted.
    Webhook,
}

/// A dead letter to add. `id` and `redrive_count` identify it, so that adding it twice has the effect of
/// adding it once.
pub struct NewDeadLetter {
    pub id: DeadLetterId,
    pub subject: Subject,
    pub cause: Cause,
    pub tenant: TenantId,
    pub priority: Priority,
    pub correlation_id: CorrelationId,
    pub reason: String,
    /// Deliveries until it was given up.
    pub receive_count: u32,
    pub redrive_count: u32,
    pub message: Option<String>,
}

impl NewDeadLetter {
    /// A job that failed.
    pub fn of_job(job: &Job, reason: String) -> Self {
        Self {
            id: dead_letters::job_dead_letter_id(&job.id, job.redrives),
            subject: Subject::Job { job: job.id.clone() },
            cause: Cause::Job,
            tenant: job.received.tenant.clone(),
            priority: job.received.options.priority,
            correlation_id: job.correlation_id.clone(),
            reason,
            receive_count: job.redrives + 1,
            redrive_count: 0,
            message: None,
        }
    }

    /// A page message that was given up.
    pub fn of_page(delivery: &Delivery, message: &PageMessage, cause: Cause, reason: String) -> Self {
        Self {
            id: dead_letters::page_dead_letter_id(&message.job_id, message.page_id),
            subject: Subject::Page { job: message.job_id.clone(), page: message.page_id },
            cause,
            tenant: message.tenant.clone(),
            priority: message.priority,
            correlation_id: message.correlation_id.clone(),
            reason,
            receive_count: delivery.receive_count,
            redrive_count: message.redrive_count,
            message: Some(delivery.body.clone()),
        }
    }

    /// A message that can't be parsed. Its tenant and correlation id come from the readable fields, if any.
    pub fn of_message(settings: &Settings, delivery: &Delivery, reason: String) -> Self {
        let id = message_dead_letter_id(&delivery.body);
        let partial = PartialMessage::of(&delivery.body);
        Self {
            correlation_id: partial.correlation.unwrap_or_else(|| CorrelationId::new(id.as_str())),
            id,
            subject: Subject::Message,
            cause: Cause::Unreadable,
            tenant: partial.tenant.unwrap_or_else(|| TenantId::new(settings.tenant.clone())),
            priority: delivery.lane,
            reason,
            receive_count: delivery.receive_count,
            redrive_count: 0,
            message: Some(delivery.body.clone()),
        }
    }
}

/// The id of the dead letter of a message that can't be parsed. It depends on the body alone: the queue's
/// id of the message changes when it is moved.
pub fn message_dead_letter_id(body: &str) -> DeadLetterId {
    DeadLetterId::new(format!("message-{}", &sha256_hex(body.as_bytes())[..16]))
}

/// Writes the dead letter and its notice, unless it was added before.
pub async fn add(dead_letters: &DeadLetters, new: NewDeadLetter) -> Result<(), Fault> {
    let known = dead_letters::find(&dead_letters.store, &new.id).await?;
    if !is_new(&new, known.as_ref()) {
        return Ok(());
    }
    let (dead_letter, event) = build(&dead_letters.store, &new, known.as_ref());
    if dead_letters::save(&dead_letters.store, known.as_ref(), dead_letter, event).await? {
        added(&new);
    }
    Ok(())
}

/// The writes that add the dead letter, for a caller that stores them with changes of its own; none if it
/// was added before.
pub async fn changes(store: &Store, new: &NewDeadLetter) -> Result<Vec<Change>, Fault> {
    let known = dead_letters::find(store, &new.id).await?;
    if !is_new(new, known.as_ref()) {
        return Ok(vec![]);
    }
    let (dead_letter, event) = build(store, new, known.as_ref());
    dead_letters::changes(store, known.as_ref(), dead_letter, event).await
}

/// A message that was redriven and given up again replaces its earlier dead letter.
fn is_new(new: &NewDeadLetter, known: Option<&Versioned<DeadLetter>>) -> bool {
    known.is_none_or(|known| known.value.redrive_count < new.redrive_count)
}

fn build(
    store: &Store,
    new: &NewDeadLetter,
    known: Option<&Versioned<DeadLetter>>,
) -> (DeadLetter, DeadLetterEvent) {
    let now = store.clock.now();
    let dead_letter = DeadLetter {
        id: new.id.clone(),
        tenant: new.tenant.clone(),
        subject: new.subject.clone(),
        reason: new.reason.clone(),
        receive_count: new.receive_count,
        redrive_count: new.redrive_count,
        first_at: known.map_or(now, |known| known.value.first_at),
        last_at: now,
        correlation_id: new.correlation_id.clone(),
        priority: new.priority,
        message: new.message.clone(),
        redriven_at: None,
        revived: None,
        purged: false,
        head: known.map_or_else(Head::default, |known| known.value.head.clone()),
    };
    let (subject, reason) = (new.subject.clone(), new.reason.clone());
    let event = DeadLetterEvent::Added {
        subject,
        reason,
        receive_count: new.receive_count,
        redrive_count: Some(new.redrive_count),
        priority: Some(new.priority),
    };
    (dead_letter, event)
}

/// Reports a dead letter that was stored; once, by who stored it.
pub fn added(new: &NewDeadLetter) {
    let NewDeadLetter { id, tenant, reason, cause, .. } = new;
    dead_letter_added(cause.into());
    error!(dead_letter = %id, %tenant, reason, "dead letter added");
}
