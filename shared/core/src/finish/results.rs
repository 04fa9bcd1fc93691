//! The store of result versions: assemble, publish, read.

use super::format::{self, Format};
use std::collections::HashSet;

use crate::{
    digest::sha256_hex,
    document::{Reason, TableStyle},
    events::Store,
    finish::{
        Finisher,
        provisional::PageSoFar,
        result::{Cause, PageInput, ResultDocument, assemble},
    },
    ids::PageNumber,
    invariants,
    job::{Job, ResultRef, StepCode, StepError},
    keys::blob,
    plan::propose::manifest,
    ports::{
        blobs::{Blobs, Stored},
        vision::Finish,
    },
    prepare::{StoredPage, add_recognized, stored_ranges},
    read::{answer::judge, outcome::Settlement, pages, reference::Reference},
    source::TextSource,
    tenants,
};

fn key(job: &Job, version: u32, format: Format) -> String {
    blob::result(&job.id, job.redrives, version, format.extension())
}

/// Publishes `version` from what is stored now. Of two publishers of one version the first wins and both
/// return its work: the JSON decides, the other formats are rendered from it.
pub async fn publish(
    finisher: &Finisher,
    job: &Job,
    version: u32,
    cause: Cause,
) -> Result<ResultRef, StepError> {
    let blobs = finisher.blobs.as_ref();
    let made = make(finisher, job, version, cause).await?;
    invariants::assert(|| super::invariants::whole(&made));
    let bytes = format::json(&made);
    let (document, bytes) = match blobs.put_new(&key(job, version, Format::Json), bytes.clone()).await? {
        Stored::Created => (made, bytes),
        Stored::Existed => {
            let bytes = stored(blobs, job, version, Format::Json).await?.unwrap_or_default();
            (parse(&bytes)?, bytes)
        }
    };
    for (format, render) in Format::derived() {
        blobs.put_new(&key(job, version, format), render(&document, TableStyle::default())).await?;
    }
    Ok(ResultRef { version, sha256: sha256_hex(&bytes), metadata: document.metadata })
}

fn parse(bytes: &[u8]) -> Result<ResultDocument, StepError> {
    serde_json::from_slice(bytes)
        .map_err(|error| StepError::Broken { code: StepCode::Result, reason: error.to_string() })
}

async fn make(
    finisher: &Finisher,
    job: &Job,
    version: u32,
    cause: Cause,
) -> Result<ResultDocument, StepError> {
    let (store, blobs) = (&finisher.store, finisher.blobs.as_ref());
    let settings = tenants::settings(&finisher.preparer.tenants, &job.received.tenant).await?;
    let inputs = inputs(store, blobs, job, settings.check_answers).await?.into_iter().map(|(input, _)| input);
    let document = (job.received.document.name.clone(), job.received.document.sha256.clone());
    Ok(assemble(job.id.clone(), version, document, store.clock.now(), cause, inputs))
}

