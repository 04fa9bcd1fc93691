//! A document's password: sealed while intake needs it, then gone.

use super::{decode, encode};
use crate::{
    app::App,
    domain::{ids::JobId, secret::Secret},
    ports::{
        Fault,
        records::{Change, Draft, Key, When},
    },
};

fn key(job: &JobId) -> Key {
    Key::new(format!("job#{job}"), "secret")
}

pub async fn open(app: &App, job: &JobId) -> Result<Option<Secret>, Fault> {
    let Some(item) = app.records.get(&key(job)).await? else {
        return Ok(None);
    };
    let sealed: String = decode(&item)?.value;
    Ok(Some(app.vault.open(&sealed).await?))
}

/// The write that forgets it, where there is one.
pub async fn forget(app: &App, job: &JobId) -> Result<Option<Change>, Fault> {
    let item = app.records.get(&key(job)).await?;
    Ok(item.map(|item| Change::Delete { key: key(job), version: item.version }))
}

/// The write that keeps a password for a job, in place of the one before.
pub async fn keep(app: &App, job: &JobId, password: &Secret) -> Result<Change, Fault> {
    let before = app.records.get(&key(job)).await?;
    let sealed = app.vault.seal(password).await?;
    let when = before.map_or(When::Absent, |item| When::Version(item.version));
    Ok(Change::Put { draft: Draft::new(key(job), encode(&sealed)?), when })
}
