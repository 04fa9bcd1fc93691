//! Records that a document is understood: its ranges, and the number of pages of each class.

use crate::{
    document::{Classification, Reason},
    event::Actor,
    events::Store,
    ids::JobId,
    job::{Job, JobEvent, PageRange, State, StepCode, StepError, Survey, jobs},
    prepare::{
        Preparer,
        inspect::{inspect, inspected, selected_ranges},
        ranges::ranges_as_read,
        read_text::read_texts,
        structure::store_findings,
    },
    tenants,
    time::within,
};

/// Records that the document is understood and deletes its password. An error if a range is not prepared yet.
pub async fn understand(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let ranges = inspect(preparer, job).await?;
    let survey = survey(preparer, job, ranges).await?;
    if !survey.complete {
        return Err(StepError::Broken {
            code: StepCode::NotPrepared,
            reason: "some pages are not prepared yet".into(),
        });
    }
    record(&preparer.store, &job.id, survey).await
}

/// Reads what is not read yet at the deadline, then records it.
///
/// A document is never failed because it was not opened in time: opening waits for its parser as long as it
/// takes. Reading the text then has `STEP_TIMEOUT`, because pages may be made to be slow; pages that are not read
/// by then have no text.
pub async fn understand_late(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    // The finalizer has no parser on AWS: its flow lets intake do this, if the document was not opened before.
    if preparer.pdf.is_available() {
        inspect(preparer, job).await?;
        let time = preparer.settings.step_timeout;
        if let Some(read) = within(preparer.store.clock.as_ref(), time, read_texts(preparer, job)).await {
            read?;
        }
    }
    understand_prepared(preparer, job).await
}

/// Records the pages that are prepared by now. [`StepCode::NotOpened`] if the document was not opened.
pub async fn understand_prepared(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let Some(pages) = inspected(preparer.blobs.as_ref(), job).await? else {
        let reason = "the document was not opened before its deadline; it is opened now".to_owned();
        return Err(StepError::Broken { code: StepCode::NotOpened, reason });
    };
    let ranges = selected_ranges(&preparer.settings, job, pages)?;
    let survey = survey(preparer, job, ranges).await?;
    record(&preparer.store, &job.id, survey).await
}

async fn record(store: &Store, job: &JobId, survey: Survey) -> Result<Job, StepError> {
    let understood = jobs::advance_and_delete_password(store, Actor::Intake, job, |job| match job.state {
        State::Acked => vec![JobEvent::Understood(survey.clone())],
        _ => vec![],
    })
    .await?;
    Ok(understood.value)
}

async fn survey(preparer: &Preparer, job: &Job, ranges: Vec<PageRange>) -> Result<Survey, StepError> {
    let blobs = preparer.blobs.as_ref();
    let document_pages = inspected(blobs, job).await?.unwrap_or(0);
    let mut survey = Survey {
        document_pages,
        ranges: vec![],
        text_only: 0,
        has_graphics: 0,
        unreadable: 0,
        complete: true,
        ocr: tenants::settings(&preparer.tenants, &job.received.tenant).await?.ocr,
    };
    let stored = ranges_as_read(blobs, &job.id, &ranges).await?;
    let findings = store_findings(blobs, &job.id, &stored).await?;
    for (range, pages) in ranges.into_iter().zip(stored) {
        match pages {
            None => survey.complete = false,
            Some(pages) => {
                for mut page in pages {
                    page.complete(&findings);
                    match page.reason.classification() {
                        Classification::TextOnly => survey.text_only += 1,
                        Classification::HasGraphics => survey.has_graphics += 1,
                    }
                    survey.unreadable += u32::from(page.reason == Reason::Unreadable);
                }
            }
        }
        survey.ranges.push(range);
    }
    Ok(survey)
}
