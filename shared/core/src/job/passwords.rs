//! A document's password: stored sealed until the document is prepared, then deleted.

use crate::{
    events::Store,
    ids::JobId,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, When},
        vault::Vault,
    },
    records::{decode, encode},
    secret::Secret,
};

/// Opens the stored password; `None` if the job has none.
pub async fn open(store: &Store, vault: &dyn Vault, job: &JobId) -> Result<Option<Secret>, Fault> {
    let Some(item) = store.records.get(&record::password(job)).await? else {
        return Ok(None);
    };
    let sealed: String = decode(&item)?.value;
    Ok(Some(vault.open(&sealed).await?))
}

/// The write that deletes the password; `None` if the job has none.
pub async fn delete_change(store: &Store, job: &JobId) -> Result<Option<Change>, Fault> {
    let item = store.records.get(&record::password(job)).await?;
    Ok(item.map(|item| Change::Delete { key: record::password(job), version: item.version }))
}

/// The write that stores a password, replacing an earlier one.
pub async fn put_change(
    store: &Store,
    vault: &dyn Vault,
    job: &JobId,
    password: &Secret,
) -> Result<Change, Fault> {
    let before = store.records.get(&record::password(job)).await?;
    let sealed = vault.seal(password).await?;
    let when = before.map_or(When::Absent, |item| When::Version(item.version));
    Ok(Change::Put { draft: Draft::new(record::password(job), encode(&sealed)?), when })
}
