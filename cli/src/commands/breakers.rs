//! `everypage breakers`: state and cooldown of each model.

use everypage_core::{
    read::{breaker::State, breakers},
    time::until,
};
use jiff::Timestamp;

use crate::{
    args::Listing, backend::Backend, exit::Exit, human, problem::Problem, settings::Context, table::Table,
};

pub async fn run(context: &Context, listing: Listing) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let all = breakers::all(&backend.app().reader.breakers).await?;
    let screen = &context.screen;
    if listing.json {
        let all: Vec<_> = all
            .iter()
            .map(|(target, breaker)| serde_json::json!({ "target": target, "breaker": breaker }))
            .collect();
        screen.print_json(&all)?;
    } else if all.is_empty() {
        screen.note("no model has a circuit breaker yet: none has failed");
    } else {
        screen.print(table(&all, backend.app().store.clock.now()).text().as_bytes())?;
    }
    Ok(Exit::Complete)
}

pub fn table(all: &[(String, everypage_core::read::breaker::Breaker)], now: Timestamp) -> Table {
    let mut table = Table::new(["MODEL", "STATE", "TRIPS", "COOLDOWN", "CAUSE"]).right(&[2]);
    for (target, breaker) in all {
        let cooldown = match breaker.state {
            State::Open { until: then } => match until(now, then) {
                left if left.is_zero() => "over, next call probes".into(),
                left => human::duration(left),
            },
            State::Closed | State::HalfOpen { .. } => "-".into(),
        };
        table.row([
            target.clone(),
            breaker.state.name().to_owned(),
            breaker.trips.to_string(),
            cooldown,
            breaker.cause.clone(),
        ]);
    }
    table
}
