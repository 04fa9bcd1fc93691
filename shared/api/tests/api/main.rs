//! Every route through the router, over test doubles: no socket, no cloud, virtual time.

mod access;
mod account;
mod decisions;
mod jobs;
mod openapi;
mod operation;
mod page;
mod problems;
mod provisional;
mod results;
mod stream;
mod submit;
mod support;
mod uploads;
mod webhooks;
