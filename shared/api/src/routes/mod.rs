//! One file per resource.

pub mod account;
pub mod breakers;
pub mod decisions;
pub mod dlq;
pub mod events;
pub mod health;
pub mod jobs;
pub mod load;
pub mod me;
pub mod notices;
pub mod page;
pub mod pages;
pub mod results;
pub mod stats;
pub mod submit;
pub mod webhook;
