//! A whole installation in one thread and in virtual time: the real use cases and the real driver
//! on memory, under whatever can go wrong. Everything that happens in a run follows from its seed.
//!
//! - [`plan`]: what a seed stands for: documents, processes, clocks, [`trouble`]s;
//! - [`world`]: processes that live and die over shared storage, [`weather`] on their calls,
//!   [`models`] and a [`reader`] that misbehave, and a [`post`] that delivers twice, late and too early;
//! - [`story`]: the run, to its rest and beyond it;
//! - [`witness`] and [`promises`]: what must hold all the time, and at the end; [`delays`]: by when;
//! - [`shrink`]: the least that still goes wrong;
//! - [`panics`]: none of them goes unheard;
//! - [`mutants`]: broken variants, each of which must be caught.

pub mod campaign;
pub mod delays;
pub mod models;
pub mod mutants;
pub mod panics;
pub mod plan;
pub mod post;
pub mod promises;
pub mod reader;
pub mod shrink;
pub mod story;
pub mod trouble;
pub mod weather;
pub mod witness;
pub mod world;
