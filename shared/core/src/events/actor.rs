//! The part of the system that caused an event.

/// Stored by name in an event's metadata as its `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Actor {
    Intake,
    Worker,
    Finalize,
    /// The caller's request to cancel.
    Cancel,
    /// A person, through the command line or an operator's route.
    Operator,
    /// The saga of a purchase.
    Purchase,
}
