//! What must hold of the reading of pages: those that a model could have read in time are read, and every
//! call that was answered is in the result with its cost.

use std::{collections::BTreeMap, time::Duration};

use everypage_core::{
    app::App,
    finish::{result::PageResult, results},
    job::{Halt, Job, State},
    ports::Fault,
    providers::target::{Target, Tier},
    read::{
        outcome::{CallResult, ModelCall},
        pages,
    },
    settings::{MaxInflight, Patience},
};

use crate::{
    faults::{MessageFault, ModelFault, PlannedFault, StorageFault, UserAction, time},
    installation::Installation,
    observer::tokens,
    run::{all_jobs, has_result},
    run_plan::Arrival,
};

/// The longest pauses of an early probe and of the backoff between two rounds, with some time for writes.
const MAX_PAUSES: Duration = Duration::from_secs(20);
/// What calls that fail at once, and the pauses between them, may take of a page's time.
const FAILURE_TIME: Duration = Duration::from_secs(2);
/// The time from the reading of the pages of a job to the publication of its result.
const READING_TIME: Duration = Duration::from_secs(1);
/// Where pages can't be woken, they come back after at most this time.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
const SLOW_READING_TIME: Duration = Duration::from_secs(120);
/// A process stores what it knows of a call within this time.
const ROUND_TIME: Duration = Duration::from_secs(150);

/// No page falls back although a model could have read it before the deadline.
pub async fn falls_back_only_for_a_reason(
    installation: &Installation,
    inspector: &App,
    job: &Job,
) -> Result<(), String> {
    if !is_undisturbed(installation) || job.state != State::Audited || job.redrives > 0 {
        return Ok(());
    }
    let run = installation.observer.seen().job_runs.get(&(job.id.clone(), 0)).cloned();
    let Some((run, approved)) = run.and_then(|run| run.approved.map(|approved| (run, approved))) else {
        return Ok(());
    };
    if job.halt == Some(Halt::Cancelled) || run.cancelled.is_some() {
        return Ok(());
    }
    let deadline = installation.observer.since(run.deadline);
    let Ok(Some(document)) = results::read_document(inspector.blobs.as_ref(), job, Some(1)).await else {
        return Err("its result can't be read".into());
    };
    for page in document.pages.iter().filter(|page| page.source.is_fallback()) {
        let reason = page.fallback_reason.as_deref().unwrap_or_default();
        if reason.contains("neither an image nor text") {
            continue;
        }
        for (model, target) in installation.settings.failover_order().steps(Tier::Primary).iter().enumerate()
        {
            let available = available_from(installation, model, deadline).max(approved);
            let needed = needed_time(installation, model, deadline);
            if !refused(page, target) && available + needed <= deadline {
                return Err(format!(
                    "page {} fell back ({reason}), although {target} could have read it from {} on, and {} \
                     are enough until the deadline at {}",
                    page.page,
                    time(available),
                    time(needed),
                    time(deadline)
                ));
            }
        }
    }
    Ok(())
}

/// Whether nothing but models keeps pages from being read.
fn is_undisturbed(installation: &Installation) -> bool {
    let plan = &installation.plan;
    let disturbs = |fault: &PlannedFault| match fault {
        PlannedFault::Model { .. } => false,
        PlannedFault::Messages { kind, .. } => *kind != MessageFault::DeliveredTwice,
        PlannedFault::SecondDriver { .. } => false,
        PlannedFault::User { action, .. } => !matches!(action, UserAction::SubmitAgain | UserAction::Cancel),
        PlannedFault::Storage { .. }
        | PlannedFault::Kill { .. }
        | PlannedFault::KillAtCall { .. }
        | PlannedFault::Reader { .. } => true,
    };
    !plan.faults.iter().any(disturbs)
        && plan.max_clock_difference().is_zero()
        && !plan.credits_are_scarce()
        && installation.settings.approval_threshold_usd.is_none()
        && !installation.has_budget()
        && plan.patience() == Patience::Deadline
}

