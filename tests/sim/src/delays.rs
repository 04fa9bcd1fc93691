//! What may stand in a job's way in a run, and for how long: by when it must have its end, and
//! whether it may have failed.

use std::time::Duration;

use everypage_core::domain::job::Job;

use crate::{
    trouble::{Failing, Reader, Trouble, Window},
    world::{LOOK_FOR_ORPHANS, World},
};

/// A result is there this long after its deadline.
const AFTER_DEADLINE: Duration = Duration::from_secs(1);
/// The longest of the pauses after 1 s, 4 s and 16 s: whoever was refused tries again by then.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// All of them: who is refused for less gets through.
const ALL_PAUSES: Duration = Duration::from_secs(21);
/// Whoever takes over a job frees first what the dead held.
const TAKES_OVER: Duration = Duration::from_secs(1);
/// A document that was never opened has this long at its deadline.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// From when on something stands in the way, and when it does no more.
#[derive(Clone, Copy, Debug)]
struct Obstacle {
    from: Duration,
    clear: Duration,
}

/// By when a job must have its end that is due at `due`: a second later, unless something stands in
/// its way then. What comes before that is over counts too.
pub fn latest_end(world: &World, due: Duration) -> Duration {
    let obstacles = obstacles(world);
    let mut latest = due + AFTER_DEADLINE;
    loop {
        let next = obstacles.iter().filter(|one| one.from <= latest).map(|one| one.clear).max();
        match next {
            Some(clear) if clear > latest => latest = clear,
            _ => return latest,
        }
    }
}

fn obstacles(world: &World) -> Vec<Obstacle> {
    let lives = world.lives();
    let deaths: Vec<Duration> = lives.iter().filter_map(|life| life.until).collect();
    let mut obstacles: Vec<Obstacle> = deaths
        .iter()
        .map(|died| {
            let alive = |life: &&crate::world::Life| {
                life.from <= *died && life.until.is_none_or(|until| until > *died)
            };
            // Survivors look for orphans now and then, a newcomer at once; the index may hide one from them.
            let found = match lives.iter().find(alive) {
                Some(_) => *died + LOOK_FOR_ORPHANS,
                None => {
                    let births = lives.iter().map(|life| life.from).filter(|from| from > died);
                    births.min().unwrap_or(Duration::MAX)
                }
            };
            Obstacle { from: *died, clear: found.saturating_add(TAKES_OVER + AFTER_DEADLINE) }
        })
        .collect();
    // Who looks for orphans while storage is out looks again later.
    let again = if deaths.is_empty() { Duration::ZERO } else { LOOK_FOR_ORPHANS };
    obstacles.extend(world.plan.troubles.iter().filter_map(|trouble| match trouble {
        Trouble::Storage { window, failing, .. } => {
            let pause = match failing {
                Failing::Dawdles(by) => *by,
                _ => LONGEST_PAUSE,
            };
            Some(Obstacle { from: window.from, clear: window.until + pause + again + AFTER_DEADLINE })
        }
        Trouble::Reader { window, does } => {
            let pause = match does {
                Reader::Dawdles(by) => *by,
                Reader::IsGone => LONGEST_PAUSE,
            };
            Some(Obstacle { from: window.from, clear: window.until + pause + AFTER_DEADLINE })
        }
        _ => None,
    }));
    obstacles
}

/// Did our own side fail for so long that a job, which lived in `life`, may have failed of it?
pub fn may_fail(world: &World, job: &Job, life: Window) -> Result<(), String> {
    let code = job.failure.as_ref().map_or("", |failure| failure.code.as_str());
    match code {
        // Tried after 1 s, 4 s and 16 s, and refused each time.
        "internal" => {
            let refused: Vec<Window> = world.plan.troubles.iter().filter_map(refuses).collect();
            let during = || refused.iter().filter(|window| window.overlaps(&life));
            let from = during().map(|window| window.from).min().unwrap_or_default();
            let until = during().map(|window| window.until).max().unwrap_or_default();
            if until.saturating_sub(from) >= ALL_PAUSES {
                return Ok(());
            }
        }
        // Never opened in time, and not in the last seconds either.
        "deadline" => {
            let due = world.witness.since(job.deadline).saturating_sub(world.plan.spread());
            let last = Window { from: due, until: latest_end(world, due + world.plan.spread()) + LAST_LOOK };
            let hinders = |trouble: &Trouble| match trouble {
                Trouble::Storage { window, .. } | Trouble::Reader { window, .. } => window.overlaps(&last),
                _ => false,
            };
            if world.plan.troubles.iter().any(hinders) {
                return Ok(());
            }
        }
        _ => {}
    }
    Err(format!("it failed for no reason: {:?}", job.failure))
}

/// When calls are refused that are then made again.
fn refuses(trouble: &Trouble) -> Option<Window> {
    match trouble {
        Trouble::Storage { failing: Failing::Dawdles(_), .. } => None,
        Trouble::Storage { window, .. } | Trouble::Reader { window, does: Reader::IsGone } => Some(*window),
        _ => None,
    }
}
