//! Sends the notices that are due, each group as one message.

use std::{collections::BTreeMap, time::Duration};

use futures::FutureExt;
use jiff::Timestamp;
use tracing::warn;

use super::{
    NoticeRecord, Notices, Progress, notice,
    store::{self, Group, GroupKey},
};
use crate::{
    ports::{
        Fault,
        notifier::{Notice, SEND_TIMEOUT},
    },
    records::Versioned,
    tenants,
    time::{after, until, within},
};

/// Lease of a group while it is sent: when it expires, the sender is gone.
const LEASE: Duration = Duration::from_secs(180);
/// Notices that are read in one pass; more are sent in the next.
const BATCH_SIZE: usize = 1000;
/// How often notices that other processes stored are looked up.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Sends every group that is due once; returns when the next one is due, if that is known.
pub async fn send_due(notices: &Notices) -> Result<Option<Timestamp>, Fault> {
    let now = notices.store.clock.now();
    let mut groups: BTreeMap<GroupKey, Vec<String>> = BTreeMap::new();
    let mut next: Option<Timestamp> = None;
    for notice in store::waiting(&notices.store, BATCH_SIZE).await? {
        if notice.due <= now {
            groups.entry(GroupKey::of(&notice)).or_default().push(notice.id);
        } else {
            next = earliest(next, Some(notice.due));
        }
    }
    let mut first_fault = None;
    for (key, ids) in groups {
        match send_group(notices, &key, &ids).await {
            Ok(later) => next = earliest(next, later),
            Err(fault) => {
                first_fault.get_or_insert(fault);
            }
        }
    }
    first_fault.map_or(Ok(next), Err)
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// Sends the notices of a group as one message; returns when it is due again, if something is left.
async fn send_group(notices: &Notices, key: &GroupKey, ids: &[String]) -> Result<Option<Timestamp>, Fault> {
    let store = &notices.store;
    let now = store.clock.now();
    let group = store::group(store, key).await?;
    if let Some(leased_until) = group.value.leased_until.filter(|until| now < *until) {
        return Ok(Some(leased_until));
    }
    let quiet_until = group.value.last_sent_at.map(|at| after(at, key.kind.quiet_time()));
    if let Some(quiet_until) = quiet_until.filter(|until| now < *until) {
        return Ok(Some(quiet_until));
    }
    let leased = Group { leased_until: Some(after(now, LEASE)), ..group.value };
    let Some(leased) = store::save_group(store, key, group.version, leased).await? else { return Ok(None) };
    // The index lags behind: some of them may be sent.
    let mut waiting = store::current(store, &key.tenant, ids).await?;
    waiting.retain(|notice| notice.value.progress == Progress::Waiting);
    waiting.sort_by(|a, b| (a.value.at, &a.value.id).cmp(&(b.value.at, &b.value.id)));
    let attempted = send_by_each_channel(notices, key, waiting).await;
    let was_sent = attempted.iter().any(|(before, next)| next.sent_by.len() > before.value.sent_by.len());
    store::save_all(store, &attempted).await?;
    let last_sent_at = if was_sent { Some(now) } else { leased.value.last_sent_at };
    // Refused only if the lease expired and another process sends: then that one writes it.
    store::save_group(store, key, leased.version, Group { last_sent_at, leased_until: None }).await?;
    Ok(attempted
        .iter()
        .filter(|(_, next)| next.progress == Progress::Waiting)
        .map(|(_, next)| next.due)
        .min())
}

/// Sends the notices by every channel that has not taken them; returns each with its new state.
async fn send_by_each_channel(
    notices: &Notices,
    key: &GroupKey,
    waiting: Vec<Versioned<NoticeRecord>>,
) -> Vec<(Versioned<NoticeRecord>, NoticeRecord)> {
    let mut sent_by: Vec<_> = waiting.iter().map(|notice| notice.value.sent_by.clone()).collect();
    let mut errors: Vec<Option<String>> = vec![None; waiting.len()];
    let settings = tenants::settings(&notices.tenants, &key.tenant).await;
    let responsible = settings.ok().and_then(|settings| settings.responsible.clone());
    for notifier in &notices.notifiers {
        let channel = notifier.channel();
        let left: Vec<usize> = (0..waiting.len()).filter(|at| !sent_by[*at].contains(&channel)).collect();
        let records: Vec<&NoticeRecord> = left.iter().map(|at| &waiting[*at].value).collect();
        let Some(first) = records.first() else { continue };
        let (subject, body) = notice::message(&records);
        let notice = Notice {
            id: first.id.clone(),
            tenant: key.tenant.clone(),
            kind: key.kind,
            responsible: responsible.clone(),
            subject,
            body,
        };
        let clock = notices.store.clock.as_ref();
        let timeout = || Err(Fault::unreachable("notifier", format!("{channel}: no answer in time")));
        match within(clock, SEND_TIMEOUT, notifier.notify(&notice)).await.unwrap_or_else(timeout) {
            Ok(()) => left.iter().for_each(|at| sent_by[*at].push(channel)),
            Err(fault) => {
                warn!(%fault, %channel, tenant = %key.tenant, kind = %key.kind, "notice not sent yet");
                left.iter().for_each(|at| errors[*at] = Some(format!("{channel}: {fault}")));
            }
        }
    }
    let now = notices.store.clock.now();
    let attempts = waiting.into_iter().zip(sent_by).zip(errors);
    attempts
        .map(|((before, sent_by), error)| {
            let next = before.value.attempted(sent_by, error, now);
            (before, next)
        })
        .collect()
}

/// Sends notices as they become due, until it is dropped.
pub async fn run(notices: &Notices) {
    loop {
        let pause = match send_due(notices).await {
            Ok(next) => {
                next.map_or(POLL_INTERVAL, |next| until(notices.store.clock.now(), next).min(POLL_INTERVAL))
            }
            Err(fault) => {
                warn!(%fault, "notices not sent yet");
                POLL_INTERVAL
            }
        };
        tokio::select! {
            biased;
            () = notices.store.notice_stored.notified() => {}
            () = notices.store.clock.sleep(pause.max(Duration::from_millis(100))) => {}
        }
    }
}

/// Sends the notices that this process has stored, if any, for a process that ends or is frozen. What can't
/// be sent within `time` is sent by another process.
pub async fn flush(notices: &Notices, time: Duration) {
    if notices.store.notice_stored.notified().now_or_never().is_none() {
        return;
    }
    match within(notices.store.clock.as_ref(), time, send_due(notices)).await {
        Some(Ok(_)) => {}
        Some(Err(fault)) => warn!(%fault, "notices not sent yet"),
        None => warn!("notices not sent yet: no answer in time"),
    }
}
