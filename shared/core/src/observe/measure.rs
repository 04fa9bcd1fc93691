//! Gauges: states that are measured when a scrape or the sweep asks for them.

use crate::{
    admission::{line, seats},
    billing::{drift, purchases},
    dead_letters, erasures,
    events::Store,
    ports::{Fault, queue::Queue},
    read::{
        breaker::State,
        breakers::{self, Breakers},
    },
    telemetry::metrics::{self, MAX_COUNTED_DEAD_LETTERS},
};

/// Measures queue depth, open and waiting jobs, dead letters, open breakers, sagas that need a person and accounts that
/// differ from their trails. Called by the sweep
/// where there is one, and before each scrape.
pub async fn measure(store: &Store, queue: &dyn Queue, breakers: &Breakers) -> Result<(), Fault> {
    for (lane, waiting) in queue.depths().await? {
        metrics::queue_depth(lane, waiting);
    }
    metrics::jobs_open(seats::taken(&seats::all(store).await?));
    for (level, count) in line::count(store).await? {
        metrics::jobs_waiting(level, count);
    }
    let all_breakers = breakers::all(breakers).await?;
    metrics::breakers_open(all_breakers.iter().filter(|(_, breaker)| breaker.state != State::Closed).count());
    metrics::dlq_depth(dead_letters::count_waiting(store, MAX_COUNTED_DEAD_LETTERS).await?);
    let purchases = purchases::list_manual(store, MAX_COUNTED_DEAD_LETTERS).await?;
    let erasures = erasures::list_manual(store, MAX_COUNTED_DEAD_LETTERS).await?;
    metrics::sagas_waiting(purchases.len() + erasures.len());
    metrics::accounts_drifted(drift::count_drifted(store).await?);
    Ok(())
}
