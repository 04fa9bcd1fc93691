//! Replay: the state of any aggregate from its events alone, and whether it is the stored one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    billing::{account::Account, purchase::Purchase, purchases},
    dead_letters::{self, DeadLetter, DeadLetterEvent, Revived, Subject},
    erasures::{self, erasure::Erasure},
    event::{Aggregate, Event, Head, decode, verify},
    events::{Store, listing, trail},
    finish::verify::{verify_account, verify_job},
    ids::{CorrelationId, DeadLetterId, JobId, PageNumber, Priority, TenantId},
    job::{Job, StepError},
    notify::webhooks,
    ports::{Fault, blobs::Blobs},
    read::{
        breaker::{Breaker, BreakerEvent, State},
        breakers,
        outcome::{PageEvent, Settlement},
        pages,
    },
    tenants::{
        Tenants,
        administration::{self, AdministrationEvent},
        api_keys, overrides,
    },
};

/// Reads before a finding is reported: one that appears while a process writes may come from two reads that
/// do not belong together.
const MAX_READS: usize = 5;
/// Events per request when those of a tenant are listed.
const BATCH_SIZE: usize = 500;

/// The result of verifying an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub aggregate: Aggregate,
    /// How many events were checked; those of a job include those of its pages.
    pub events: usize,
    /// What is wrong; empty when nothing is.
    pub findings: Vec<String>,
}

/// The state that the events of an aggregate give, as JSON; null if it has none. The text is why they give none.
pub async fn replay(store: &Store, aggregate: &Aggregate) -> Result<Result<Value, String>, Fault> {
    let events = trail::read(store, aggregate).await?;
    Ok(match events.is_empty() {
        true => Ok(Value::Null),
        false => replay_events(aggregate, &events),
    })
}

fn replay_events(aggregate: &Aggregate, events: &[Event]) -> Result<Value, String> {
    Ok(match aggregate {
        Aggregate::Job(_) => json!(Job::replay(events)?),
        Aggregate::Page(..) => json!(replay_page(events)?),
        Aggregate::Account(tenant) => json!(Account::replay(tenant, events)?),
        Aggregate::Purchase(_) => json!(Purchase::replay(events)?),
        Aggregate::Breaker(_) => json!(replay_breaker(events)?),
        Aggregate::DeadLetter(_) => json!(replay_dead_letter(events)?),
        Aggregate::Tenant(_) => json!(replay_tenant(events)?),
        Aggregate::Erasure(_) => json!(Erasure::replay(events)?),
    })
}

fn typed<T: serde::de::DeserializeOwned>(event: &Event) -> Result<T, String> {
    decode(event).map_err(|error| format!("event {}: {error}", event.sequence))
}

fn replay_page(events: &[Event]) -> Result<Option<Settlement>, String> {
    let mut outcome = None;
    for event in events {
        let PageEvent::Settled(settlement) = typed(event)?;
        outcome = Some(settlement);
    }
    Ok(outcome)
}

/// A breaker as its events alone give it; failures before it opens, and a probe that led to nothing, are no events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ReplayedBreaker {
    state: &'static str,
    until: Option<Timestamp>,
    holder: Option<String>,
    trips: u32,
    cause: String,
    /// Not said by events of version 0.1.
    misconfigured: Option<bool>,
    generation: Option<u64>,
}

fn replay_breaker(events: &[Event]) -> Result<ReplayedBreaker, String> {
    let mut replayed = ReplayedBreaker { state: State::Closed.name(), ..ReplayedBreaker::default() };
    for event in events {
        replayed = match typed(event)? {
            BreakerEvent::Opened { until, cause, trips, misconfigured, generation } => ReplayedBreaker {
                state: "open",
                until: Some(until),
                holder: None,
                trips,
                cause,
                misconfigured,
                generation,
            },
            BreakerEvent::HalfOpen { holder, generation } => ReplayedBreaker {
                state: "half_open",
                until: None,
                holder: Some(holder),
                generation,
                ..replayed
            },
            BreakerEvent::Closed { generation } => {
                ReplayedBreaker { state: "closed", generation, ..ReplayedBreaker::default() }
            }
        };
    }
    Ok(replayed)
}

