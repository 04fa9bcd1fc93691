//! A document's password: sealed while intake needs it, then gone.

use crate::keys::record;
use crate::records::{decode, encode};
use crate::{
    app::App,
    ids::JobId,
    ports::{
        Fault,
        records::{Change, Draft, Key, When},
    },
    secret::Secret,
};

pub async fn open(app: &App, job: &JobId) -> Result<Option<Secret>, Fault> {
    let Some(item) = app.records.get(&record::password(job)).await? else {
        return Ok(None);
    };
    let sealed: String = decode(&item)?.value;
    Ok(Some(app.vault.open(&sealed).await?))
}

/// The write that forgets it, where there is one.
pub async fn forget(app: &App, job: &JobId) -> Result<Option<Change>, Fault> {
    let item = app.records.get(&record::password(job)).await?;
    Ok(item.map(|item| Change::Delete { key: record::password(job), version: item.version }))
}

/// The write that keeps a password for a job, in place of the one before.
pub async fn keep(app: &App, job: &JobId, password: &Secret) -> Result<Change, Fault> {
    let before = app.records.get(&record::password(job)).await?;
    let sealed = app.vault.seal(password).await?;
    let when = before.map_or(When::Absent, |item| When::Version(item.version));
    Ok(Change::Put { draft: Draft::new(record::password(job), encode(&sealed)?), when })
}
