//! The store of notices and of their groups.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{NewNotice, NoticeRecord, Progress};
use crate::{
    events::Store,
    ids::TenantId,
    keys::{index, record},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, Item, Key, When, Written},
    },
    records::{self, ListPage, Versioned, decode, encode, read_index},
    time::after,
};

/// How long a notice is listed after it was stored.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the last message of a group is remembered: longer than every quiet time.
const GROUP_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The write that stores a notice, for a caller that stores it with the change that it is about.
pub fn change(store: &Store, new: &NewNotice) -> Result<Change, Fault> {
    let fresh = store.ids.fresh();
    // Under the id of what it is about, where it is found when that is deleted.
    let id = new.about.as_ref().map_or_else(|| fresh.clone(), |about| format!("{about}.{fresh}"));
    let notice = NoticeRecord::new(new, id, store.clock.now());
    Ok(Change::Put { draft: draft(&notice)?, when: When::Absent })
}

fn draft(notice: &NoticeRecord) -> Result<Draft, Fault> {
    let listed = index::by_time(notice.at, &notice.id);
    let state = match notice.progress {
        Progress::Waiting => IndexEntry::new(index::DUE_NOTICES, index::by_time(notice.due, &notice.id)),
        Progress::Sent | Progress::GivenUp => IndexEntry::new(index::ENDED_NOTICES, listed.clone()),
    };
    Ok(Draft {
        tenant_index: Some(IndexEntry::new(index::notices(&notice.tenant), listed)),
        state_index: Some(state),
        expires: (notice.progress != Progress::Waiting).then(|| after(notice.at, RETENTION)),
        ..Draft::new(record::notice(&notice.tenant, &notice.id), encode(notice)?)
    })
}

/// Lists notices of all tenants, newest first: those that wait, and up to `limit` in all.
pub async fn all(store: &Store, limit: usize) -> Result<Vec<NoticeRecord>, Fault> {
    let records = store.records.as_ref();
    let mut all: Vec<NoticeRecord> = Vec::new();
    for (partition, descending) in [(index::DUE_NOTICES, false), (index::ENDED_NOTICES, true)] {
        let listing = records.list_index(Index::State, partition, None, descending, limit).await?;
        for item in &listing.items {
            all.push(decode(item)?.value);
        }
    }
    all.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.id.cmp(&a.id)));
    all.truncate(limit);
    Ok(all)
}

/// Lists one page of a tenant's notices, newest first.
pub async fn list_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<NoticeRecord>, Fault> {
    let partition = index::notices(tenant);
    records::list_page(store.records.as_ref(), Index::Tenant, &partition, after, true, limit, |_| true).await
}

/// Deletes the notices of a tenant about what has this id, such as a job that is deleted, or about a part of it.
pub async fn delete_about(store: &Store, tenant: &TenantId, id: &str) -> Result<(), Fault> {
    let partition = record::notices_partition(tenant);
    let prefix = record::notice(tenant, id).sort;
    loop {
        let listing = store.records.list(&partition, &prefix, None, records::WRITE_BATCH).await?;
        if listing.items.is_empty() {
            return Ok(());
        }
        let delete = |item: Item| Change::Delete { key: item.draft.key, version: item.version };
        // Refused while one of them is being sent: then they are read again.
        store.write(listing.items.into_iter().map(delete).collect()).await?;
    }
}

/// Up to `limit` waiting notices, by the time when they are due. The index may lag behind.
pub(super) async fn waiting(store: &Store, limit: usize) -> Result<Vec<NoticeRecord>, Fault> {
    let all = read_index(
        store.records.as_ref(),
        Index::State,
        index::DUE_NOTICES,
        None,
        limit,
        |_: &NoticeRecord| true,
    )
    .await?;
    Ok(all.into_iter().map(|notice| notice.value).collect())
}

/// The notices with these ids as they are stored now.
pub(super) async fn current(
    store: &Store,
    tenant: &TenantId,
    ids: &[String],
) -> Result<Vec<Versioned<NoticeRecord>>, Fault> {
    let keys: Vec<Key> = ids.iter().map(|id| record::notice(tenant, id)).collect();
    store.records.get_many(&keys).await?.iter().flatten().map(decode).collect()
}

/// Stores notices that were sent or failed; one that was changed in between is left as it is.
pub(super) async fn save_all(
    store: &Store,
    notices: &[(Versioned<NoticeRecord>, NoticeRecord)],
) -> Result<(), Fault> {
    for batch in notices.chunks(records::WRITE_BATCH) {
        let changes = batch
            .iter()
            .map(|(before, next)| {
                Ok(Change::Put { draft: draft(next)?, when: When::Version(before.version) })
            })
            .collect::<Result<Vec<_>, Fault>>()?;
        if store.write(changes.clone()).await? != Written::Applied {
            for change in changes {
                store.write(vec![change]).await?;
            }
        }
    }
    Ok(())
}

/// Notices that are coalesced: of one tenant, one kind and one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub tenant: TenantId,
    pub kind: NoticeKind,
    pub topic: String,
}

impl GroupKey {
    pub fn of(notice: &NoticeRecord) -> Self {
        Self { tenant: notice.tenant.clone(), kind: notice.kind, topic: notice.topic.clone() }
    }

    fn record(&self) -> Key {
        record::notice_group(&self.tenant, self.kind.into(), &self.topic)
    }
}

/// When a group was last notified, and which process is doing so now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent_at: Option<Timestamp>,
    /// A process sends its notices until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<Timestamp>,
}

pub(super) async fn group(store: &Store, key: &GroupKey) -> Result<Versioned<Group>, Fault> {
    let found = store.records.get(&key.record()).await?.as_ref().map(decode).transpose()?;
    Ok(found.unwrap_or_default())
}

/// Stores a group that was `before`; `None` if another process changed it in between.
pub(super) async fn save_group(
    store: &Store,
    key: &GroupKey,
    before: u64,
    group: Group,
) -> Result<Option<Versioned<Group>>, Fault> {
    let when = if before == 0 { When::Absent } else { When::Version(before) };
    let expires = Some(after(store.clock.now(), GROUP_RETENTION));
    let draft = Draft { expires, ..Draft::new(key.record(), encode(&group)?) };
    let written = store.write(vec![Change::Put { draft, when }]).await?;
    Ok((written == Written::Applied).then_some(Versioned { value: group, version: when.next_version() }))
}
