//! The whole system in one process over test doubles, and the invariants that must hold of it.

pub mod harness;
pub mod invariants;