fn models_faults(installation: &Installation) -> impl Iterator<Item = (usize, Duration, ModelFault)> {
    installation.plan.faults.iter().filter_map(|fault| match fault {
        PlannedFault::Model { model, window, kind } => Some((*model, window.until, *kind)),
        _ => None,
    })
}

/// From when on the model answers every call.
fn available_from(installation: &Installation, model: usize, deadline: Duration) -> Duration {
    let order = installation.settings.failover_order().steps(Tier::Primary);
    let ends = models_faults(installation).filter_map(|(faulty, until, kind)| match kind {
        // A bad key stops all models of its provider, and is confirmed by a probe.
        ModelFault::RejectsTheKey if order[faulty].provider == order[model].provider => Some(deadline),
        _ if faulty != model => None,
        // It takes some calls at any time.
        ModelFault::RefusesMoreThan { .. } | ModelFault::HasQuota { .. } => None,
        ModelFault::IsRateLimited(wait) | ModelFault::FailsAndAsksToWait { wait, .. } => Some(until + wait),
        ModelFault::IsSlow(by) => Some(until + by),
        _ => Some(until),
    });
    ends.max().unwrap_or_default()
}

/// The time in which the model reads every page of the run, if nothing else does: the pages one after the
/// other, as many at once as there are workers and slots, each after calls to all models that do not answer.
fn needed_time(installation: &Installation, model: usize, deadline: Duration) -> Duration {
    let (plan, settings) = (&installation.plan, &installation.settings);
    let sent = |arrival: &Arrival| if arrival.mixed { arrival.pages.div_ceil(2) } else { arrival.pages };
    let pages: u32 = plan.arrivals.iter().map(sent).sum();
    let workers = settings.worker_concurrency.unwrap_or(1) * plan.skews.len();
    let (mut limit, mut pause, mut had_fault) =
        (settings.max_inflight_per_model.initial(), Duration::ZERO, false);
    let mut silent = 0;
    for (faulty, _, kind) in models_faults(installation) {
        match kind {
            ModelFault::RefusesMoreThan { calls, retry_after } if faulty == model => {
                limit = if settings.max_inflight_per_model == MaxInflight::Auto {
                    1
                } else {
                    limit.min(calls as u32)
                };
                pause += retry_after.unwrap_or(Duration::from_secs(4)) * 2;
            }
            // Several processes may each take too little of it, or too much and be refused.
            ModelFault::HasQuota { calls, per } if faulty == model => {
                pause += (per / calls.max(1) as u32 + Duration::from_secs(1)) * plan.skews.len() as u32 * 4;
                limit = 1;
            }
            ModelFault::Hangs | ModelFault::IsSlow(_) | ModelFault::HangsSometimes(_) => silent += 1,
            _ => {}
        }
        had_fault |= faulty == model;
    }
    if plan.invocation.is_some() {
        pause += RECHECK_INTERVAL * 2;
    }
    let width = (workers as u32).min(limit).max(1);
    let call = settings.request_timeout.min(deadline / 2);
    let page = plan.latency.max() + call * silent + FAILURE_TIME + pause;
    page * pages.div_ceil(width) + if had_fault { MAX_PAUSES } else { Duration::ZERO }
}

/// Whether the model may not be called again for this page.
fn refused(page: &PageResult, target: &Target) -> bool {
    use CallResult::*;
    page.calls.iter().any(|call| {
        call.target == *target
            && matches!(
                call.result,
                Request | Refusal | Empty | Incomplete | Invented | Truncated | Repeating
            )
    })
}

/// A page that was read after the result was published is in a later version of it.
pub async fn late_pages_are_published(inspector: &App, job: &Job) -> Result<(), String> {
    if job.state != State::Audited {
        return Ok(());
    }
    let Ok(Some(document)) = results::read_document(inspector.blobs.as_ref(), job, None).await else {
        return Err("its result can't be read".into());
    };
    let stored = pages::all(&inspector.store, &job.id).await.map_err(|fault| fault.to_string())?;
    let is_read = |page: &&PageResult| {
        let outcome = stored.get(&page.page).and_then(|kept| kept.value.outcome.as_ref());
        outcome.is_some_and(|outcome| outcome.is_ai())
    };
    match document.pages.iter().filter(is_read).find(|page| page.source.is_fallback()) {
        Some(page) => Err(format!("page {} was read by a model and is in no version", page.page)),
        None => Ok(()),
    }
}

