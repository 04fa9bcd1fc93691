//! Recording that a document is understood: its ranges, and how many pages are of which class.

use std::time::Duration;

use crate::{
    document::{Classification, Reason},
    event::Actor,
    events::Store,
    ids::JobId,
    job::{Job, JobEvent, PageRange, State, StepCode, StepError, Survey, jobs},
    ports::{Fault, blobs::Blobs},
    prepare::{
        Preparer,
        inspect::{inspect, inspected, selected},
        ranges::stored_ranges,
        read_text::read_texts,
    },
    time::{after, within},
};

/// A flow that lives finalizes its job sooner than this after the deadline.
const LATE: Duration = Duration::from_secs(5);

/// Notes that the document is understood and forgets its password.
pub async fn understand(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let ranges = inspect(preparer, job).await?;
    let survey = survey(preparer.blobs.as_ref(), job, ranges).await?;
    if !survey.complete {
        return Err(StepError::Broken {
            code: StepCode::NotPrepared,
            reason: "some pages are not prepared yet".into(),
        });
    }
    note(&preparer.store, &job.id, survey).await
}

/// At the deadline: whatever is prepared by now is all there will be. Unless that is nothing at all,
/// or the deadline is long past because nobody was alive to keep it: then text is worth some seconds.
pub async fn understand_partial(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let late = after(job.deadline, LATE) <= preparer.store.clock.now();
    if late || inspected(preparer.blobs.as_ref(), job).await?.is_none() {
        let time = if late { preparer.settings.step_timeout } else { LATE };
        match within(preparer.store.clock.as_ref(), time, read_texts(preparer, job)).await {
            // Where finalize can't open documents.
            None | Some(Err(StepError::Fault(Fault::ParserUnavailable { .. }))) => {}
            Some(read) => read?,
        }
    }
    let Some(pages) = inspected(preparer.blobs.as_ref(), job).await? else {
        let reason = "the document could not be opened before its deadline".to_owned();
        return Err(StepError::Broken { code: StepCode::Deadline, reason });
    };
    let ranges = selected(&preparer.settings, job, pages)?;
    let survey = survey(preparer.blobs.as_ref(), job, ranges).await?;
    note(&preparer.store, &job.id, survey).await
}

async fn note(store: &Store, job: &JobId, survey: Survey) -> Result<Job, StepError> {
    let kept = jobs::advance_and_delete_password(store, Actor::Intake, job, |job| match job.state {
        State::Acked => vec![JobEvent::Understood(survey.clone())],
        _ => vec![],
    })
    .await?;
    Ok(kept.value)
}

async fn survey(blobs: &dyn Blobs, job: &Job, ranges: Vec<PageRange>) -> Result<Survey, StepError> {
    let document_pages = inspected(blobs, job).await?.unwrap_or(0);
    let mut survey = Survey {
        document_pages,
        ranges: vec![],
        text_only: 0,
        has_graphics: 0,
        unreadable: 0,
        complete: true,
    };
    let stored = stored_ranges(blobs, &job.id, &ranges).await?;
    for (range, pages) in ranges.into_iter().zip(stored) {
        match pages {
            None => survey.complete = false,
            Some(pages) => {
                for page in pages {
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
