//! Dead letters: work that was given up, stored with its reason until a person redrives or purges it.

pub mod add;
pub mod fail;
mod purge;
mod store;

use crate::{admission::Admission, events::Store};

pub use purge::purge;
pub use store::*;

/// The ports and settings with which dead letters are added.
#[derive(Clone)]
pub struct DeadLetters {
    pub store: Store,
    pub admission: Admission,
}
