//! What happens to a document, step by step. Every engine calls these and adds nothing to them.
//!
//! Each step may be repeated, by a retry, by a second delivery or after a crash: it finds what it
//! did before and goes on from there.

pub mod bury;
pub mod cancel;
pub mod credits;
pub mod decide;
pub mod delete;
pub mod dispatch;
pub mod fail;
pub mod failover;
pub mod figures;
pub mod finalize;
mod give_up;
pub mod heal;
pub mod intake;
pub mod measure;
pub mod plan;
pub mod prepare;
pub mod purchase;
pub mod redrive;
pub mod relay;
pub mod result;
mod step;
pub mod sweep;
pub mod upload;
pub mod verify;
pub mod webhooks;
pub mod wishes;

pub use step::StepError;
