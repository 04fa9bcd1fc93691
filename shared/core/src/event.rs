//! One event of the audit trail as a value: immutable, numbered and hash-chained per aggregate. The store of
//! events is in [`crate::events`].

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    digest::hex,
    ids::{
        CorrelationId, DeadLetterId, ErasureId, EventId, JobId, PageNumber, Priority, PurchaseId, TenantId,
    },
};

/// Version of the envelope below; a new shape gets a new number.
pub const SCHEMA_VERSION: u32 = 1;

/// The thing that a trail describes. Each page has its own trail, so that a thousand pages that settle
/// concurrently do not compete for one sequence number; the job's trail seals them with a digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aggregate {
    Job(JobId),
    Page(JobId, PageNumber),
    Breaker(String),
    DeadLetter(DeadLetterId),
    Account(TenantId),
    Purchase(PurchaseId),
    /// Acts of administration on a tenant: keys, settings, webhooks, deletions.
    Tenant(TenantId),
    Erasure(ErasureId),
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "job/{job}"),
            Self::Page(job, page) => write!(f, "job/{job}/page/{page}"),
            Self::Breaker(target) => write!(f, "breaker/{target}"),
            Self::DeadLetter(id) => write!(f, "dead_letter/{id}"),
            Self::Account(tenant) => write!(f, "account/{tenant}"),
            Self::Purchase(id) => write!(f, "purchase/{id}"),
            Self::Tenant(tenant) => write!(f, "tenant/{tenant}"),
            Self::Erasure(id) => write!(f, "erasure/{id}"),
        }
    }
}

impl FromStr for Aggregate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not an aggregate");
        let (kind, rest) = text.split_once('/').ok_or_else(bad)?;
        match kind {
            "job" => match rest.split_once("/page/") {
                Some((job, page)) => {
                    let page = page.parse().ok().and_then(PageNumber::new).ok_or_else(bad)?;
                    Ok(Self::Page(JobId::new(job), page))
                }
                None => Ok(Self::Job(JobId::new(rest))),
            },
            "breaker" => Ok(Self::Breaker(rest.to_owned())),
            // `dead` in events of before 0.2.
            "dead_letter" | "dead" => Ok(Self::DeadLetter(DeadLetterId::new(rest))),
            "account" => Ok(Self::Account(TenantId::new(rest))),
            "purchase" => Ok(Self::Purchase(PurchaseId::new(rest))),
            "tenant" => Ok(Self::Tenant(TenantId::new(rest))),
            "erasure" => Ok(Self::Erasure(ErasureId::new(rest))),
            _ => Err(bad()),
        }
    }
}

impl Serialize for Aggregate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Aggregate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The part of the system that caused an event; stored by name in the event's metadata as its `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Actor {
    Intake,
    Worker,
    Finalize,
    /// The caller's request to cancel.
    Cancel,
    /// An operator, through the command line or the API.
    Operator,
    /// The saga of a purchase.
    Purchase,
    /// The saga that erases a tenant.
    Erasure,
}

/// The context of an event: tenant, user, actor, environment and trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    pub tenant: TenantId,
    /// The [`Actor`] that caused it, by name.
    pub source: String,
    pub environment: String,
    #[serde(default)]
    pub trace_id: String,
    #[serde(default)]
    pub span_id: String,
    pub priority: Priority,
}

