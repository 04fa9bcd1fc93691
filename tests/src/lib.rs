//! The whole system in one process over doubles, and what must hold of it whatever happens.

pub mod harness;
pub mod invariants;
