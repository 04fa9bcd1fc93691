//! Deleting a job that has ended, with everything that was stored for it.

use crate::{
    dead_letters,
    dead_letters::purge,
    event::{self, Aggregate, Event},
    events::{Store, trail},
    ids::{DeadLetterId, JobId, PageNumber},
    intake::uploads,
    job::{Job, JobEvent, Received, StepCode, StepError, jobs},
    keys::{blob, record},
    notices,
    notify::{webhook, webhooks},
    ports::{blobs::Blobs, records::Change},
    tenants::administration::{self, AdministrationEvent},
};

/// Changes per batch, and dead letters read together.
const BATCH_SIZE: usize = 100;
/// Changes per batch of records with up to 100 KiB of text each: DynamoDB limits a transaction to 4 MB.
const LARGE_BATCH_SIZE: usize = 25;

/// Deletes the source and its uploads, text, images, results, events and at last the job record. A deletion
/// that was interrupted is completed by calling this again: the job record stays until all else is gone.
pub async fn delete(store: &Store, blobs: &dyn Blobs, id: &JobId, by: &str) -> Result<(), StepError> {
    let job = jobs::load(store, id).await?.value;
    if !job.state.is_terminal() {
        let reason = format!("a job that is {} can't be deleted; cancel it first", job.state);
        return Err(StepError::Broken { code: StepCode::JobIsOpen, reason });
    }
    delete_content(store, blobs, &job, by).await?;
    let partition = record::job_partition(id);
    loop {
        let listing = store.records.list(&partition, "", None, LARGE_BATCH_SIZE).await?;
        let last = listing.next.is_none();
        // It may have been redriven meanwhile: then it is open, and holds credits.
        if last && jobs::find(store, id).await?.is_some_and(|kept| !kept.value.state.is_terminal()) {
            let reason = "it was redriven meanwhile and continues without the deleted parts".to_owned();
            return Err(StepError::Broken { code: StepCode::JobIsOpen, reason });
        }
        let has_job = listing.items.iter().any(|item| item.draft.key == record::job(id));
        let mut changes: Vec<Change> = listing
            .items
            .into_iter()
            .filter(|item| last || item.draft.key != record::job(id))
            .map(|item| Change::Delete { key: item.draft.key, version: item.version })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        // All that is left of the job is the record of its deletion, written with its last part.
        if last && has_job {
            let event = AdministrationEvent::JobDeleted {
                job: id.clone(),
                pages: job.survey.as_ref().map_or(0, |survey| survey.document_pages),
                cost_micro_usd: job
                    .result
                    .as_ref()
                    .map(|result| result.metadata.cost_micro_usd)
                    .unwrap_or_default(),
            };
            changes.extend(administration::changes(store, &job.received.tenant, by, event).await?);
        }
        // Refused when a late page was just written: the next pass finds it.
        store.write(changes).await?;
    }
}

/// Deletes what holds content outside of the job's records: source, text, images, results, dead letters,
/// webhook messages and notices. Repeating it changes nothing.
pub(super) async fn delete_content(
    store: &Store,
    blobs: &dyn Blobs,
    job: &Job,
    by: &str,
) -> Result<(), StepError> {
    let id = &job.id;
    delete_idempotency(store, id, &job.received).await?;
    delete_dead_letters(store, job, by).await?;
    notices::delete_about(store, &job.received.tenant, id.as_str()).await?;
    for origin in uploads::origins(store, id).await? {
        blobs.delete(&origin.key).await?;
        blobs.delete(&format!("{}{}", origin.key, uploads::SIDECAR_SUFFIX)).await?;
        uploads::erase(store, &origin.id).await?;
    }
    blobs.delete_all(&blob::job(id)).await?;
    Ok(())
}

/// Deletes the idempotency record: the same request makes a new job from now on.
async fn delete_idempotency(store: &Store, id: &JobId, received: &Received) -> Result<(), StepError> {
    let key = record::idempotency(&received.tenant, &received.idempotency_key);
    if let Some(known) = jobs::find_idempotency(store, &key).await?
        && known.value.job == *id
    {
        store.write(vec![Change::Delete { key, version: known.version }]).await?;
    }
    Ok(())
}

/// Deletes its dead letters, whose ids follow from the job, and its webhook deliveries.
async fn delete_dead_letters(store: &Store, job: &Job, by: &str) -> Result<(), StepError> {
    let trail = trail::read(store, &Aggregate::Job(job.id.clone())).await?;
    // A redrive clears the job's survey; the trail still has it.
    let pages = trail.iter().filter_map(|event| match event::decode(event) {
        Ok(JobEvent::Understood(survey)) => Some(survey.document_pages),
        _ => None,
    });
    let last = pages.max().unwrap_or(0);
    let of_job = (0..=job.redrives).map(|run| dead_letters::job_dead_letter_id(&job.id, run));
    let of_pages =
        (1..=last).filter_map(PageNumber::new).map(|page| dead_letters::page_dead_letter_id(&job.id, page));
    let ids: Vec<DeadLetterId> = of_job.chain(of_pages).collect();
    purge_waiting(store, &ids, by).await?;
    delete_deliveries(store, &job.id, &trail, by).await
}

/// Deletes the messages to the tenant's webhooks about any event of the job, of its pages and of its dead
/// letters.
async fn delete_deliveries(store: &Store, job: &JobId, trail: &[Event], by: &str) -> Result<(), StepError> {
    // In version 0.1 the one webhook got ends of jobs, which are not listed by their job.
    let ends = trail.iter().filter(|event| webhook::ends_job(event));
    let mut ids: Vec<String> = ends.map(|event| webhooks::delivery_id(event, webhooks::DEFAULT)).collect();
    let mut last: Option<String> = None;
    loop {
        delete_with_dead_letters(store, &ids, by).await?;
        let has_more;
        (ids, has_more) = webhooks::of_job(store, job, last.as_deref(), BATCH_SIZE).await?;
        last = ids.last().cloned();
        if !has_more {
            return delete_with_dead_letters(store, &ids, by).await;
        }
    }
}

async fn delete_with_dead_letters(store: &Store, deliveries: &[String], by: &str) -> Result<(), StepError> {
    let dead_letters: Vec<DeadLetterId> = deliveries.iter().map(DeadLetterId::new).collect();
    purge_waiting(store, &dead_letters, by).await?;
    for id in deliveries {
        webhooks::delete(store, id).await?;
    }
    Ok(())
}

async fn purge_waiting(store: &Store, ids: &[DeadLetterId], by: &str) -> Result<(), StepError> {
    for some in ids.chunks(BATCH_SIZE) {
        for dead_letter in dead_letters::find_many(store, some).await?.iter().filter(|one| one.is_waiting()) {
            purge(store, &dead_letter.id, by).await?;
        }
    }
    Ok(())
}
