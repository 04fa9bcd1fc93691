//! API keys: who may come in. Only the SHA-256 of a key is kept, and it is found by that.

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
    tenants::caller::Caller,
};

/// Every key begins so, for people and for scanners that look for leaked ones.
pub const PREFIX: &str = "ep_";

/// Dice of 64 bits in a key: with 192 bits nobody guesses one, so a plain hash is enough at rest.
const DICE: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Names the key where it is listed and revoked; not part of the secret.
    pub id: String,
    #[serde(flatten)]
    pub caller: Caller,
    /// What people call it.
    pub label: String,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Where a tenant's list points to.
#[derive(Serialize, Deserialize)]
struct Pointer {
    sha256: String,
}

/// Listed for all tenants together, and still when it is revoked.
fn draft(sha256: &str, made: &ApiKey) -> Result<Draft, Fault> {
    let listed = IndexEntry::new(index::API_KEYS, made.id.clone());
    Ok(Draft { state_index: Some(listed), ..Draft::new(record::api_key(sha256), encode(made)?) })
}

/// Was a key ever made here, for whatever tenant? Where one was, nobody comes in without.
pub async fn any(store: &Store) -> Result<bool, Fault> {
    Ok(!store.records.list_index(Index::State, index::API_KEYS, None, false, 1).await?.items.is_empty())
}

/// Makes a key. The secret is in the answer and nowhere else: it can't be shown again.
pub async fn create(store: &Store, caller: Caller, label: &str) -> Result<(ApiKey, Secret), Fault> {
    let dice: String = (0..DICE).map(|_| format!("{:016x}", store.ids.roll(u64::MAX))).collect();
    let secret = format!("{PREFIX}{dice}");
    let sha256 = sha256_hex(secret.as_bytes());
    let made = ApiKey {
        id: store.ids.fresh(),
        caller,
        label: label.to_owned(),
        created_at: store.clock.now(),
        revoked_at: None,
    };
    let changes = vec![
        Change::Put { draft: draft(&sha256, &made)?, when: When::Absent },
        Change::Put {
            draft: Draft::new(
                record::tenant_api_key(&made.caller.tenant, &made.id),
                encode(&Pointer { sha256 })?,
            ),
            when: When::Absent,
        },
    ];
    match store.write(changes).await? {
        Written::Applied => Ok((made, Secret::new(secret))),
        Written::Refused { .. } => Err(Fault::broken("ids", "the same key was made twice")),
    }
}

/// The key whose secret this is, unless it was revoked. Looked up by hash, so that no comparison
/// tells by its time how much of a guess was right.
pub async fn find(store: &Store, secret: &str) -> Result<Option<ApiKey>, Fault> {
    if !secret.starts_with(PREFIX) {
        return Ok(None);
    }
    let item = store.records.get(&record::api_key(&sha256_hex(secret.as_bytes()))).await?;
    let found: Option<Versioned<ApiKey>> = item.as_ref().map(decode).transpose()?;
    Ok(found.map(|kept| kept.value).filter(|found| found.revoked_at.is_none()))
}

/// A tenant's keys, oldest first, revoked ones among them.
pub async fn list(store: &Store, tenant: &TenantId) -> Result<Vec<ApiKey>, Fault> {
    let pointers: Vec<Versioned<Pointer>> =
        read_all(store.records.as_ref(), &record::tenant_partition(tenant), record::TENANT_API_KEYS).await?;
    let keys: Vec<Key> = pointers.iter().map(|kept| record::api_key(&kept.value.sha256)).collect();
    let items = store.records.get_many(&keys).await?;
    items.iter().flatten().map(|item| Ok(decode(item)?.value)).collect()
}

/// From now on the key opens nothing; revoking it again changes nothing. `None` when the tenant
/// has no key of that id.
pub async fn revoke(store: &Store, tenant: &TenantId, id: &str) -> Result<Option<ApiKey>, Fault> {
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
        if store.write(vec![Change::Put { draft, when: When::Version(found.version) }]).await?
            == Written::Applied
        {
            return Ok(Some(revoked));
        }
    }
}
