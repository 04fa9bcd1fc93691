//! Test doubles that keep every guarantee of their port, a clock that tests control, and the
//! conformance suites that every adapter runs.

#[cfg(feature = "doubles")]
pub mod clock;
#[cfg(feature = "doubles")]
pub mod conformance;
#[cfg(feature = "doubles")]
pub mod fake_payment_server;
#[cfg(feature = "doubles")]
pub mod faulty;
#[cfg(feature = "doubles")]
pub mod http;
#[cfg(feature = "doubles")]
pub mod ids;
#[cfg(feature = "doubles")]
pub mod memory;
#[cfg(feature = "doubles")]
pub mod pdf;
pub mod sample_pdf;
#[cfg(feature = "doubles")]
pub mod vision;

pub use everypage_scripted_provider as provider;
