//! What every process has of its own, on one machine as in a function: the time, and chance.

mod clock;
mod ids;

pub use clock::SystemClock;
pub use ids::UlidIds;
