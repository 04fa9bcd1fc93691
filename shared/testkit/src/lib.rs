//! True models of the world for tests: doubles that keep every guarantee of their port, a clock
//! that tests move, and the exams that every adapter sits.

pub mod clock;
pub mod faulty;
pub mod ids;
pub mod memory;
pub mod paper;
pub mod pdf;
pub mod provider;
pub mod suites;
pub mod vision;
