//! Which faults may delay a job, and for how long: by when it must have ended, and whether it may have
//! failed.

use std::time::Duration;

use everypage_core::job::Job;

use crate::{
    faults::{PlannedFault, ReaderFault, StorageFault, Window},
    installation::{Installation, ORPHAN_SCAN_INTERVAL, ProcessRun},
};

/// A result is published this long after its deadline at the latest.
const PUBLISH_TIME: Duration = Duration::from_secs(1);
/// The longest backoff of 1 s, 4 s and 16 s: a refused caller retries by then.
const MAX_BACKOFF: Duration = Duration::from_secs(16);
/// The sum of the backoffs: a caller that is refused for less succeeds.
const TOTAL_BACKOFF: Duration = Duration::from_secs(21);
/// The process that takes over a job first releases the leases of the killed one.
const TAKEOVER_TIME: Duration = Duration::from_secs(1);
/// A document that was never opened gets this long at its deadline.
const LAST_OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// From when on a fault delays jobs, and when its effect has passed.
#[derive(Clone, Copy, Debug)]
struct Delay {
    from: Duration,
    until: Duration,
}

/// By when a job that is due at `due` must have ended: a second later, unless a fault delays it then. A
/// delay that starts during another one counts too.
pub fn latest_end(installation: &Installation, due: Duration) -> Duration {
    let delays = delays(installation);
    let mut latest = due + PUBLISH_TIME;
    loop {
        let next = delays.iter().filter(|delay| delay.from <= latest).map(|delay| delay.until).max();
        match next {
            Some(until) if until > latest => latest = until,
            _ => return latest,
        }
    }
}

fn delays(installation: &Installation) -> Vec<Delay> {
    let runs = installation.process_runs();
    let kills: Vec<Duration> = runs.iter().filter_map(|run| run.until).collect();
    let mut delays: Vec<Delay> = kills
        .iter()
        .map(|killed| {
            let alive =
                |run: &&ProcessRun| run.from <= *killed && run.until.is_none_or(|until| until > *killed);
            // Survivors scan for orphaned jobs periodically, a new process at its start; a lagging index
            // may hide one from them.
            let found = match runs.iter().find(alive) {
                Some(_) => *killed + ORPHAN_SCAN_INTERVAL,
                None => {
                    let starts = runs.iter().map(|run| run.from).filter(|from| from > killed);
                    starts.min().unwrap_or(Duration::MAX)
                }
            };
            Delay { from: *killed, until: found.saturating_add(TAKEOVER_TIME + PUBLISH_TIME) }
        })
        .collect();
    // A scan for orphaned jobs that storage fails is repeated an interval later.
    let rescan = if kills.is_empty() { Duration::ZERO } else { ORPHAN_SCAN_INTERVAL };
    delays.extend(installation.plan.faults.iter().filter_map(|fault| match fault {
        PlannedFault::Storage { window, kind, .. } => {
            let pause = match kind {
                StorageFault::IsSlow(by) => *by,
                _ => MAX_BACKOFF,
            };
            Some(Delay { from: window.from, until: window.until + pause + rescan + PUBLISH_TIME })
        }
        PlannedFault::Reader { window, kind } => {
            let pause = match kind {
                ReaderFault::IsSlow(by) => *by,
                ReaderFault::IsUnavailable => MAX_BACKOFF,
            };
            Some(Delay { from: window.from, until: window.until + pause + PUBLISH_TIME })
        }
        _ => None,
    }));
    delays
}

/// Whether our own storage or reader failed for so long that a job that ran during `job_run` may have
/// failed.
pub fn may_fail(installation: &Installation, job: &Job, job_run: Window) -> Result<(), String> {
    let code = job.failure.as_ref().map_or("", |failure| failure.code.as_str());
    match code {
        // Retried after 1 s, 4 s and 16 s, and refused each time.
        "internal" => {
            let refused: Vec<Window> = installation.plan.faults.iter().filter_map(refuses).collect();
            let during = || refused.iter().filter(|window| window.overlaps(&job_run));
            let from = during().map(|window| window.from).min().unwrap_or_default();
            let until = during().map(|window| window.until).max().unwrap_or_default();
            if until.saturating_sub(from) >= TOTAL_BACKOFF {
                return Ok(());
            }
        }
        // Never opened in time, nor in the last seconds at the deadline.
        "deadline" => {
            let due = installation
                .observer
                .since(job.deadline)
                .saturating_sub(installation.plan.max_clock_difference());
            let last = Window {
                from: due,
                until: latest_end(installation, due + installation.plan.max_clock_difference())
                    + LAST_OPEN_TIMEOUT,
            };
            let hinders = |fault: &PlannedFault| match fault {
                PlannedFault::Storage { window, .. } | PlannedFault::Reader { window, .. } => {
                    window.overlaps(&last)
                }
                _ => false,
            };
            if installation.plan.faults.iter().any(hinders) {
                return Ok(());
            }
        }
        _ => {}
    }
    Err(format!("it failed although no fault explains it: {:?}", job.failure))
}

/// The window in which calls are refused and retried.
fn refuses(fault: &PlannedFault) -> Option<Window> {
    match fault {
        PlannedFault::Storage { kind: StorageFault::IsSlow(_), .. } => None,
        PlannedFault::Storage { window, .. }
        | PlannedFault::Reader { window, kind: ReaderFault::IsUnavailable } => Some(*window),
        _ => None,
    }
}
