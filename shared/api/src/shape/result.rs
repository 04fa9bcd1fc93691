use everypage_core::job::ResultMetadata;
use serde::Serialize;
use utoipa::ToSchema;

/// The latest version of the result.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResultInfo {
    /// Counts from 1; each heal publishes the next.
    pub version: u32,
    /// The hash of the JSON format.
    pub sha256: String,
    pub metadata: ResultMetadata,
}

/// The pages that a heal sends to the models.
#[derive(Debug, Serialize, ToSchema)]
pub struct Healing {
    /// The id of the job.
    pub job: String,
    /// Numbers of the pages.
    pub sent: Vec<u32>,
    /// The current version of the result; the heal publishes the next one.
    pub version: u32,
}