/// A dead letter as its events alone give it: all but its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ReplayedDeadLetter {
    tenant: TenantId,
    correlation_id: CorrelationId,
    subject: Subject,
    reason: String,
    receive_count: u32,
    redrive_count: Option<u32>,
    priority: Option<Priority>,
    first_at: Timestamp,
    last_at: Timestamp,
    redriven_at: Option<Timestamp>,
    revived: Option<Revived>,
    purged: bool,
    /// Events of version 0.1 do not say all of it, and their times are a moment off.
    #[serde(skip)]
    is_exact: bool,
}

fn replay_dead_letter(events: &[Event]) -> Result<Option<ReplayedDeadLetter>, String> {
    let mut replayed: Option<ReplayedDeadLetter> = None;
    for event in events {
        let first = || format!("event {}: it was not added yet", event.sequence);
        let at = event.timestamp;
        match typed(event)? {
            DeadLetterEvent::Added { subject, reason, receive_count, redrive_count, priority } => {
                let before = replayed.as_ref();
                replayed = Some(ReplayedDeadLetter {
                    tenant: event.metadata.tenant.clone(),
                    correlation_id: event.correlation_id.clone(),
                    subject,
                    reason,
                    receive_count,
                    redrive_count,
                    priority,
                    first_at: before.map_or(at, |before| before.first_at),
                    last_at: at,
                    redriven_at: None,
                    revived: None,
                    purged: false,
                    is_exact: priority.is_some() && before.is_none_or(|before| before.is_exact),
                });
            }
            DeadLetterEvent::Redriven { revived, .. } => {
                let redriven = replayed.as_mut().ok_or_else(first)?;
                redriven.redriven_at = Some(at);
                redriven.revived = revived.or(redriven.revived);
            }
            DeadLetterEvent::Purged { .. } => replayed.as_mut().ok_or_else(first)?.purged = true,
        }
    }
    Ok(replayed)
}

/// A tenant as the acts of administration alone give it. Those of before version 0.2 have no events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ReplayedTenant {
    /// Whether each key is revoked, by its id.
    keys: BTreeMap<String, bool>,
    /// Whether each variable is set, by its name.
    variables: BTreeMap<String, bool>,
    /// Whether each webhook exists, by its id.
    webhooks: BTreeMap<String, bool>,
    deleted_jobs: BTreeSet<JobId>,
}

fn replay_tenant(events: &[Event]) -> Result<ReplayedTenant, String> {
    let mut replayed = ReplayedTenant::default();
    for event in events {
        match typed(event)? {
            AdministrationEvent::KeyCreated { key, .. } => drop(replayed.keys.insert(key, false)),
            AdministrationEvent::KeyRevoked { key } => drop(replayed.keys.insert(key, true)),
            AdministrationEvent::TenantChanged { set, unset } => {
                replayed.variables.extend(set.into_iter().map(|name| (name, true)));
                replayed.variables.extend(unset.into_iter().map(|name| (name, false)));
            }
            AdministrationEvent::JobDeleted { job, .. } => drop(replayed.deleted_jobs.insert(job)),
            AdministrationEvent::TenantErased { .. } => {
                (replayed.keys, replayed.variables, replayed.webhooks) = Default::default();
            }
            AdministrationEvent::WebhookChanged { removed, webhook } => {
                let id = webhook.unwrap_or_else(|| webhooks::DEFAULT.to_owned());
                replayed.webhooks.insert(id, !removed);
            }
            AdministrationEvent::TenantCreated {} => {}
        }
    }
    Ok(replayed)
}

/// Checks every hash and link of an aggregate's trail, and that replaying it gives what is stored.
pub async fn verify_aggregate(
    store: &Store,
    tenants: &Tenants,
    blobs: &dyn Blobs,
    aggregate: &Aggregate,
) -> Result<Verified, StepError> {
    let verified = |events, findings| Verified { aggregate: aggregate.clone(), events, findings };
    match aggregate {
        Aggregate::Job(job) => {
            let report = verify_job(store, blobs, job).await?;
            return Ok(verified(report.job_events + report.page_events, report.findings));
        }
        Aggregate::Account(tenant) => {
            let findings = verify_account(store, tenant).await?;
            return Ok(verified(trail::read(store, aggregate).await?.len(), findings));
        }
        _ => {}
    }
    let mut seen = None;
    for _ in 0..MAX_READS {
        let (head, stored) = stored(store, tenants, aggregate).await?;
        let events = trail::read(store, aggregate).await?;
        let mut findings = Vec::new();
        if let Err(tampered) = verify(&events, &head) {
            findings.push(tampered.to_string());
        }
        match stored.differences(&events) {
            Ok(differences) => findings.extend(differences),
            Err(error) => findings.push(error),
        }
        if findings.is_empty() || seen.as_ref() == Some(&head) {
            return Ok(verified(events.len(), findings));
        }
        seen = Some(head);
    }
    Err(Fault::Throttled { service: "records", retry_after: None }.into())
}

