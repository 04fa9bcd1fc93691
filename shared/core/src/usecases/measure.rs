//! What is not an event but a state: measured when somebody looks.

use crate::{
    app::App,
    metrics::{self, MOST_COUNTED_LETTERS},
    ports::Fault,
    store::dead,
};

/// Measures how much waits. Called by the sweep where there is one, and before each scrape.
pub async fn measure(app: &App) -> Result<(), Fault> {
    for (lane, waiting) in app.queue.depths().await? {
        metrics::queue_depth(lane, waiting);
    }
    metrics::dlq_depth(dead::count_waiting(app, MOST_COUNTED_LETTERS).await?);
    Ok(())
}
