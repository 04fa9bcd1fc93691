//! What every process has of its own, on one machine as in a function: the time, and chance; and,
//! for one that serves, its metrics as text.

mod clock;
mod ids;
#[cfg(feature = "prometheus")]
pub mod prometheus;

pub use clock::SystemClock;
pub use ids::UlidIds;
