//! Getting rid of a document: everything that was kept of an ended job goes.

use super::{StepError, redrive::purge};
use crate::{
    app::App,
    domain::ids::JobId,
    ports::records::{Batch, Change},
    store::{
        dead::{self, Subject},
        jobs,
    },
};

/// Most changes of one batch.
const AT_ONCE: usize = 100;

/// Deletes the source, texts, images, results, events and at last the job itself. What was begun
/// and not finished is finished by asking again: the job is known until all else is gone.
pub async fn delete(app: &App, id: &JobId, by: &str) -> Result<(), StepError> {
    let job = jobs::load(app, id).await?;
    if !job.value.state.is_terminal() {
        let reason = format!("a job that is {} can't be deleted; cancel it first", job.value.state);
        return Err(StepError::Broken { code: "job_is_open", reason });
    }
    forget_request(app, id, &job.value.received).await?;
    for letter in dead::waiting(app, usize::MAX).await? {
        match &letter.value.subject {
            Subject::Job { job } | Subject::Page { job, .. } | Subject::Webhook { job, .. } if job == id => {
                purge(app, &letter.value.id, by).await?
            }
            _ => {}
        }
    }
    app.blobs.delete_all(&format!("jobs/{id}/")).await?;
    let partition = jobs::key(id).partition;
    loop {
        let listing = app.records.list(&partition, "", None, AT_ONCE).await?;
        let last = listing.next.is_none();
        let changes: Vec<Change> = listing
            .items
            .into_iter()
            .filter(|item| last || item.draft.key != jobs::key(id))
            .map(|item| Change::Delete { key: item.draft.key, version: item.version })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        // Refused when a late page was just written: the next look finds it.
        app.records.write(&Batch { stamp: app.ids.fresh(), changes }).await?;
    }
}

/// The same request makes a new job from now on.
async fn forget_request(
    app: &App,
    id: &JobId,
    received: &crate::domain::job::Received,
) -> Result<(), StepError> {
    let key = jobs::idempotency_key(&received.tenant, &received.idempotency_key);
    if let Some(known) = jobs::find_idempotency(app, &key).await?
        && known.value.job == *id
    {
        let changes = vec![Change::Delete { key, version: known.version }];
        app.records.write(&Batch { stamp: app.ids.fresh(), changes }).await?;
    }
    Ok(())
}
