//! Erasures of tenants: the saga, and the store of its records. What its steps do is in
//! [`crate::finish::erase`].

pub mod erasure;
mod store;

pub use store::{advance, create, find, list_active, list_ended, list_manual};