/// The record of an aggregate.
enum Stored {
    Page(Option<Settlement>),
    Purchase(Option<Box<Purchase>>),
    Breaker(Breaker),
    DeadLetter(Option<Box<DeadLetter>>),
    Tenant {
        keys: BTreeMap<String, bool>,
        variables: BTreeSet<String>,
        webhooks: BTreeSet<String>,
    },
    /// A tenant that is being erased: parts of it are gone already.
    ClosedTenant,
    Erasure(Option<Box<Erasure>>),
}

async fn stored(
    store: &Store,
    tenants: &Tenants,
    aggregate: &Aggregate,
) -> Result<(Head, Stored), StepError> {
    Ok(match aggregate {
        Aggregate::Page(job, page) => stored_page(store, job, *page).await?,
        Aggregate::Purchase(id) => {
            let found = purchases::find(store, id).await?.map(|found| found.value);
            let head = found.as_ref().map(|found| found.head.clone()).unwrap_or_default();
            (head, Stored::Purchase(found.map(Box::new)))
        }
        Aggregate::Breaker(name) => {
            let (breaker, head) = breakers::stored(store, name).await?;
            (head, Stored::Breaker(breaker))
        }
        Aggregate::DeadLetter(id) => stored_dead_letter(store, id).await?,
        Aggregate::Tenant(tenant) => stored_tenant(store, tenants, tenant).await?,
        Aggregate::Erasure(id) => {
            let found = erasures::find(store, id).await?.map(|found| found.value);
            let head = found.as_ref().map(|found| found.head.clone()).unwrap_or_default();
            (head, Stored::Erasure(found.map(Box::new)))
        }
        Aggregate::Job(_) | Aggregate::Account(_) => {
            return Err(Fault::broken("replay", "jobs and accounts are verified on their own").into());
        }
    })
}

async fn stored_page(store: &Store, job: &JobId, page: PageNumber) -> Result<(Head, Stored), Fault> {
    let found = pages::find(store, job, page).await?.map(|found| found.value);
    let head = found.as_ref().map(|found| found.head.clone()).unwrap_or_default();
    Ok((head, Stored::Page(found.and_then(|found| found.outcome))))
}

async fn stored_dead_letter(store: &Store, id: &DeadLetterId) -> Result<(Head, Stored), Fault> {
    let found = dead_letters::find(store, id).await?.map(|found| found.value);
    let head = found.as_ref().map(|found| found.head.clone()).unwrap_or_default();
    Ok((head, Stored::DeadLetter(found.map(Box::new))))
}

async fn stored_tenant(store: &Store, tenants: &Tenants, tenant: &TenantId) -> Result<(Head, Stored), Fault> {
    let administration = administration::load(store, tenant).await?.value;
    let head = administration.head;
    if administration.erasure.is_some() {
        return Ok((head, Stored::ClosedTenant));
    }
    let keys = api_keys::list(store, tenant).await?;
    let keys = keys.into_iter().map(|key| (key.id, key.revoked_at.is_some())).collect();
    let variables = overrides(tenants, tenant).await?.variables.into_keys().collect();
    let webhooks = webhooks::list(store, tenant).await?.into_iter().map(|webhook| webhook.id).collect();
    Ok((head, Stored::Tenant { keys, variables, webhooks }))
}