impl Metadata {
    /// For events that belong to no job, and so to no trace.
    pub fn untraced(tenant: TenantId, user_id: Option<String>, actor: Actor, environment: &str) -> Self {
        Self {
            user_id,
            tenant,
            source: actor.to_string(),
            environment: environment.to_owned(),
            trace_id: String::new(),
            span_id: String::new(),
            priority: Priority::High,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: EventId,
    #[serde(rename = "type")]
    pub kind: String,
    pub data: Value,
    pub timestamp: Timestamp,
    pub correlation_id: CorrelationId,
    pub metadata: Metadata,
    pub schema_version: u32,
    pub aggregate: Aggregate,
    /// 1 for the first event of an aggregate.
    pub sequence: u64,
    /// Hash of the event before it; empty for the first.
    pub previous: String,
    pub hash: String,
}

impl Event {
    /// SHA-256 over every field but `hash`, in canonical JSON.
    pub fn compute_hash(&self) -> String {
        self.hash_of(&self.aggregate.to_string())
    }

    /// Whether the content is what was hashed when the event was stored.
    pub fn matches_hash(&self) -> bool {
        // The name that the aggregate had when the event was stored is part of its hash.
        let former = match &self.aggregate {
            Aggregate::DeadLetter(id) => Some(format!("dead/{id}")),
            _ => None,
        };
        self.hash == self.compute_hash() || former.is_some_and(|former| self.hash == self.hash_of(&former))
    }

    fn hash_of(&self, aggregate: &str) -> String {
        let mut value = serde_json::to_value(self).expect("an event has only string keys");
        if let Value::Object(fields) = &mut value {
            fields.remove("hash");
            fields.insert("aggregate".into(), aggregate.into());
        }
        let mut canonical = String::new();
        write_canonical(&value, &mut canonical);
        hex(&Sha256::digest(canonical.as_bytes()))
    }
}

/// The end of a trail: stored in the record that the trail describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub sequence: u64,
    pub hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Head {
    /// The head of a trail that ends with `event`.
    pub fn of(event: &Event) -> Self {
        Self { sequence: event.sequence, hash: event.hash.clone(), at: Some(event.timestamp) }
    }

    /// The timestamp of the next event: `now`, but never before the last event, so that times in a
    /// trail never decrease even if a writer's clock is behind.
    pub fn next_time(&self, now: Timestamp) -> Timestamp {
        self.at.map_or(now, |at| at.max(now))
    }

    /// The head after `event`, which must be the next event of this trail, unchanged.
    pub fn follow(&self, event: &Event) -> Result<Self, Tampered> {
        let expected = self.sequence + 1;
        if event.sequence != expected {
            return Err(Tampered::Missing { sequence: expected, found: event.sequence });
        }
        if event.previous != self.hash {
            return Err(Tampered::Unlinked { sequence: expected });
        }
        if !event.matches_hash() {
            return Err(Tampered::Changed { sequence: expected });
        }
        Ok(Self::of(event))
    }

    /// Builds the next event of a trail, and the head after it.
    pub fn append(
        &self,
        aggregate: Aggregate,
        id: EventId,
        event: &impl DomainEvent,
        now: Timestamp,
        correlation_id: CorrelationId,
        metadata: Metadata,
    ) -> (Event, Head) {
        let Tagged { kind, data } = tagged(event);
        let metadata = Metadata { priority: event.priority().unwrap_or(metadata.priority), ..metadata };
        let mut event = Event {
            id,
            kind,
            data,
            timestamp: self.next_time(now),
            correlation_id,
            metadata,
            schema_version: SCHEMA_VERSION,
            aggregate,
            sequence: self.sequence + 1,
            previous: self.hash.clone(),
            hash: String::new(),
        };
        event.hash = event.compute_hash();
        let head = Head::of(&event);
        (event, head)
    }
}

/// Every type of events.
pub const KINDS: [&str; 57] = [
    "account.repaired",
    "breaker.closed",
    "breaker.half_open",
    "breaker.opened",
    "credit.added",
    "credit.allocated",
    "credit.deducted",
    "credit.released",
    "credit.reserved",
    "credit.settled",
    "credit.taken_back",
    "dlq.added",
    "dlq.purged",
    "dlq.redriven",
    "job.acked",
    "job.admitted",
    "job.approved",
    "job.audited",
    "job.cancel_requested",
    "job.cancelled",
    "job.content_removed",
    "job.deadline_moved",
    "job.deadline_reached",
    "job.deleted",
    "job.executed",
    "job.failed",
    "job.healed",
    "job.modified",
    "job.proposed",
    "job.received",
    "job.redriven",
    "job.rejected",
    "job.understood",
    "key.created",
    "key.revoked",
    "page.settled",
    "payment.completed",
    "payment.failed",
    "payment.refunded",
    "saga.compensated",
    "saga.compensating",
    "saga.compensation_done",
    "saga.compensation_failed",
    "saga.compensation_started",
    "saga.completed",
    "saga.manual",
    "saga.resolved",
    "saga.resumed",
    "saga.started",
    "saga.step_continued",
    "saga.step_done",
    "saga.step_failed",
    "saga.step_started",
    "tenant.changed",
    "tenant.created",
    "tenant.erased",
    "webhook.changed",
];

/// Whether a type of events is among `patterns`: types, or prefixes such as `job.*`, separated by commas.
pub fn matches_kind(patterns: &str, kind: &str) -> bool {
    patterns.split(',').map(str::trim).any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => kind.starts_with(prefix),
        None => pattern == kind,
    })
}

/// An event as its room has it: an enum that serializes as `{"type": …, "data": …}`.
pub trait DomainEvent: Serialize {
    /// The priority that follows from what happened: failures are critical, credits and payments high. Other
    /// events have that of their job.
    fn priority(&self) -> Option<Priority> {
        None
    }
}

#[derive(Deserialize)]
struct Tagged {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "no_data")]
    data: Value,
}

fn no_data() -> Value {
    Value::Object(Default::default())
}

fn tagged(event: &impl DomainEvent) -> Tagged {
    let tagged = serde_json::to_value(event).and_then(serde_json::from_value);
    tagged.expect("a domain event has a type, and only string keys")
}

/// The typed form of a stored event.
pub fn decode<T: serde::de::DeserializeOwned>(event: &Event) -> Result<T, serde_json::Error> {
    let mut object = serde_json::Map::new();
    object.insert("type".into(), Value::String(event.kind.clone()));
    object.insert("data".into(), event.data.clone());
    serde_json::from_value(Value::Object(object))
}

