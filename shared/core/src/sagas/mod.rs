//! The engine of sagas: sequences of steps that end completed, undone, or with a person's decision, whatever
//! fails in between.
//!
//! A saga is data ([`definition`]): steps, what undoing them means, timeouts and retries. Its [`progress`] is a
//! fold of events, [`decide`] says what comes next, and [`run`] runs it over what a [`run::Saga`] implements.
//! There are
//! two: buying credits ([`crate::billing::buy`]) and erasing a tenant ([`crate::erasures`]).

pub mod decide;
pub mod definition;
pub mod progress;
pub mod run;
pub(crate) mod telemetry;
