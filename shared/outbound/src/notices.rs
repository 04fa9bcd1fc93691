//! Notices to people, by a webhook and by e-mail.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    notify::webhook,
    ports::{
        Fault,
        clock::Clock,
        hooks::{Hooks, WebhookRequest},
        notifier::{Channel, MAX_SUBJECT_CHARS, Notice, Notifier},
    },
    settings::{NotifyEmail, NotifySettings, NotifyWebhook},
};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
};
use serde_json::json;

use crate::{HttpWebhooks, SetupError};

const SMTP_TIMEOUT: Duration = Duration::from_secs(20);

/// The channels that the settings name.
pub fn notifiers(
    settings: &NotifySettings,
    clock: Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Notifier>>, SetupError> {
    let mut notifiers: Vec<Arc<dyn Notifier>> = Vec::new();
    if let Some(webhook) = &settings.webhook {
        // The operator chose this address: it may be one of a private network.
        let hooks = HttpWebhooks::new(true)?;
        hooks.check(webhook.url.expose()).map_err(|reason| SetupError::Notices("NOTIFY_URL", reason))?;
        notifiers.push(Arc::new(WebhookNotifier { webhook: webhook.clone(), hooks, clock }));
    }
    if let Some(email) = &settings.email {
        notifiers.push(Arc::new(SmtpNotifier::new(email)?));
    }
    Ok(notifiers)
}

/// Calls a URL with each notice, signed like the webhooks of tenants.
struct WebhookNotifier {
    webhook: NotifyWebhook,
    hooks: HttpWebhooks,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Notifier for WebhookNotifier {
    fn channel(&self) -> Channel {
        Channel::Webhook
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let now = self.clock.now();
        let (id, time) = (format!("msg_{}", notice.id), now.as_second());
        let body = body(notice, now).to_string();
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("webhook-timestamp", time.to_string()),
            ("webhook-signature", webhook::sign(&self.webhook.secret, &id, time, &body)),
            ("webhook-id", id),
        ];
        let call = WebhookRequest { url: self.webhook.url.expose().to_owned(), headers, body };
        self.hooks.post(&call).await.map_err(|error| Fault::unreachable("NOTIFY_URL", error))
    }
}

/// `text` is what chat services show.
fn body(notice: &Notice, now: jiff::Timestamp) -> serde_json::Value {
    let Notice { id, tenant, kind, responsible, subject, body } = notice;
    json!({
        "type": format!("notice.{kind}"),
        "timestamp": now,
        "text": format!("{subject}\n{body}"),
        "data": {
            "id": id,
            "kind": kind,
            "tenant": tenant,
            "responsible": responsible,
            "subject": subject,
            "body": body,
        },
    })
}

/// Sends each notice as an e-mail to the responsible person.
struct SmtpNotifier {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Mailbox,
}

impl SmtpNotifier {
    fn new(email: &NotifyEmail) -> Result<Self, SetupError> {
        let wrong =
            |name: &'static str, error: &dyn std::fmt::Display| SetupError::Notices(name, error.to_string());
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(email.server.expose())
            // The URL holds a password: its error names the kind of mistake and not the URL.
            .map_err(|error| wrong("NOTIFY_SMTP_URL", &error))?
            .timeout(Some(SMTP_TIMEOUT))
            .build();
        Ok(Self {
            transport,
            from: email
                .from
                .parse()
                .map_err(|error: lettre::address::AddressError| wrong("NOTIFY_FROM", &error))?,
            to: email
                .to
                .parse()
                .map_err(|error: lettre::address::AddressError| wrong("DEFAULT_RESPONSIBLE", &error))?,
        })
    }

    /// A responsible person that is no e-mail address is replaced by the installation's.
    fn message(&self, notice: &Notice) -> Result<Message, lettre::error::Error> {
        let responsible = notice.responsible.as_ref().and_then(|text| text.parse::<Mailbox>().ok());
        let subject: String =
            notice.subject.chars().filter(|c| !c.is_control()).take(MAX_SUBJECT_CHARS).collect();
        Message::builder()
            .from(self.from.clone())
            .to(responsible.unwrap_or_else(|| self.to.clone()))
            // Constant over all attempts: mail programs show repeated ones once.
            .message_id(Some(format!("<{}@everypage>", notice.id)))
            .subject(subject)
            .header(ContentType::TEXT_PLAIN)
            .body(format!("{}\n\nTenant: {}\n", notice.body, notice.tenant))
    }
}

#[async_trait]
impl Notifier for SmtpNotifier {
    fn channel(&self) -> Channel {
        Channel::Email
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let message = self.message(notice).map_err(|error| Fault::broken("mail", error))?;
        self.transport.send(message).await.map_err(|error| Fault::unreachable("the mail server", error))?;
        Ok(())
    }
}
