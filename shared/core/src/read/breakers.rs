//! The store of circuit breakers, which all workers share.
//!
//! Reads are cached for a second, and a healthy call writes nothing. When the store can't be
//! reached the call goes ahead: a breaker saves money and time, and must not cost a page.

use std::sync::Arc;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tracing::warn;

use crate::{
    event::{Actor, Aggregate, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, EventId, TenantId},
    invariants,
    keys::record,
    notices::{self, NewNotice},
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
    },
    providers::target::{Provider, Target},
    read::{
        breaker::{Admission, Breaker, FailureKind, Pass, Urgency, event_between},
        telemetry,
    },
    records::{Versioned, decode, encode},
    settings::{BreakerPolicy as Policy, Settings},
    time::after,
};

const CACHED_FOR: Duration = Duration::from_secs(1);
/// Retries, and the first pause, when another process writes the same breaker.
const CONTENTION_RETRIES: u32 = 5;
const CONTENTION_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    breaker: Breaker,
    head: Head,
}

/// The circuit breakers as one process sees them.
#[derive(Clone)]
pub struct Breakers {
    pub store: Store,
    pub settings: Arc<Settings>,
    cache: Arc<Cache>,
}

impl Breakers {
    pub fn new(store: Store, settings: Arc<Settings>) -> Self {
        Self { store, settings, cache: Arc::default() }
    }
}

/// Breakers that this process has read within the last second.
#[derive(Default)]
struct Cache {
    read: Mutex<HashMap<String, (Timestamp, Breaker)>>,
    /// When a success last asked for a breaker that was not cached.
    asked: Mutex<HashMap<String, Timestamp>>,
}

impl Cache {
    /// The breaker as it was read within the last second, if it was.
    async fn recent(&self, name: &str, now: Timestamp) -> Option<Breaker> {
        let read = self.read.lock().await;
        read.get(name).filter(|(at, _)| now < after(*at, CACHED_FOR)).map(|(_, breaker)| breaker.clone())
    }

    /// The breaker as it was read last, however long ago.
    async fn known(&self, name: &str) -> Option<Breaker> {
        self.read.lock().await.get(name).map(|(_, breaker)| breaker.clone())
    }

    /// Whether a success has to look at the breaker: the first one that finds it uncached has it read, for all that
    /// follow within a second.
    async fn is_due(&self, name: &str, now: Timestamp) -> bool {
        if self.recent(name, now).await.is_some() {
            return true;
        }
        let mut asked = self.asked.lock().await;
        let is_due = asked.get(name).is_none_or(|at| now >= after(*at, CACHED_FOR));
        if is_due {
            asked.insert(name.to_owned(), now);
        }
        is_due
    }

    async fn put(&self, name: &str, now: Timestamp, breaker: Breaker) {
        self.read.lock().await.insert(name.to_owned(), (now, breaker));
    }
}

/// What a breaker guards: one model, or a whole provider (for a bad API key).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guarded {
    Model(Target),
    Provider(Provider),
}

impl Guarded {
    pub fn name(&self) -> String {
        match self {
            Self::Model(target) => target.to_string(),
            Self::Provider(provider) => format!("{provider}:*"),
        }
    }
}

/// A breaker as it is stored, and the head of its trail.
pub async fn stored(store: &Store, name: &str) -> Result<(Breaker, Head), Fault> {
    let item = store.records.get(&record::breaker(name)).await?;
    let found = item.as_ref().map(decode::<Record>).transpose()?.map(|found| found.value).unwrap_or_default();
    Ok((found.breaker, found.head))
}

async fn load(breakers: &Breakers, name: &str) -> Result<Versioned<Record>, Fault> {
    let item = breakers.store.records_once.get(&record::breaker(name)).await?;
    let kept = item.as_ref().map(decode::<Record>).transpose()?;
    Ok(kept.unwrap_or(Versioned { value: Record::default(), version: 0 }))
}

/// Whether the breakers would admit a call to this model now. Answers from the cache where it can, else
/// reads the breakers of all `steps` in one request, since those may be needed next.
pub async fn lets_through(breakers: &Breakers, target: &Target, steps: &[Target], urgency: Urgency) -> bool {
    if let Err((unknown, fault)) = refresh(breakers, target, steps).await {
        unknown.iter().for_each(|guarded| fail_open(guarded, &fault));
    }
    let now = breakers.store.clock.now();
    for guarded in guards(target) {
        if let Some(breaker) = breakers.cache.recent(&guarded.name(), now).await
            && !breaker.lets_through(urgency, now, &breakers.settings.breaker)
        {
            return false;
        }
    }
    true
}