/// Reads what is stored of every page of the job, in order. With `checks_answers`, what an AI read before the page
/// was recognized is compared with what OCR found since.
pub(super) async fn inputs(
    store: &Store,
    blobs: &dyn Blobs,
    job: &Job,
    checks_answers: bool,
) -> Result<Vec<PageSoFar>, StepError> {
    let sent: HashSet<PageNumber> = match &job.plan {
        Some(plan) if plan.ai_pages > 0 => {
            manifest(blobs, plan).await?.iter().map(|message| message.page_id).collect()
        }
        _ => HashSet::new(),
    };
    let mut records = pages::all(store, &job.id).await?;
    let mut unclaimed = pages::unclaimed_calls(store, &job.id).await?;
    let mut inputs = Vec::new();
    let ranges = job.survey.as_ref().map(|survey| survey.ranges.as_slice()).unwrap_or_default();
    let mut stored = stored_ranges(blobs, &job.id, ranges).await?;
    let needs_recognized = |page| match records.get(&page).and_then(|kept| kept.value.outcome.as_ref()) {
        Some(outcome) if outcome.is_ai() => checks_answers && outcome.is_unchecked(),
        Some(_) | None => true,
    };
    let ocr = job.survey.as_ref().map(|survey| survey.ocr).unwrap_or_default();
    add_recognized(blobs, &job.id, ocr, &mut stored, needs_recognized).await?;
    for (range, stored) in ranges.iter().zip(stored) {
        let mut stored = stored.unwrap_or_default().into_iter().peekable();
        for page in range.pages.pages(u32::MAX) {
            let mut found = stored.next_if(|stored| stored.page == page);
            let record = records.remove(&page).map(|kept| kept.value);
            let settled = match &record {
                Some(record) => {
                    let text = pages::text(blobs, record).await?;
                    let own = found.as_ref().filter(|own| checks_answers && own.is_recognized);
                    record.outcome.clone().map(|outcome| (checked(outcome, text.as_deref(), own), text))
                }
                None => None,
            };
            let earlier = record.iter().flat_map(|record| record.earlier_calls.iter().cloned());
            let input = PageInput {
                page,
                reason: found.as_ref().map_or(Reason::Unreadable, |stored| stored.reason),
                fault: found.as_ref().map_or_else(
                    || Some("the page was not read before the job ended".to_owned()),
                    |stored| stored.fault.clone().filter(|_| stored.text.trim().is_empty()),
                ),
                confidence: found.as_ref().map(|stored| stored.confidence),
                doubts: found.as_ref().map(|stored| stored.doubts.clone()).unwrap_or_default(),
                own_source: match found.as_ref().is_some_and(|stored| stored.is_recognized) {
                    true => TextSource::Ocr,
                    false => TextSource::Mupdf,
                },
                awaits_ocr: found.as_ref().is_some_and(|stored| stored.awaits_ocr),
                own_blocks: found
                    .as_mut()
                    .map(|stored| std::mem::take(&mut stored.blocks))
                    .unwrap_or_default(),
                own_text: found.map(|stored| stored.text),
                sent_to_ai: sent.contains(&page),
                settled,
                other_calls: earlier.chain(unclaimed.remove(&page).unwrap_or_default()).collect(),
            };
            inputs.push((input, record));
        }
    }
    Ok(inputs)
}

/// The outcome with the share of `own` text that the AI's has, if it was not compared with it before. It is settled:
/// nothing rejects it now.
fn checked(mut outcome: Settlement, text: Option<&str>, own: Option<&StoredPage>) -> Settlement {
    if outcome.is_unchecked()
        && let Some(reference) = own.and_then(Reference::of)
    {
        let reference = Reference { is_sound: false, ..reference };
        let judged = text.map(|text| judge(text, Finish::Complete, Some(&reference)));
        outcome.confidence = judged.and_then(Result::ok).flatten();
    }
    outcome
}

async fn stored(
    blobs: &dyn Blobs,
    job: &Job,
    version: u32,
    format: Format,
) -> Result<Option<Vec<u8>>, StepError> {
    Ok(blobs.get(&key(job, version, format)).await?)
}

/// A published version's bytes; the latest without a `version`. `None` when there is none.
pub async fn read(
    blobs: &dyn Blobs,
    job: &Job,
    format: Format,
    version: Option<u32>,
) -> Result<Option<Vec<u8>>, StepError> {
    let Some(latest) = job.result.as_ref().map(|result| result.version) else {
        return Ok(None);
    };
    let version = version.unwrap_or(latest);
    if version == 0 || version > latest {
        return Ok(None);
    }
    stored(blobs, job, version, format).await
}

pub async fn read_document(
    blobs: &dyn Blobs,
    job: &Job,
    version: Option<u32>,
) -> Result<Option<ResultDocument>, StepError> {
    match read(blobs, job, Format::Json, version).await? {
        None => Ok(None),
        Some(bytes) => parse(&bytes).map(Some),
    }
}
