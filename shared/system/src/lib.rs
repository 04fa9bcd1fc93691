//! The clock and the ids of a real process, on one machine and in a Lambda function.

mod clock;
mod ids;

pub use clock::SystemClock;
pub use ids::UlidIds;
