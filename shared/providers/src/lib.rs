//! Whom Everypage speaks to over HTTP: vision models, that is OpenAI (and whatever speaks its chat
//! API) and Anthropic; receivers of webhooks; a payment service; a collector of traces.
//!
//! [`Providers`] is the one adapter of models; these are the steps of one call:
//!
//! ```text
//! openai / anthropic   build the request, read the answer
//! transport            one POST, its answer bounded in size
//! failure              whatever was not an answer, sorted into a VisionError
//! rate_limit           how long the API asks us to stay away
//! redact               what may be said about a failure
//! prices               what the answer cost
//! ```

mod anthropic;
mod failure;
mod hooks;
mod openai;
mod payments;
mod prices;
mod providers;
mod rate_limit;
mod reading;
mod redact;
mod settings;
mod tls;
mod traces;
mod transport;

pub use hooks::HttpHooks;
pub use payments::HttpPayments;
pub use prices::{Prices, PricesError};
pub use providers::Providers;
pub use settings::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL, ProviderSettings, Settings, SettingsError};
pub use traces::OtlpTraces;
