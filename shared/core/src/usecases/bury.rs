//! Putting something among the dead letters, once, and telling whoever is responsible.

use tracing::{error, warn};

use crate::{
    app::App,
    domain::{
        event::Head,
        ids::{CorrelationId, DeadLetterId, Priority, TenantId},
        job::Received,
    },
    ports::{Fault, notifier::Notice},
    store::{
        dead::{self, DeadEvent, DeadLetter, Subject},
        tenants,
    },
};

/// `name` is the same for the same death, so that burying twice makes one letter.
pub async fn bury(
    app: &App,
    name: &str,
    subject: Subject,
    received: &Received,
    reason: String,
    attempts: u32,
    message: Option<String>,
) -> Result<(), Fault> {
    let (tenant, priority) = (received.tenant.clone(), received.options.priority);
    let correlation = match &subject {
        Subject::Job { job } | Subject::Page { job, .. } => CorrelationId::new(job.as_str()),
        Subject::Message => CorrelationId::new(name),
    };
    write(app, name, subject, tenant, priority, correlation, reason, attempts, message).await
}

/// For a message that can't be read: nothing is known but its body.
pub async fn bury_unreadable(
    app: &App,
    name: &str,
    reason: String,
    attempts: u32,
    body: String,
) -> Result<(), Fault> {
    let tenant = TenantId::new(app.settings.tenant.clone());
    let correlation = CorrelationId::new(name);
    write(app, name, Subject::Message, tenant, Priority::Normal, correlation, reason, attempts, Some(body))
        .await
}

#[expect(
    clippy::too_many_arguments,
    reason = "a letter is made here and nowhere else; each part is named in it"
)]
async fn write(
    app: &App,
    name: &str,
    subject: Subject,
    tenant: TenantId,
    priority: Priority,
    correlation_id: CorrelationId,
    reason: String,
    attempts: u32,
    message: Option<String>,
) -> Result<(), Fault> {
    let id = DeadLetterId::new(name);
    if dead::find(app, &id).await?.is_some() {
        return Ok(());
    }
    let now = app.clock.now();
    let letter = DeadLetter {
        id: id.clone(),
        tenant: tenant.clone(),
        subject: subject.clone(),
        reason: reason.clone(),
        attempts,
        first_at: now,
        last_at: now,
        correlation_id,
        priority,
        message,
        redriven_at: None,
        head: Head::default(),
    };
    let event = DeadEvent::Added { subject, reason: reason.clone(), attempts };
    if dead::store(app, None, letter, event).await? {
        error!(dead_letter = %id, %tenant, reason, "dead letter added");
        let settings = tenants::settings(app, &tenant).await;
        let responsible = settings.ok().and_then(|settings| settings.responsible.clone());
        let notice = Notice {
            tenant,
            responsible,
            subject: format!("Everypage gave up on {id}"),
            body: format!("{reason}\nSee it: everypage dlq show {id}\nTry again: everypage dlq redrive {id}"),
        };
        // The letter is safe; a notice that can't be sent must not bring the work back.
        if let Err(fault) = app.notifier.notify(&notice).await {
            warn!(%fault, dead_letter = %id, "notice not sent");
        }
    }
    Ok(())
}
