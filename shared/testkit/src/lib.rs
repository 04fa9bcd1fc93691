//! Test doubles that keep every guarantee of their port, a clock that tests control, and the
//! conformance suites that every adapter runs.

pub mod canned_server;
pub mod clock;
pub mod conformance;
pub mod fake_payment_server;
pub mod faulty;
pub mod http;
pub mod ids;
pub mod memory;
pub mod metered;
pub mod ocr;
pub mod pdf;
pub mod sample_pdf;
pub mod vision;

pub use everypage_scripted_provider as provider;
