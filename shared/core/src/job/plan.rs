//! A proposed plan, as the job records it.

use serde::{Deserialize, Serialize};

use crate::{
    ids::Priority,
    money::MicroUsd,
    providers::target::{Provider, Tier},
};

/// What is proposed for a job; the list of pages is in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// 1, and one more with each modification; part of every page's idempotency key.
    pub version: u32,
    pub tier: Tier,
    pub provider: Provider,
    /// Of the pages' messages, and so their lane; older plans do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    pub ai_pages: u32,
    pub image_pages: u32,
    /// One credit is one page read by AI.
    pub estimated_credits: u32,
    pub estimated_cost_micro_usd: MicroUsd,
    /// Blob with the page messages, one per page for AI.
    pub manifest: String,
    /// Set when a person has to agree first, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Whether its tenant has to have a credit for each page, as it was when the plan was made. Whoever
    /// approves or heals it later may not know the settings that it was made by.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepaid: bool,
    /// Why no page goes to AI although some should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_ai_reason: Option<String>,
}
