//! How far a job has come, at a cost that does not grow with its document.

use std::collections::BTreeSet;

use everypage_core::{
    app::App,
    domain::{
        ids::PageNumber,
        job::{Job, State, Survey},
    },
    ports::Fault,
    store::pages,
};

/// Pages looked at: up to so many it is exact, beyond that an estimate from pages evenly spread.
const SAMPLE: usize = 100;

/// Opening, reading and classifying the document come before any page is read by AI.
const PREPARED: u64 = 10;
/// Publishing comes after.
const READ: u64 = 95;

pub async fn progress(app: &App, job: &Job) -> Result<u8, Fault> {
    Ok(match job.state {
        _ if job.is_over() => 100,
        State::Received | State::Acked => 0,
        State::Understood | State::Proposed | State::Modified => PREPARED as u8,
        _ => {
            let (Some(survey), Some(plan)) = (&job.survey, &job.plan) else {
                return Ok(PREPARED as u8);
            };
            let sample = sample(survey);
            let touched = pages::some(app, &job.id, &sample).await?;
            let settled = touched.values().filter(|page| page.outcome.is_some()).count() as u64;
            let total = u64::from(survey.page_count());
            // Only pages for AI have a record; of the pages looked at, this many should.
            let expected = sample.len() as u64 * u64::from(plan.ai_pages);
            let part = (settled * (READ - PREPARED) * total).checked_div(expected);
            (PREPARED + part.unwrap_or(READ - PREPARED)).min(READ) as u8
        }
    })
}

/// Spread without a rhythm, so that documents whose every second page is a figure are judged right.
fn sample(survey: &Survey) -> Vec<PageNumber> {
    let all: Vec<PageNumber> = survey.pages().collect();
    if all.len() <= SAMPLE {
        return all;
    }
    let spread = |index: usize| index.wrapping_mul(2_654_435_761) % all.len();
    let chosen: BTreeSet<usize> = (0..SAMPLE).map(spread).collect();
    chosen.into_iter().map(|index| all[index]).collect()
}
