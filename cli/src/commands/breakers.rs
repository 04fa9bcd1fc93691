//! `everypage breakers`: which models are resting.

use everypage_core::{domain::breaker::State, ports::clock::until, store::breakers};
use jiff::Timestamp;

use crate::{
    args::Listing, engine::Engine, exit::Exit, human, problem::Problem, settings::Context, table::Table,
};

pub async fn run(context: &Context, listing: Listing) -> Result<Exit, Problem> {
    let engine = Engine::open(context).await?;
    let all = breakers::all(engine.app()).await?;
    let screen = &context.screen;
    if listing.json {
        let all: Vec<_> = all
            .iter()
            .map(|(target, breaker)| serde_json::json!({ "target": target, "breaker": breaker }))
            .collect();
        screen.print_json(&all)?;
    } else if all.is_empty() {
        screen.note("no model has failed lately");
    } else {
        screen.print(table(&all, engine.app().clock.now()).text().as_bytes())?;
    }
    Ok(Exit::Complete)
}

pub fn table(all: &[(String, everypage_core::domain::breaker::Breaker)], now: Timestamp) -> Table {
    let mut table = Table::new(["MODEL", "STATE", "TRIPS", "RESTS FOR", "CAUSE"]).right(&[2]);
    for (target, breaker) in all {
        let rest = match breaker.state {
            State::Open { until: then } => match until(now, then) {
                rest if rest.is_zero() => "over, next call probes".into(),
                rest => human::duration(rest),
            },
            State::Closed | State::HalfOpen { .. } => "-".into(),
        };
        table.row([
            target.clone(),
            breaker.state.name().to_owned(),
            breaker.trips.to_string(),
            rest,
            breaker.cause.clone(),
        ]);
    }
    table
}
