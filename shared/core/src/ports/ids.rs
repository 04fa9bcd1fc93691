//! Randomness, behind a port so that a test or a simulation can reproduce it.

/// Generates unique ids and random numbers.
pub trait Ids: Send + Sync {
    /// Returns a new unique id; ids sort by creation time, to the millisecond.
    fn fresh(&self) -> String;

    /// Returns a number evenly distributed over `0..bound`; 0 if `bound` is 0. It must be
    /// cryptographically unpredictable, because API keys are made of it.
    fn random_below(&self, bound: u64) -> u64;
}
