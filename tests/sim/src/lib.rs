//! A whole installation in one thread and in virtual time: the real use cases and the real driver over
//! storage in memory, with injected faults. Everything that happens in a run follows from its seed.
//!
//! - [`run_plan`]: what a seed means: documents, processes, clocks and [`faults`];
//! - [`installation`]: each [`process`] is killed and restarted over shared storage, with [`chaos_calls`],
//!   a [`chaos_queue`], and faulty [`models`] and [`reader`]; [`ports`] puts them together;
//! - [`run`]: one run, until it is idle, and its repair afterwards;
//! - [`observer`] and [`invariants`]: what must hold at all times, and at the end; [`delays`]: by when;
//!   [`reading`]: which pages must be read, and which calls recorded;
//! - [`shrink`]: the smallest plan that still fails;
//! - [`panics`]: no panic goes unnoticed;
//! - [`broken_variants`]: variants of Everypage that lack one guarantee each, and must be caught.

pub mod broken_variants;
pub mod campaign;
pub mod chaos_calls;
pub mod chaos_queue;
pub mod delays;
pub mod faults;
pub mod installation;
pub mod invariants;
pub mod models;
pub mod observer;
pub mod panics;
pub mod ports;
pub mod process;
pub mod reader;
pub mod reading;
pub mod run;
pub mod run_plan;
pub mod shrink;
