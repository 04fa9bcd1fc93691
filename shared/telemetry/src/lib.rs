//! Where metrics and traces leave a process: Prometheus text for a server, CloudWatch's embedded metric
//! format and X-Ray for a Lambda function.
//!
//! The definitions of the metrics are in everypage-core. Traces over OTLP are in everypage-outbound,
//! because they need an HTTP client.

mod emf;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod xray;

pub use emf::Emf;
pub use xray::XRay;
