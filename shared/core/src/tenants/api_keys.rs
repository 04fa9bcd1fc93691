//! API keys. Only the SHA-256 of a key is stored, and the key is looked up by that.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    digest::sha256_hex,
    events::Store,
    ids::TenantId,
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
    records::{Versioned, decode, encode, read_all},
    secret::Secret,
    tenants::{
        administration::{self, ActError, AdministrationEvent},
        caller::Caller,
    },
};

/// The start of every key, by which people and secret scanners recognize one.
pub const PREFIX: &str = "ep_";

/// Random numbers of 64 bits in a key: 192 bits can't be guessed, so a plain hash is enough in storage.
const RANDOM_NUMBERS: usize = 3;

/// Tries to store a key while other acts of administration are recorded.
const MAX_TRIES: usize = 20;

/// Keys that are read together when all are erased.
const ERASED_TOGETHER: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Identifies the key in lists and when it is revoked; not part of the secret.
    pub id: String,
    #[serde(flatten)]
    pub caller: Caller,
    /// A name for people.
    pub label: String,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// An entry of a tenant's list of keys.
#[derive(Serialize, Deserialize)]
struct Pointer {
    sha256: String,
}

/// Lists the key among those of all tenants, also after it was revoked.
fn draft(sha256: &str, key: &ApiKey) -> Result<Draft, Fault> {
    let listed = IndexEntry::new(index::API_KEYS, key.id.clone());
    Ok(Draft { state_index: Some(listed), ..Draft::new(record::api_key(sha256), encode(key)?) })
}

/// Whether a key was ever created, for any tenant. If so, every request needs one.
pub async fn any_exist(store: &Store) -> Result<bool, Fault> {
    Ok(!store.records.list_index(Index::State, index::API_KEYS, None, false, 1).await?.items.is_empty())
}

/// Creates a key on behalf of `by`. The secret is only in the return value: it can't be shown again.
pub async fn create(
    store: &Store,
    caller: Caller,
    label: &str,
    by: &str,
) -> Result<(ApiKey, Secret), ActError> {
    let random: String =
        (0..RANDOM_NUMBERS).map(|_| format!("{:016x}", store.ids.random_below(u64::MAX))).collect();
    let secret = format!("{PREFIX}{random}");
    let sha256 = sha256_hex(secret.as_bytes());
    let key = ApiKey {
        id: store.ids.fresh(),
        caller,
        label: label.to_owned(),
        created_at: store.clock.now(),
        revoked_at: None,
    };
    let tenant = &key.caller.tenant;
    let pointer =
        Draft::new(record::tenant_api_key(tenant, &key.id), encode(&Pointer { sha256: sha256.clone() })?);
    let created = AdministrationEvent::KeyCreated {
        key: key.id.clone(),
        user: key.caller.user.clone(),
        role: key.caller.role,
    };
    // Refused only if another act of administration was recorded in between.
    for _ in 0..MAX_TRIES {
        let mut changes = vec![
            Change::Put { draft: draft(&sha256, &key)?, when: When::Absent },
            Change::Put { draft: pointer.clone(), when: When::Absent },
        ];
        changes.extend(administration::changes_if_open(store, tenant, by, created.clone()).await?);
        if store.write(changes).await? == Written::Applied {
            return Ok((key, Secret::new(secret)));
        }
    }
    Err(Fault::Throttled { service: "records", retry_after: None }.into())
}

/// Finds the key with this secret, unless it was revoked. It is looked up by its hash, so that the
/// time of a comparison reveals nothing about the secret.
pub async fn find(store: &Store, secret: &str) -> Result<Option<ApiKey>, Fault> {
    if !secret.starts_with(PREFIX) {
        return Ok(None);
    }
    let item = store.records.get(&record::api_key(&sha256_hex(secret.as_bytes()))).await?;
    let found: Option<Versioned<ApiKey>> = item.as_ref().map(decode).transpose()?;
    Ok(found.map(|key| key.value).filter(|found| found.revoked_at.is_none()))
}

/// Revokes every key of a tenant that is erased, and deletes their names and users. The
/// hashes stay: with no key at all, requests would need none.
pub async fn erase(store: &Store, tenant: &TenantId, by: &str) -> Result<(), Fault> {
    let partition = record::tenant_partition(tenant);
    loop {
        let listing = store.records.list(&partition, record::TENANT_API_KEYS, None, ERASED_TOGETHER).await?;
        if listing.items.is_empty() {
            return Ok(());
        }
        for item in listing.items {
            let pointer: Pointer = decode(&item)?.value;
            let mut changes = vec![Change::Delete { key: item.draft.key, version: item.version }];
            if let Some(item) = store.records.get(&record::api_key(&pointer.sha256)).await? {
                let found: Versioned<ApiKey> = decode(&item)?;
                if found.value.revoked_at.is_none() {
                    let event = AdministrationEvent::KeyRevoked { key: found.value.id.clone() };
                    changes.extend(administration::changes(store, tenant, by, event).await?);
                }
                let erased = ApiKey {
                    caller: Caller { user: String::new(), ..found.value.caller },
                    label: String::new(),
                    revoked_at: found.value.revoked_at.or_else(|| Some(store.clock.now())),
                    ..found.value
                };
                let draft = draft(&pointer.sha256, &erased)?;
                changes.push(Change::Put { draft, when: When::Version(found.version) });
            }
            // Refused if another act was recorded in between: then the key is listed again.
            store.write(changes).await?;
        }
    }
}

/// Lists the keys of a tenant, oldest first, including revoked ones.
pub async fn list(store: &Store, tenant: &TenantId) -> Result<Vec<ApiKey>, Fault> {
    let pointers: Vec<Versioned<Pointer>> =
        read_all(store.records.as_ref(), &record::tenant_partition(tenant), record::TENANT_API_KEYS).await?;
    let keys: Vec<Key> = pointers.iter().map(|pointer| record::api_key(&pointer.value.sha256)).collect();
    let items = store.records.get_many(&keys).await?;
    items.iter().flatten().map(|item| Ok(decode(item)?.value)).collect()
}

/// Revokes a key; revoking it again changes nothing. Returns `None` if the tenant has no key with
/// that id.
pub async fn revoke(store: &Store, tenant: &TenantId, id: &str, by: &str) -> Result<Option<ApiKey>, Fault> {
    let Some(pointer) = store.records.get(&record::tenant_api_key(tenant, id)).await? else {
        return Ok(None);
    };
    let pointer: Pointer = decode(&pointer)?.value;
    loop {
        let Some(item) = store.records.get(&record::api_key(&pointer.sha256)).await? else {
            return Ok(None);
        };
        let found: Versioned<ApiKey> = decode(&item)?;
        if found.value.revoked_at.is_some() {
            return Ok(Some(found.value));
        }
        let revoked = ApiKey { revoked_at: Some(store.clock.now()), ..found.value };
        let draft = draft(&pointer.sha256, &revoked)?;
        let mut changes = vec![Change::Put { draft, when: When::Version(found.version) }];
        let event = AdministrationEvent::KeyRevoked { key: id.to_owned() };
        changes.extend(administration::changes(store, tenant, by, event).await?);
        if store.write(changes).await? == Written::Applied {
            return Ok(Some(revoked));
        }
    }
}
