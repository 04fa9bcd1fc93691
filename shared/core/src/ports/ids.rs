//! Chance, behind a port so that a test or a simulation can repeat it.

/// Fresh names and dice.
pub trait Ids: Send + Sync {
    /// Never the same twice; sorts by the time of its making, to the millisecond.
    fn fresh(&self) -> String;

    /// Evenly spread over `0..bound`; 0 when `bound` is 0. Nobody outside can foretell it: API keys
    /// are made of it.
    fn roll(&self, bound: u64) -> u64;
}
