//! Model calls over HTTP: OpenAI (and every server that implements its chat API), Anthropic, Google Gemini,
//! Azure OpenAI, Mistral OCR and Amazon Bedrock.
//!
//! [`HttpVision`] is the adapter; one call passes through these modules:
//!
//! ```text
//! client               picks the provider of the target, checks its key
//! dialect              builds the request, parses the response; one file per provider
//! transport            one POST, its response limited in size
//! failure              sorts everything else into a VisionError
//! rate_limit           how long the API asks to wait
//! redact               what of the API's error message may be shown
//! models               what the call cost, and how long the answer may be
//! ```
//!
//! What is known of a provider before it is called (names, variables, default models) is in the table of
//! everypage-core's `Provider`. To add a provider, see docs/adding-a-provider.md.

mod client;
mod dialect;
#[cfg(test)]
mod dialect_tests;
mod failure;
mod models;
mod rate_limit;
mod redact;
mod settings;
mod transport;

pub use client::HttpVision;
pub use models::{Models, PricesError};
pub use settings::{ProviderAccess, SettingsError, VisionSettings};
