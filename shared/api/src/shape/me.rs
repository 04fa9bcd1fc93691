use everypage_core::{providers::target::Provider, tenants::caller::Role};
use serde::Serialize;
use utoipa::ToSchema;

/// The caller, and the features and limits of the service.
#[derive(Debug, Serialize, ToSchema)]
pub struct Me {
    /// The tenant of the key.
    pub tenant: String,
    /// The user of the key.
    pub user: String,
    pub role: Role,
    /// The version of Everypage.
    #[schema(example = "0.2.0")]
    pub version: String,
    /// The name of the installation (`ENVIRONMENT`).
    pub environment: String,
    /// The largest document that the tenant may submit.
    pub max_file_bytes: u64,
    /// The largest number of pages of a document.
    pub max_pages: u32,
    /// Whether documents can be uploaded directly to the storage.
    pub uploads: bool,
    /// Whether events can be streamed (`text/event-stream`).
    pub streams: bool,
    /// Configured providers; without any, every page keeps its own text.
    pub providers: Vec<Provider>,
}
