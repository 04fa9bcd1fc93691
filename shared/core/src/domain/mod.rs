//! Pure values and decisions: state, event and `now` go in, a value comes out.

pub mod account;
pub mod answer;
pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod caller;
pub mod context;
pub mod document;
pub mod event;
pub mod failover;
pub mod ids;
pub mod job;
pub mod lease;
pub mod message;
pub mod outcome;
pub mod plan;
pub mod purchase;
pub mod result;
pub mod secret;
pub mod selection;
pub mod slots;
pub mod target;
pub mod trace;
pub mod webhook;
