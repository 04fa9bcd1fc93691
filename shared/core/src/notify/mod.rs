//! Telling the outside world: the relay of stored events to the bus, and webhooks.

pub mod deliver;
pub mod relay;
pub mod webhook;
pub mod webhooks;
