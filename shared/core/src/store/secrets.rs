//! A document's password: sealed while intake needs it, then gone.

use super::{decode, encode};
use crate::{
    app::App,
    domain::{ids::JobId, secret::Secret},
    ports::{
        Fault,
        records::{Batch, Change, Draft, Key, When},
    },
};

fn key(job: &JobId) -> Key {
    Key::new(format!("job#{job}"), "secret")
}

/// The write that keeps a password for a job.
pub async fn keep(app: &App, job: &JobId, password: &Secret) -> Result<Change, Fault> {
    let sealed = app.vault.seal(password).await?;
    Ok(Change::Put {
        draft: Draft::new(key(job), encode(&sealed)?),
        when: When::Absent,
    })
}

pub async fn open(app: &App, job: &JobId) -> Result<Option<Secret>, Fault> {
    let Some(item) = app.records.get(&key(job)).await? else {
        return Ok(None);
    };
    let sealed: String = decode(&item)?.value;
    Ok(Some(app.vault.open(&sealed).await?))
}

pub async fn forget(app: &App, job: &JobId) -> Result<(), Fault> {
    if let Some(item) = app.records.get(&key(job)).await? {
        let change = Change::Delete {
            key: key(job),
            version: item.version,
        };
        app.records
            .write(&Batch {
                stamp: app.ids.fresh(),
                changes: vec![change],
            })
            .await?;
    }
    Ok(())
}