/// How a trail differs from what was written, and at which event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Tampered {
    #[error("event {sequence} is missing: the next one found is {found}")]
    Missing { sequence: u64, found: u64 },
    #[error("event {sequence} was changed: its content does not match its hash")]
    Changed { sequence: u64 },
    #[error("event {sequence} does not follow the one before it")]
    Unlinked { sequence: u64 },
    #[error("the trail ends at event {found}, but its record expects event {expected}")]
    Cut { expected: u64, found: u64 },
}

/// Checks a whole trail, in order of sequence, against the head in its record.
pub fn verify(events: &[Event], head: &Head) -> Result<(), Tampered> {
    let found = events.iter().try_fold(Head::default(), |found, event| found.follow(event))?;
    if found.sequence != head.sequence || found.hash != head.hash {
        return Err(Tampered::Cut { expected: head.sequence, found: found.sequence });
    }
    Ok(())
}

/// JSON with sorted keys and no spaces: equal values give equal bytes, whatever their field order.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(&fields[key.as_str()], out);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(value, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        billing::{
            account::{AccountEvent, Cause},
            purchase::PurchaseEvent,
        },
        dead_letters::{DeadLetterEvent, Subject},
        job::{Failure, JobEvent},
        money::MicroUsd,
        sagas::progress::SagaEvent,
    };

    fn stored(aggregate: Aggregate, event: &impl DomainEvent) -> Event {
        let metadata = Metadata {
            priority: Priority::Low,
            ..Metadata::untraced(TenantId::new("acme"), None, Actor::Worker, "test")
        };
        let (id, correlation) = (EventId::new("e"), CorrelationId::new("c"));
        Head::default().append(aggregate, id, event, Timestamp::UNIX_EPOCH, correlation, metadata).0
    }

    #[test]
    fn the_type_of_an_event_may_decide_its_priority() {
        let aggregate = || Aggregate::Tenant(TenantId::new("acme"));
        let reason = || "it broke".to_owned();
        let failed = JobEvent::Failed(Failure { code: "empty_file".into(), reason: reason() });
        let added = DeadLetterEvent::Added {
            subject: Subject::Message,
            reason: reason(),
            receive_count: 3,
            redrive_count: None,
            priority: None,
        };
        let paid = PurchaseEvent::PaymentRefunded { amount_micro_usd: MicroUsd(1) };
        for (event, kind, priority) in [
            (stored(aggregate(), &failed), "job.failed", Priority::Critical),
            (stored(aggregate(), &JobEvent::DeadlineReached {}), "job.deadline_reached", Priority::Low),
            (stored(aggregate(), &added), "dlq.added", Priority::Critical),
            (stored(aggregate(), &DeadLetterEvent::Purged { by: "ann".into() }), "dlq.purged", Priority::Low),
            (stored(aggregate(), &paid), "payment.refunded", Priority::High),
            (
                stored(aggregate(), &PurchaseEvent::PaymentFailed { reason: reason() }),
                "payment.failed",
                Priority::Critical,
            ),
            (
                stored(aggregate(), &PurchaseEvent::Saga(SagaEvent::Manual { reason: reason() })),
                "saga.manual",
                Priority::Critical,
            ),
            (
                stored(aggregate(), &PurchaseEvent::Saga(SagaEvent::Completed {})),
                "saga.completed",
                Priority::Low,
            ),
            (
                stored(aggregate(), &AccountEvent::Added { credits: 1, cause: Cause::Welcome {} }),
                "credit.added",
                Priority::High,
            ),
            (
                stored(aggregate(), &AccountEvent::Repaired { by: "ann".into(), findings: vec![] }),
                "account.repaired",
                Priority::Low,
            ),
        ] {
            assert_eq!((event.kind.as_str(), event.metadata.priority), (kind, priority));
        }
    }

    #[test]
    fn an_event_that_was_stored_under_a_former_name_still_matches_its_hash() {
        let aggregate = Aggregate::DeadLetter(DeadLetterId::new("j-p7"));
        let event = stored(aggregate.clone(), &DeadLetterEvent::Purged { by: "ann".into() });
        assert_eq!(event.aggregate.to_string(), "dead_letter/j-p7");
        let mut former = event.clone();
        former.hash = former.hash_of("dead/j-p7");
        let text = serde_json::to_string(&former).unwrap().replace("dead_letter/", "dead/");
        let read: Event = serde_json::from_str(&text).unwrap();
        assert_eq!(read.aggregate, aggregate);
        assert_eq!(verify(std::slice::from_ref(&read), &Head::of(&read)), Ok(()));
        let changed = Event { kind: "dlq.redriven".into(), ..read };
        assert_eq!(
            verify(std::slice::from_ref(&changed), &Head::of(&changed)),
            Err(Tampered::Changed { sequence: 1 })
        );
    }
}