impl Stored {
    /// Where what is stored is not what the events say; an error if they can't be replayed.
    fn differences(&self, events: &[Event]) -> Result<Vec<String>, String> {
        let differs = |what: &str, differs: bool| match differs {
            true => vec![format!("the stored {what} is not what its trail says")],
            false => vec![],
        };
        Ok(match self {
            Self::Page(outcome) => differs("page", replay_page(events)? != *outcome),
            Self::Purchase(purchase) => {
                differs("purchase", Purchase::replay(events)? != purchase.as_deref().cloned())
            }
            Self::Erasure(erasure) => {
                differs("erasure", Erasure::replay(events)? != erasure.as_deref().cloned())
            }
            Self::ClosedTenant => vec![],
            Self::Breaker(breaker) => differs("breaker", !is_breaker(breaker, &replay_breaker(events)?)),
            Self::DeadLetter(stored) => {
                let replayed = replay_dead_letter(events)?;
                let is_right = match (stored, &replayed) {
                    (Some(stored), Some(replayed)) => is_dead_letter(stored, replayed),
                    (stored, replayed) => stored.is_none() && replayed.is_none(),
                };
                differs("dead letter", !is_right)
            }
            Self::Tenant { keys, variables, webhooks } => {
                let replayed = replay_tenant(events)?;
                let wrong_keys = replayed.keys.iter().filter(|(id, revoked)| keys.get(*id) != Some(revoked));
                let wrong_variables =
                    replayed.variables.iter().filter(|(name, is_set)| variables.contains(*name) != **is_set);
                let keys = wrong_keys.map(|(id, _)| format!("key {id} is not what the trail says"));
                let variables = wrong_variables.map(|(name, _)| format!("{name} is not what the trail says"));
                let wrong_webhooks =
                    replayed.webhooks.iter().filter(|(id, exists)| webhooks.contains(*id) != **exists);
                let webhooks =
                    wrong_webhooks.map(|(id, _)| format!("webhook {id} is not what the trail says"));
                keys.chain(variables).chain(webhooks).collect()
            }
        })
    }
}

/// Whether a breaker is what its events say, as far as they do.
fn is_breaker(breaker: &Breaker, replayed: &ReplayedBreaker) -> bool {
    let (until, holder) = match &breaker.state {
        State::Closed => (None, None),
        State::Open { until } => (Some(*until), None),
        State::HalfOpen { probe, .. } => (None, probe.as_ref().map(|probe| probe.holder.clone())),
    };
    // Failures of a closed breaker are no events, and after a while they expire with a new generation.
    let is_closed = breaker.state == State::Closed;
    let is_generation = |generation: u64| match is_closed {
        true => breaker.generation >= generation,
        false => breaker.generation == generation,
    };
    breaker.state.name() == replayed.state
        && until == replayed.until
        && (holder.is_none() || holder == replayed.holder)
        && breaker.trips == replayed.trips
        && (is_closed || breaker.cause == replayed.cause)
        && replayed.misconfigured.is_none_or(|misconfigured| breaker.misconfigured == misconfigured)
        && replayed.generation.is_none_or(is_generation)
}

/// Whether a dead letter is what its events say.
fn is_dead_letter(stored: &DeadLetter, replayed: &ReplayedDeadLetter) -> bool {
    let as_replayed = ReplayedDeadLetter {
        tenant: stored.tenant.clone(),
        correlation_id: stored.correlation_id.clone(),
        subject: stored.subject.clone(),
        reason: stored.reason.clone(),
        receive_count: stored.receive_count,
        redrive_count: Some(stored.redrive_count),
        priority: Some(stored.priority),
        first_at: stored.first_at,
        last_at: stored.last_at,
        redriven_at: stored.redriven_at,
        revived: stored.revived,
        purged: stored.purged,
        is_exact: true,
    };
    if replayed.is_exact {
        return as_replayed == *replayed;
    }
    let said = |of: &ReplayedDeadLetter| ReplayedDeadLetter {
        redrive_count: None,
        priority: None,
        first_at: Timestamp::UNIX_EPOCH,
        last_at: Timestamp::UNIX_EPOCH,
        redriven_at: of.redriven_at.map(|_| Timestamp::UNIX_EPOCH),
        revived: None,
        is_exact: false,
        ..of.clone()
    };
    said(&as_replayed) == said(replayed)
}

/// Everything that has events of a tenant. Pages are verified with their jobs and not listed.
pub async fn aggregates(store: &Store, tenant: &TenantId) -> Result<BTreeSet<Aggregate>, Fault> {
    let (mut found, mut after) = (BTreeSet::new(), None);
    loop {
        let page = listing::tenant_events(store, tenant, after, BATCH_SIZE, |_| true).await?;
        found.extend(page.items.into_iter().map(|event| event.aggregate));
        after = page.next;
        if after.is_none() {
            found.retain(|aggregate| !matches!(aggregate, Aggregate::Page(..)));
            return Ok(found);
        }
    }
}