/// Every call that was answered is recorded once, with its tokens and its cost; and where it was recorded
/// before the result was published, it is in the result. A process that was killed, or could not store what
/// it knew, may have taken it along.
pub async fn answered_calls_are_recorded(installation: &Installation, inspector: &App) -> Result<(), String> {
    let loses_writes = |fault: &PlannedFault| matches!(fault, PlannedFault::Storage { kind, .. } if !matches!(kind, StorageFault::IsSlow(_)));
    if installation.plan.faults.iter().any(loses_writes) {
        return Ok(());
    }
    let mut recorded: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut in_results: BTreeMap<u64, usize> = BTreeMap::new();
    let mut published: BTreeMap<usize, Duration> = BTreeMap::new();
    for job in all_jobs(inspector).await {
        let stored = stored_calls(inspector, &job).await.map_err(|fault| fault.to_string())?;
        for call in stored.iter().filter(|call| !call.is_estimated) {
            let found = recorded.entry(call.input_tokens).or_default();
            *found = (found.0 + 1, call.cost_micro_usd.0);
        }
        if !has_result(&job) {
            continue;
        }
        let Ok(Some(document)) = results::read_document(inspector.blobs.as_ref(), &job, None).await else {
            return Err(format!("the result of job {} can't be read", job.id));
        };
        for call in document.pages.iter().flat_map(|page| &page.calls).filter(|call| !call.is_estimated) {
            *in_results.entry(call.input_tokens).or_default() += 1;
        }
        let seen = installation.observer.seen();
        let last = seen.published.get(&job.id).and_then(|versions| versions.last().copied());
        if let (Some(document), Some(last)) = (seen.documents.get(&job.id), last) {
            published.insert(*document, last);
        }
    }
    let (calls, stored_at) = {
        let seen = installation.observer.seen();
        (seen.calls.clone(), seen.recorded.clone())
    };
    // While a result is being made, pages may be read before a call is recorded.
    let reading = if installation.plan.storage_fails() { SLOW_READING_TIME } else { READING_TIME };
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.answered) {
        let killed = installation.killed_at(&call.node);
        let is_known =
            killed.is_none_or(|killed| call.ended.is_some_and(|ended| ended + ROUND_TIME < killed));
        if !is_known {
            continue;
        }
        let what = || {
            let (target, at) = (&call.target, time(call.started));
            format!("the call of {target} at {at} for page {} of document {}", call.page, call.document)
        };
        let tokens = tokens(number);
        match recorded.get(&tokens) {
            None => return Err(format!("{} was answered and not recorded", what())),
            Some((1, cost)) if *cost == tokens => {}
            Some((1, cost)) => return Err(format!("{} has a cost of {cost} micro-dollars", what())),
            Some((times, _)) => return Err(format!("{} was recorded {times} times", what())),
        }
        let is_due = stored_at
            .get(&tokens)
            .zip(published.get(&call.document))
            .is_some_and(|(stored, published)| *stored + reading < *published);
        match in_results.get(&tokens) {
            None if is_due => return Err(format!("{} was recorded and is in no result", what())),
            Some(times) if *times > 1 => return Err(format!("{} is {times} times in the result", what())),
            _ => {}
        }
    }
    Ok(())
}

/// The calls in the records of a job's pages.
async fn stored_calls(inspector: &App, job: &Job) -> Result<Vec<ModelCall>, Fault> {
    let mut calls: Vec<ModelCall> = Vec::new();
    for page in pages::all(&inspector.store, &job.id).await?.into_values() {
        calls.extend(page.value.earlier_calls);
        calls.extend(page.value.outcome.into_iter().flat_map(|outcome| outcome.calls));
    }
    calls.extend(pages::unclaimed_calls(&inspector.store, &job.id).await?.into_values().flatten());
    Ok(calls)
}
