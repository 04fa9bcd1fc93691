//! What is not an event but a state: measured when somebody looks.

use crate::{
    app::App,
    billing::purchases,
    dead_letters,
    ports::Fault,
    read::{breaker::State, breakers},
    telemetry::metrics::{self, MOST_COUNTED_LETTERS},
};

/// Measures how much waits, and how many models are out of use. Called by the sweep where there is
/// one, and before each scrape.
pub async fn measure(app: &App) -> Result<(), Fault> {
    for (lane, waiting) in app.queue.depths().await? {
        metrics::queue_depth(lane, waiting);
    }
    let breakers = breakers::all(app).await?;
    metrics::breakers_open(breakers.iter().filter(|(_, breaker)| breaker.state != State::Closed).count());
    metrics::dlq_depth(dead_letters::count_waiting(app, MOST_COUNTED_LETTERS).await?);
    let waiting = purchases::waiting_for_a_person(app, MOST_COUNTED_LETTERS).await?;
    metrics::sagas_waiting(waiting.len());
    Ok(())
}
