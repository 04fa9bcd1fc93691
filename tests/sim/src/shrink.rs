//! The least that still goes wrong: troubles, documents and processes are left out as long as the
//! run fails without them.

use std::time::Duration;

use crate::{
    mutants::Mutant,
    plan::Plan,
    story::{Verdict, run},
    trouble::Trouble,
};

/// A failing plan with nothing left to leave out, and what it comes to.
pub fn shrink(plan: &Plan, mutant: Option<Mutant>) -> (Plan, Verdict) {
    let mut least = plan.clone();
    let fails = |plan: &Plan| !run(plan, mutant, false).broken.is_empty();
    loop {
        let smaller = simpler(&least).into_iter().find(fails);
        match smaller {
            Some(plan) => least = plan,
            None => break,
        }
    }
    let verdict = run(&least, mutant, true);
    (least, verdict)
}

/// Plans with one thing less, the largest steps first.
fn simpler(plan: &Plan) -> Vec<Plan> {
    let mut simpler = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut next = plan.clone();
        change(&mut next);
        simpler.push(next);
    };
    for index in 0..plan.troubles.len() {
        with(&|plan| {
            plan.troubles.remove(index);
        });
    }
    // Troubles name documents and processes by number: only the last can go.
    let last = plan.arrivals.len() - 1;
    if last > 0 && !plan.troubles.iter().any(|trouble| names_document(trouble, last)) {
        with(&|plan| plan.arrivals.truncate(last));
    }
    let last = plan.skews.len() - 1;
    if last > 0 && !plan.troubles.iter().any(|trouble| names_process(trouble, last)) {
        with(&|plan| plan.skews.truncate(last));
    }
    if plan.purse.is_some() {
        with(&|plan| {
            plan.purse = None;
            plan.settings.retain(|(name, _)| *name != "CREDITS");
        });
    }
    if !plan.lag.is_zero() {
        with(&|plan| plan.lag = Duration::ZERO);
    }
    if plan.queue_buries {
        with(&|plan| plan.queue_buries = false);
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

fn names_document(trouble: &Trouble, number: usize) -> bool {
    match trouble {
        Trouble::SecondDriver { document, .. } | Trouble::Person { document, .. } => *document == number,
        _ => false,
    }
}

fn names_process(trouble: &Trouble, number: usize) -> bool {
    match trouble {
        Trouble::Kill { process, .. }
        | Trouble::KillAtCall { process, .. }
        | Trouble::SecondDriver { process, .. } => *process == number,
        _ => false,
    }
}
