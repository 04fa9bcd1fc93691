//! Shrinks a failing plan: removes faults, documents and processes for as long as the run still fails.

use std::time::Duration;

use crate::{
    broken_variants::BrokenVariant,
    faults::PlannedFault,
    run::{Verdict, run},
    run_plan::RunPlan,
};

/// A kind plan with nothing left to leave out, and what it comes to.
pub fn shrink(plan: &RunPlan, variant: Option<BrokenVariant>) -> (RunPlan, Verdict) {
    let mut smallest = plan.clone();
    let fails = |plan: &RunPlan| !run(plan, variant, false).broken.is_empty();
    loop {
        let smaller = simpler(&smallest).into_iter().find(fails);
        match smaller {
            Some(plan) => smallest = plan,
            None => break,
        }
    }
    let verdict = run(&smallest, variant, true);
    (smallest, verdict)
}

/// Plans with one thing removed, the largest reductions first.
fn simpler(plan: &RunPlan) -> Vec<RunPlan> {
    let mut simpler = Vec::new();
    let mut with = |change: &dyn Fn(&mut RunPlan)| {
        let mut next = plan.clone();
        change(&mut next);
        simpler.push(next);
    };
    for index in 0..plan.faults.len() {
        with(&|plan| {
            plan.faults.remove(index);
        });
    }
    // Faults refer to documents and processes by number: only the last one can be removed.
    let last = plan.arrivals.len() - 1;
    if last > 0 && !plan.faults.iter().any(|fault| names_document(fault, last)) {
        with(&|plan| plan.arrivals.truncate(last));
    }
    let last = plan.skews.len() - 1;
    if last > 0 && !plan.faults.iter().any(|fault| names_process(fault, last)) {
        with(&|plan| plan.skews.truncate(last));
    }
    if plan.credits.is_some() {
        with(&|plan| {
            plan.credits = None;
            plan.settings.retain(|(name, _)| *name != "CREDITS");
        });
    }
    if !plan.lag.is_zero() {
        with(&|plan| plan.lag = Duration::ZERO);
    }
    if plan.invocation.is_some() {
        with(&|plan| plan.invocation = None);
    }
    if plan.queue_has_dead_letters {
        with(&|plan| plan.queue_has_dead_letters = false);
    }
    if plan.skews.iter().any(|skew| *skew != 0) {
        with(&|plan| plan.skews.fill(0));
    }
    for index in 0..plan.arrivals.len() {
        let arrival = &plan.arrivals[index];
        if arrival.pages > 1 {
            with(&|plan| plan.arrivals[index].pages = 1);
            with(&|plan| plan.arrivals[index].pages -= 1);
        }
        if arrival.mixed {
            with(&|plan| plan.arrivals[index].mixed = false);
        }
        if arrival.blank {
            with(&|plan| plan.arrivals[index].blank = false);
        }
        if arrival.at > Duration::ZERO {
            with(&|plan| plan.arrivals[index].at = Duration::ZERO);
        }
    }
    for (name, plain) in
        [("WORKER_CONCURRENCY", "1"), ("RANGE_PAGES", "4"), ("BREAKER_FAILURE_THRESHOLD", "1")]
    {
        if plan.settings.iter().any(|(key, value)| *key == name && value != plain) {
            with(&|plan| {
                for (key, value) in &mut plan.settings {
                    if *key == name {
                        *value = plain.into();
                    }
                }
            });
        }
    }
    simpler
}

fn names_document(fault: &PlannedFault, number: usize) -> bool {
    match fault {
        PlannedFault::SecondDriver { document, .. } | PlannedFault::User { document, .. } => {
            *document == number
        }
        _ => false,
    }
}

fn names_process(fault: &PlannedFault, number: usize) -> bool {
    match fault {
        PlannedFault::Kill { process, .. }
        | PlannedFault::KillAtCall { process, .. }
        | PlannedFault::SecondDriver { process, .. } => *process == number,
        _ => false,
    }
}
