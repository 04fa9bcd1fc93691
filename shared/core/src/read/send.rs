//! Sends the pages of an approved plan to the workers, and counts them down until all are settled.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    PageReader,
    countdown::Run,
    countdowns::{self, Started},
    pages,
};
use crate::{
    ids::PageNumber,
    job::{Job, StepCode, StepError, message::PageMessage},
    plan::propose::manifest,
    ports::{Fault, queue::Outgoing},
};

/// Groups of ranges that are sent concurrently, at most. Step Functions runs 40 iterations of an inline map at
/// a time, and all of them are in the history of the execution.
const MAX_GROUPS: usize = 40;
/// Messages of one send.
const BATCH_SIZE: usize = 100;

/// Neighbouring ranges whose pages are sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeGroup {
    pub first: PageNumber,
    pub last: PageNumber,
}

type Ranges = BTreeMap<PageNumber, Vec<PageMessage>>;

/// Starts the countdown of an approved plan and returns the groups of ranges to be sent; none if no page goes to
/// AI. The countdown names every range before any page is sent: otherwise it could be over too early.
pub async fn start(reader: &PageReader, job: &Job) -> Result<Vec<RangeGroup>, StepError> {
    let Some(run) = Run::of(job) else { return Ok(vec![]) };
    let ranges = planned_ranges(reader, job).await?;
    if ranges.is_empty() {
        return Ok(vec![]);
    }
    countdowns::start(&reader.store, &job.id, run, ranges.keys().copied().collect()).await?;
    Ok(groups(&ranges))
}

/// The messages of the plan by range, each named by its first page. Ranges without pages for AI are left out.
async fn planned_ranges(reader: &PageReader, job: &Job) -> Result<Ranges, StepError> {
    let mut ranges = Ranges::new();
    let Some(plan) = job.plan.as_ref().filter(|plan| plan.ai_pages > 0) else { return Ok(ranges) };
    for message in manifest(reader.blobs.as_ref(), plan).await? {
        let page = message.page_id;
        let range = job.survey.as_ref().and_then(|survey| survey.range_of(page));
        let range = range.ok_or_else(|| StepError::Broken {
            code: StepCode::Manifest,
            reason: format!("page {page} of {} is in no range", plan.manifest),
        })?;
        ranges.entry(range.first).or_default().push(message);
    }
    Ok(ranges)
}

fn groups(ranges: &Ranges) -> Vec<RangeGroup> {
    let firsts: Vec<PageNumber> = ranges.keys().copied().collect();
    let last = |range: &PageNumber| ranges[range].last().map_or(*range, |message| message.page_id);
    let size = firsts.len().div_ceil(MAX_GROUPS).max(1);
    let group =
        |ranges: &[PageNumber]| RangeGroup { first: ranges[0], last: last(&ranges[ranges.len() - 1]) };
    firsts.chunks(size).map(group).collect()
}

/// Sends every page of a group that is not settled. Repeating it is harmless: only one worker can claim a page.
pub async fn send(reader: &PageReader, job: &Job, group: RangeGroup) -> Result<(), StepError> {
    let Some(run) = Run::of(job) else { return Ok(()) };
    let ranges = planned_ranges(reader, job).await?;
    for (range, messages) in ranges.range(group.first..=group.last) {
        send_range(reader, job, run, *range, messages).await?;
    }
    Ok(())
}

async fn send_range(
    reader: &PageReader,
    job: &Job,
    run: Run,
    range: PageNumber,
    messages: &[PageMessage],
) -> Result<(), StepError> {
    let store = &reader.store;
    let numbers: Vec<PageNumber> = messages.iter().map(|message| message.page_id).collect();
    let mut left: BTreeSet<PageNumber> = numbers.iter().copied().collect();
    if countdowns::start_range(store, &job.id, run, range, left.clone()).await? == Started::Again {
        // Written first, read second: a page that was settled before the countdown started is found here, and
        // one that is settled later finds its countdown.
        let touched = pages::some(store, &job.id, &numbers).await?.into_iter();
        let settled = touched.filter(|(_, page)| page.outcome.is_some()).map(|(page, _)| page).collect();
        if countdowns::remove(store, job, &settled).await? {
            reader.flow.pages_settled(&job.id).await?;
        }
        left = countdowns::left(store, &job.id, range).await?;
    }
    let unsettled = messages.iter().filter(|message| left.contains(&message.page_id));
    let outgoing: Vec<Outgoing> = unsettled.map(outgoing).collect::<Result<_, _>>()?;
    for batch in outgoing.chunks(BATCH_SIZE) {
        reader.queue.send(batch).await?;
    }
    Ok(())
}

fn outgoing(message: &PageMessage) -> Result<Outgoing, Fault> {
    Ok(Outgoing {
        name: format!("{}:a{}", message.idempotency_key, message.redrive_count),
        job: message.job_id.clone(),
        lane: message.priority,
        body: message.encode()?,
        delay: Duration::ZERO,
    })
}