/// The breakers that must admit a call to this model.
fn guards(target: &Target) -> [Guarded; 2] {
    [Guarded::Provider(target.provider), Guarded::Model(target.clone())]
}

/// Reads the breakers of all `steps` in one request, unless those of `target` are cached.
async fn refresh(
    breakers: &Breakers,
    target: &Target,
    steps: &[Target],
) -> Result<(), (Vec<Guarded>, Fault)> {
    let now = breakers.store.clock.now();
    let mut unknown = Vec::new();
    for guarded in guards(target) {
        if breakers.cache.recent(&guarded.name(), now).await.is_none() {
            unknown.push(guarded);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<String> = steps.iter().flat_map(guards).map(|guarded| guarded.name()).collect();
    let keys: Vec<Key> = names.iter().map(|name| record::breaker(name)).collect();
    let read = async {
        let items = breakers.store.records_once.get_many(&keys).await?;
        items.iter().map(|item| item.as_ref().map(decode::<Record>).transpose()).collect()
    };
    let read: Result<Vec<Option<Versioned<Record>>>, Fault> = read.await;
    let read = read.map_err(|fault| (unknown, fault))?;
    let now = breakers.store.clock.now();
    for (name, kept) in names.iter().zip(read) {
        let breaker = kept.map(|kept| kept.value.breaker).unwrap_or_default();
        breakers.cache.put(name, now, breaker).await;
    }
    Ok(())
}

fn fail_open(guarded: &Guarded, fault: &Fault) {
    telemetry::breaker_ignored(guarded);
    warn!(breaker = guarded.name(), %fault, "breaker store not reached, the call goes ahead");
}

/// Passes for one call: the model's and its provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    model: Option<Pass>,
    provider: Option<Pass>,
}

impl Passes {
    fn of(&self, target: &Target) -> [(Guarded, &Option<Pass>); 2] {
        [(Guarded::Model(target.clone()), &self.model), (Guarded::Provider(target.provider), &self.provider)]
    }
}

/// Takes the passes for a call of at most `timeout`; `None` when a breaker refuses.
pub async fn admit(
    breakers: &Breakers,
    target: &Target,
    holder: &str,
    urgency: Urgency,
    timeout: Duration,
) -> Option<Passes> {
    let policy = breakers.settings.breaker.with_call_timeout(timeout);
    // Both in one request; where that fails, one by one below.
    let _ = refresh(breakers, target, std::slice::from_ref(target)).await;
    let provider = admit_one(breakers, &Guarded::Provider(target.provider), holder, urgency, &policy).await?;
    let model = admit_one(breakers, &Guarded::Model(target.clone()), holder, urgency, &policy).await;
    let Some(model) = model else {
        given_up(breakers, target, &Passes { model: None, provider }).await;
        return None;
    };
    Some(Passes { model, provider })
}

/// Reports a call that was not made, or that we cut short: a probe is released for another worker.
pub async fn given_up(breakers: &Breakers, target: &Target, passes: &Passes) {
    for (guarded, pass) in passes.of(target) {
        if let Some(pass) = pass.as_ref().filter(|pass| pass.probe) {
            report(breakers, &guarded, |breaker, now| breaker.given_up(pass, now), None).await;
        }
    }
}

/// Outer `None`: refused. Inner `None`: the store could not be reached, and the call goes ahead without a pass.
async fn admit_one(
    breakers: &Breakers,
    guarded: &Guarded,
    holder: &str,
    urgency: Urgency,
    policy: &Policy,
) -> Option<Option<Pass>> {
    let name = guarded.name();
    let mut tries = 0;
    loop {
        let now = breakers.store.clock.now();
        // A closed breaker that was read within the last second admits the call.
        if let Some(breaker) = breakers.cache.recent(&name, now).await
            && let Admission::Go(pass) = breaker.admit(holder, urgency, now, policy)
        {
            return Some(Some(pass));
        }
        let kept = match load(breakers, &name).await {
            Ok(kept) => kept,
            Err(fault) => {
                fail_open(guarded, &fault);
                return Some(None);
            }
        };
        match kept.value.breaker.admit(holder, urgency, now, policy) {
            Admission::Go(pass) => {
                breakers.cache.put(&name, now, kept.value.breaker).await;
                return Some(Some(pass));
            }
            Admission::Refused => {
                breakers.cache.put(&name, now, kept.value.breaker).await;
                return None;
            }
            Admission::Probe { pass, next } => match store(breakers, guarded, &kept, next, None).await {
                Ok(true) => return Some(Some(pass)),
                // Another worker took the probe, or the breaker changed.
                Ok(false) => continue,
                Err(fault) if contended(breakers, &fault, &mut tries).await => continue,
                Err(fault) => {
                    fail_open(guarded, &fault);
                    return Some(None);
                }
            },
        }
    }
}

/// Reports a success: closes a half-open breaker, resets the failure count, which other processes may have raised
/// while the call was in flight. Returns whether a breaker closed: pages may be waiting for that.
pub async fn succeeded(breakers: &Breakers, target: &Target, passes: &Passes) -> bool {
    let is_probe = passes.of(target).iter().any(|(_, pass)| pass.as_ref().is_some_and(|pass| pass.probe));
    if !is_probe
        && !breakers.cache.is_due(&Guarded::Model(target.clone()).name(), breakers.store.clock.now()).await
    {
        return false;
    }
    // Both in one request; where that fails, one by one below. The next call finds them cached.
    let _ = refresh(breakers, target, std::slice::from_ref(target)).await;
    let mut has_closed = false;
    for (guarded, pass) in passes.of(target) {
        let Some(pass) = pass else { continue };
        let step = |breaker: &Breaker, now| breaker.succeeded(pass, now, &breakers.settings.breaker);
        has_closed |= report(breakers, &guarded, step, None).await && pass.probe;
    }
    has_closed
}

/// When the breakers admit a call to this model, and whether a person must change the settings first; `None`
/// when they do now. Answers from what was read last.
pub async fn available_at(
    breakers: &Breakers,
    target: &Target,
    urgency: Urgency,
) -> Option<(Timestamp, bool)> {
    let (now, policy) = (breakers.store.clock.now(), &breakers.settings.breaker);
    let (mut latest, mut is_misconfigured) = (None, false);
    for guarded in guards(target) {
        if let Some(breaker) = breakers.cache.known(&guarded.name()).await {
            is_misconfigured |= breaker.current(now, policy).is_confirmed_misconfigured();
            latest = latest.max(breaker.available_at(urgency, now, policy));
        }
    }
    latest.map(|at| (at, is_misconfigured))
}

/// Whether the model has answered after failures since `time`, by what was read last.
pub async fn has_recovered_since(breakers: &Breakers, target: &Target, time: Timestamp) -> bool {
    let known = breakers.cache.known(&Guarded::Model(target.clone()).name()).await;
    known.is_some_and(|breaker| breaker.has_recovered_since(time))
}

/// Openings in a row of the model's breaker, by what was read last.
pub async fn trips(breakers: &Breakers, target: &Target) -> u32 {
    let known = breakers.cache.known(&Guarded::Model(target.clone()).name()).await;
    known.map_or(0, |breaker| breaker.current(breakers.store.clock.now(), &breakers.settings.breaker).trips)
}

/// Reports a failure of the model, or of the whole provider. Returns whether it changed the breaker: a
/// failure of an outage that opened it already does not.
pub async fn failed(
    breakers: &Breakers,
    target: &Target,
    passes: &Passes,
    whole_provider: bool,
    kind: FailureKind,
    cause: &str,
    notice: Option<&NewNotice>,
) -> bool {
    let [model, provider] = passes.of(target);
    let ((guarded, pass), (other, unjudged)) =
        if whole_provider { (provider, model) } else { (model, provider) };
    // The failure is no result for the other breaker's probe: another worker may send it.
    if let Some(pass) = unjudged.as_ref().filter(|pass| pass.probe) {
        report(breakers, &other, |breaker, now| breaker.given_up(pass, now), None).await;
    }
    match pass {
        None => false,
        Some(pass) => {
            report(
                breakers,
                &guarded,
                |breaker, now| breaker.failed(pass, kind, cause, now, &breakers.settings.breaker),
                notice,
            )
            .await
        }
    }
}

/// Applies `step` to the stored breaker until the change is written (true) or there is none (false).
async fn report(
    breakers: &Breakers,
    guarded: &Guarded,
    step: impl Fn(&Breaker, Timestamp) -> Option<Breaker>,
    notice: Option<&NewNotice>,
) -> bool {
    let name = guarded.name();
    // A cached breaker that the step does not change need not be read again.
    if let Some(breaker) = breakers.cache.recent(&name, breakers.store.clock.now()).await
        && step(&breaker, breakers.store.clock.now()).is_none()
    {
        return false;
    }
    let mut tries = 0;
    loop {
        let kept = match load(breakers, &name).await {
            Ok(kept) => kept,
            Err(fault) => {
                fail_open(guarded, &fault);
                return false;
            }
        };
        let now = breakers.store.clock.now();
        let Some(next) = step(&kept.value.breaker, now) else {
            breakers.cache.put(&name, now, kept.value.breaker).await;
            return false;
        };
        match store(breakers, guarded, &kept, next, notice).await {
            Ok(true) => return true,
            Ok(false) => continue,
            Err(fault) if contended(breakers, &fault, &mut tries).await => continue,
            Err(fault) => {
                fail_open(guarded, &fault);
                return false;
            }
        }
    }
}

/// Waits before a retry when the store rejected a write because of a conflicting transaction, as DynamoDB
/// does. The store was reached: failing open here would let every worker probe.
async fn contended(breakers: &Breakers, fault: &Fault, tries: &mut u32) -> bool {
    let retry = matches!(fault, Fault::Throttled { .. }) && *tries < CONTENTION_RETRIES;
    if retry {
        *tries += 1;
        breakers.store.clock.sleep(CONTENTION_PAUSE * *tries).await;
    }
    retry
}

/// Writes the next state with its event; false when the record has changed meanwhile.
async fn store(
    breakers: &Breakers,
    guarded: &Guarded,
    kept: &Versioned<Record>,
    next: Breaker,
    notice: Option<&NewNotice>,
) -> Result<bool, Fault> {
    let name = guarded.name();
    let now = breakers.store.clock.now();
    invariants::assert(|| {
        let current = kept.value.breaker.current(now, &breakers.settings.breaker);
        super::invariants::one_probe(&kept.value.breaker, &next, now, Duration::ZERO)?;
        super::invariants::probed_late_enough(&current, &next)?;
        super::invariants::opened_once(&current, &next)
    });
    let mut head = kept.value.head.clone();
    let mut changes = Vec::with_capacity(2);
    let moved = event_between(&kept.value.breaker, &next);
    if let Some(event) = &moved {
        // Breakers are shared by all tenants; their events belong to the installation.
        let tenant = TenantId::new(breakers.settings.tenant.clone());
        let metadata = Metadata::untraced(tenant, None, Actor::Worker, &breakers.store.environment);
        let (event, next_head) = head.append(
            Aggregate::Breaker(name.clone()),
            EventId::new(breakers.store.ids.fresh()),
            event,
            now,
            CorrelationId::new(format!("breaker/{name}")),
            metadata,
        );
        changes.push(trail::append(&breakers.store, &event)?);
        head = next_head;
        if let Some(notice) = notice {
            changes.push(notices::change(&breakers.store, notice)?);
        }
    }
    let when = if kept.version == 0 { When::Absent } else { When::Version(kept.version) };
    let body = encode(&Record { breaker: next.clone(), head })?;
    // No `expires`: the trail's head must outlive the breaker's ten minutes, which `current` counts.
    changes.insert(0, Change::Put { draft: Draft::new(record::breaker(&name), body), when });
    let written = breakers.store.write_once(changes).await?;
    if written == Written::Applied {
        breakers.cache.put(&name, now, next).await;
        if let Some(event) = &moved {
            telemetry::breaker_moved(guarded, event);
        }
    }
    Ok(written == Written::Applied)
}

/// Every stored breaker, as it is effective now.
pub async fn all(breakers: &Breakers) -> Result<Vec<(String, Breaker)>, Fault> {
    let listing = breakers.store.records.list(record::BREAKERS, "", None, 1000).await?;
    let now = breakers.store.clock.now();
    listing
        .items
        .iter()
        .map(|item| {
            let record: Record = decode(item)?.value;
            Ok((item.draft.key.sort.clone(), record.breaker.current(now, &breakers.settings.breaker)))
        })
        .collect()
}
