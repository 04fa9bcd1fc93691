//! The progress of a job, at a cost that does not grow with its document.

use std::collections::BTreeSet;

use everypage_core::{
    events::Store,
    ids::PageNumber,
    job::{Job, State, Survey},
    ports::Fault,
    read::pages,
};

/// Pages that are checked: exact for up to this many, an estimate from evenly spread pages beyond.
const SAMPLE_SIZE: usize = 100;

/// Percent after the document is opened, read and classified.
const PREPARED: u64 = 10;
/// Percent after every page is settled; publishing remains.
const READ: u64 = 95;

/// Percent of the job that is done.
pub async fn progress(store: &Store, job: &Job) -> Result<u8, Fault> {
    Ok(match job.state {
        _ if job.is_over() => 100,
        State::Received | State::Acked => 0,
        State::Understood | State::Proposed | State::Modified => PREPARED as u8,
        _ => {
            let (Some(survey), Some(plan)) = (&job.survey, &job.plan) else {
                return Ok(PREPARED as u8);
            };
            let sample = sample(survey);
            let touched = pages::some(store, &job.id, &sample).await?;
            let settled = touched.values().filter(|page| page.outcome.is_some()).count() as u64;
            let total = u64::from(survey.page_count());
            // Only pages for AI have a record: of the sample, this many are expected.
            let expected = sample.len() as u64 * u64::from(plan.ai_pages);
            let part = (settled * (READ - PREPARED) * total).checked_div(expected);
            (PREPARED + part.unwrap_or(READ - PREPARED)).min(READ) as u8
        }
    })
}

/// Pages spread without a period, so that a document with a figure on every second page is estimated right.
fn sample(survey: &Survey) -> Vec<PageNumber> {
    let all: Vec<PageNumber> = survey.pages().collect();
    if all.len() <= SAMPLE_SIZE {
        return all;
    }
    let spread = |index: usize| index.wrapping_mul(2_654_435_761) % all.len();
    let chosen: BTreeSet<usize> = (0..SAMPLE_SIZE).map(spread).collect();
    chosen.into_iter().map(|index| all[index]).collect()
}
