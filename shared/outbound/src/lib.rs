//! HTTP calls to other services than the models: webhooks, notices, the payment service and a collector of
//! traces and logs.
//!
//! [`http`] holds what every HTTP client of this program has in common; everypage-vision uses it too.

pub mod http;
mod notices;
mod otlp;
mod otlp_logs;
mod payments;
mod webhooks;

pub use http::SetupError;
pub use notices::notifiers;
pub use otlp::OtlpTraces;
pub use otlp_logs::OtlpLogs;
pub use payments::HttpPayments;
pub use webhooks::HttpWebhooks;
