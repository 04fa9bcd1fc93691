//! Receivers of webhooks that accept nothing: after some dead letters in a row a webhook is paused, so that a
//! receiver that is gone costs one attempt per hour, and no dead letter and notice per event.
//!
//! While it is paused its deliveries wait. One of them is sent per hour; the first that is accepted ends the pause.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    ids::TenantId,
    keys::record,
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, When, Written},
    },
    records::{Versioned, decode, encode},
    time::after,
};

/// Dead letters in a row, of one webhook, after which it is paused.
pub const MAX_DEAD_LETTERS: u32 = 5;
/// How often a paused webhook gets a message.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(3600);
/// How long a message waits for a receiver that accepts nothing.
pub const MAX_WAIT: Duration = Duration::from_secs(3 * 24 * 3600);
/// How long the dead letters of a receiver are counted after the last one.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How the receiver of a webhook is doing. One that accepts its messages has no record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiver {
    /// In a row.
    pub dead_letters: u32,
    /// Set while it is paused: when the next message may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
}

/// What may be done with a message for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Send,
    /// Send it, after `next` was stored: no other message is sent until the next hour.
    Probe {
        next: Receiver,
    },
    WaitUntil(Timestamp),
}

impl Receiver {
    pub fn admit(&self, now: Timestamp) -> Admission {
        match self.paused_until {
            None => Admission::Send,
            Some(until) if now < until => Admission::WaitUntil(until),
            Some(_) => Admission::Probe {
                next: Self { paused_until: Some(after(now, PROBE_INTERVAL)), ..self.clone() },
            },
        }
    }

    /// The receiver after one more dead letter.
    pub fn after_dead_letter(&self, now: Timestamp) -> Self {
        let dead_letters = self.dead_letters + 1;
        let paused_until = (dead_letters >= MAX_DEAD_LETTERS).then(|| after(now, PROBE_INTERVAL));
        Self { dead_letters, paused_until }
    }
}

pub async fn load(store: &Store, tenant: &TenantId, hook: &str) -> Result<Versioned<Receiver>, Fault> {
    let item = store.records.get(&record::webhook_receiver(tenant, hook)).await?;
    Ok(item.as_ref().map(decode).transpose()?.unwrap_or_default())
}

fn put(
    store: &Store,
    tenant: &TenantId,
    hook: &str,
    before: u64,
    receiver: &Receiver,
) -> Result<Change, Fault> {
    let when = if before == 0 { When::Absent } else { When::Version(before) };
    let expires = Some(after(store.clock.now(), RETENTION));
    let draft = Draft { expires, ..Draft::new(record::webhook_receiver(tenant, hook), encode(receiver)?) };
    Ok(Change::Put { draft, when })
}

/// Stores what a probe makes of a receiver; false if another process changed it in between.
pub async fn save(
    store: &Store,
    tenant: &TenantId,
    hook: &str,
    before: u64,
    next: &Receiver,
) -> Result<bool, Fault> {
    let change = put(store, tenant, hook, before, next)?;
    Ok(store.write(vec![change]).await? == Written::Applied)
}

/// Counts a dead letter; with the one that pauses the webhook, a person is notified.
pub async fn count_dead_letter(store: &Store, tenant: &TenantId, hook: &str) -> Result<(), Fault> {
    loop {
        let before = load(store, tenant, hook).await?;
        let next = before.value.after_dead_letter(store.clock.now());
        let mut changes = vec![put(store, tenant, hook, before.version, &next)?];
        if before.value.paused_until.is_none() && next.paused_until.is_some() {
            changes.push(notices::change(store, &notice(tenant, hook))?);
        }
        if store.write(changes).await? == Written::Applied {
            return Ok(());
        }
    }
}

fn notice(tenant: &TenantId, hook: &str) -> NewNotice {
    let days = MAX_WAIT.as_secs() / (24 * 3600);
    NewNotice {
        tenant: tenant.clone(),
        kind: NoticeKind::DeadLetter,
        topic: format!("webhook {hook}"),
        about: None,
        subject: format!("The webhook {hook} of {tenant} is paused"),
        body: format!(
            "{MAX_DEAD_LETTERS} messages in a row were not accepted. One is sent per hour from now on; the others \
             wait for up to {days} days.\nWhen the receiver accepts one, all are sent. To send immediately, change \
             the webhook, or redrive one of its dead letters: everypage dlq list\nRemove it: everypage webhook \
             remove {hook} --tenant {tenant}"
        ),
    }
}

/// Clears the count of dead letters of a webhook, and ends its pause.
pub async fn reset(store: &Store, tenant: &TenantId, hook: &str) -> Result<(), Fault> {
    loop {
        let version = load(store, tenant, hook).await?.version;
        let key = record::webhook_receiver(tenant, hook);
        if version == 0 || store.write(vec![Change::Delete { key, version }]).await? == Written::Applied {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_paused_after_some_dead_letters_and_probed_every_hour() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let mut receiver = Receiver::default();
        for _ in 1..MAX_DEAD_LETTERS {
            receiver = receiver.after_dead_letter(at(0));
            assert_eq!(receiver.admit(at(0)), Admission::Send);
        }
        receiver = receiver.after_dead_letter(at(0));
        assert_eq!(receiver.admit(at(3599)), Admission::WaitUntil(at(3600)));
        let Admission::Probe { next } = receiver.admit(at(3700)) else { panic!("{receiver:?}") };
        assert_eq!(next.admit(at(3701)), Admission::WaitUntil(at(7300)), "one probe per hour");
    }
}
