//! True models of the world for tests: doubles that keep every guarantee of their port, a clock
//! that tests move, and the exams that every adapter sits.

#[cfg(feature = "doubles")]
pub mod clock;
#[cfg(feature = "doubles")]
pub mod faulty;
#[cfg(feature = "doubles")]
pub mod http;
#[cfg(feature = "doubles")]
pub mod ids;
#[cfg(feature = "doubles")]
pub mod memory;
pub mod paper;
#[cfg(feature = "doubles")]
pub mod pdf;
pub mod provider;
#[cfg(feature = "doubles")]
pub mod suites;
#[cfg(feature = "doubles")]
pub mod till;
#[cfg(feature = "doubles")]
pub mod vision;
