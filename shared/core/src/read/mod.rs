//! One page message, from delivery to settled page: claim, round, breaker, slots, outcome.

pub mod answer;
pub mod backoff;
pub mod breaker;
pub mod breakers;
pub mod budget;
pub mod dispatch;
pub mod give_up;
pub mod outcome;
pub mod pages;
pub mod round;
pub mod slot;
pub mod slots;
