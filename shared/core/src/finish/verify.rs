//! Verification: trails, stored state and published results are unchanged since they were written.

use std::collections::BTreeMap;

use crate::{
    digest::sha256_hex,
    document::TableStyle,
    event::{Aggregate, Event, Head, decode, verify},
    events::{Store, trail},
    finish::{finalize::SealedPages, format::Format, result::ResultDocument, results},
    ids::{JobId, PageNumber},
    job::{Job, JobEvent, StepError, jobs},
    keys::blob,
    ports::blobs::Blobs,
    read::{outcome::PageEvent, pages},
};

pub use crate::billing::verify::verify_account;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub job_events: usize,
    pub page_events: usize,
    /// What is wrong; empty when nothing is.
    pub findings: Vec<String>,
}

/// Reads before a finding is reported: one that appears while a process writes may come from two reads that
/// do not belong together.
const MAX_READS: usize = 5;

/// The positions of the trails that were read: the job's, and its pages'.
type Heads = (Head, BTreeMap<PageNumber, Head>);

/// Checks every hash and link, that replaying the trail gives the stored job and outcomes, and
/// that the seal of the pages holds.
pub async fn verify_job(store: &Store, blobs: &dyn Blobs, id: &JobId) -> Result<Report, StepError> {
    let (mut report, mut seen) = examine_job(store, blobs, id).await?;
    for _ in 1..MAX_READS {
        if report.findings.is_empty() || heads_of(store, id).await? == seen {
            break;
        }
        (report, seen) = examine_job(store, blobs, id).await?;
    }
    Ok(report)
}

async fn heads_of(store: &Store, id: &JobId) -> Result<Heads, StepError> {
    let job = jobs::load(store, id).await?.value.head;
    Ok((job, pages::all(store, id).await?.into_iter().map(|(page, kept)| (page, kept.value.head)).collect()))
}

async fn examine_job(store: &Store, blobs: &dyn Blobs, id: &JobId) -> Result<(Report, Heads), StepError> {
    let stored = jobs::load(store, id).await?.value;
    let mut heads: Heads = (stored.head.clone(), BTreeMap::new());
    let events = trail::read(store, &Aggregate::Job(id.clone())).await?;
    let mut report = Report { job_events: events.len(), ..Report::default() };
    if let Err(tampered) = verify(&events, &stored.head) {
        report.findings.push(format!("job: {tampered}"));
    }
    match Job::replay(&events) {
        Ok(replayed) if replayed.as_ref() == Some(&stored) => {}
        Ok(_) => report.findings.push("job: the stored job is not what its trail says".into()),
        Err(error) => report.findings.push(format!("job: {error}")),
    }
    // First the pages, then their trails: a write in between moves a trail's head.
    let stored_pages = pages::all(store, id).await?;
    let page_events = trail::read_pages(store, id).await?;
    report.page_events = page_events.len();
    let mut trails: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in page_events {
        trails.entry(event.aggregate.to_string()).or_default().push(event);
    }
    if stored.content_removed_at.is_some() {
        // Page records, seals and results are gone; what is left must still be linked.
        for (name, trail) in &trails {
            let head = trail.last().map(Head::of).unwrap_or_default();
            if let Err(tampered) = verify(trail, &head) {
                report.findings.push(format!("{name}: {tampered}"));
            }
        }
        return Ok((report, heads));
    }
    for trail in trails.values() {
        if let Some(Aggregate::Page(_, page)) = trail.first().map(|event| &event.aggregate)
            && !stored_pages.contains_key(page)
        {
            report.findings.push(format!("page {page}: its record is missing but its trail exists"));
        }
    }
    for (page, kept) in stored_pages {
        heads.1.insert(page, kept.value.head.clone());
        let name = Aggregate::Page(id.clone(), page).to_string();
        let empty = Vec::new();
        let trail = trails.get(&name).unwrap_or(&empty);
        if let Err(tampered) = verify(trail, &kept.value.head) {
            report.findings.push(format!("page {page}: {tampered}"));
        }
        let last = trail.last().and_then(|event| decode::<PageEvent>(event).ok());
        let replayed = last.map(|PageEvent::Settled(outcome)| outcome);
        if replayed != kept.value.outcome {
            report.findings.push(format!("page {page}: the stored outcome is not what its trail says"));
        }
        if let (Some(outcome), Some(text)) = (&kept.value.outcome, pages::text(blobs, &kept.value).await?)
            && sha256_hex(text.as_bytes()) != outcome.text_sha256
        {
            report.findings.push(format!("page {page}: its text was changed"));
        }
    }
    check_seals(blobs, id, &events, &trails, &mut report).await?;
    check_results(blobs, &stored, &events, &mut report).await?;
    Ok((report, heads))
}

async fn check_seals(
    blobs: &dyn Blobs,
    id: &JobId,
    events: &[Event],
    trails: &BTreeMap<String, Vec<Event>>,
    report: &mut Report,
) -> Result<(), StepError> {
    for event in events {
        let digest = match decode::<JobEvent>(event) {
            Ok(JobEvent::Audited { pages_digest, .. } | JobEvent::Healed { pages_digest, .. }) => {
                pages_digest
            }
            _ => continue,
        };
        let bytes = blobs.get(&blob::seal(id, &digest)).await?.unwrap_or_default();
        if sha256_hex(&bytes) != digest {
            report
                .findings
                .push(format!("event {}: the seal of the pages is missing or was changed", event.sequence));
            continue;
        }
        let sealed: SealedPages = serde_json::from_slice(&bytes).unwrap_or_default();
        for (page, sequence, hash) in sealed {
            let name = Aggregate::Page(id.clone(), page).to_string();
            let found = trails.get(&name).and_then(|trail| trail.get(sequence.saturating_sub(1) as usize));
            if found.is_none_or(|found| found.hash != hash) {
                report.findings.push(format!("page {page}: event {sequence} is not the one that was sealed"));
            }
        }
    }
    Ok(())
}

/// Every published version matches the hash in its event, and its other formats are rendered from it.
async fn check_results(
    blobs: &dyn Blobs,
    job: &Job,
    events: &[Event],
    report: &mut Report,
) -> Result<(), StepError> {
    for event in events {
        let published = match decode::<JobEvent>(event) {
            Ok(JobEvent::Executed(result) | JobEvent::Healed { result, .. }) => result,
            Ok(JobEvent::Cancelled { result: Some(result) }) => result,
            _ => continue,
        };
        let version = published.version;
        let json = results::read(blobs, job, Format::Json, Some(version)).await?.unwrap_or_default();
        if sha256_hex(&json) != published.sha256 {
            report.findings.push(format!("result version {version}: it is missing or was changed"));
            continue;
        }
        let Ok(document) = serde_json::from_slice::<ResultDocument>(&json) else { continue };
        for (format, render) in Format::derived() {
            let stored = results::read(blobs, job, format, Some(version)).await?;
            if stored.is_none_or(|stored| stored != render(&document, TableStyle::default())) {
                let name = format.extension();
                report
                    .findings
                    .push(format!("result version {version}: its .{name} is missing or was changed"));
            }
        }
    }
    Ok(())
}
