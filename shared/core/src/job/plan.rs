//! A proposed plan, as stored in the job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    document::Reason,
    ids::Priority,
    money::MicroUsd,
    providers::target::{Provider, Tier},
    settings::AiPages,
};

/// The proposal for a job. The list of pages is in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// 1, and one more with each modification; part of every page's idempotency key.
    pub version: u32,
    pub tier: Tier,
    #[serde(alias = "engine")]
    pub provider: Provider,
    /// The priority, and so the lane, of the page messages; absent in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    pub ai_pages: u32,
    pub image_pages: u32,
    /// Why pages go to AI: how many of each reason; empty in older plans.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Reason, u32>,
    /// One credit is one page read by AI.
    pub estimated_credits: u32,
    pub estimated_cost_micro_usd: MicroUsd,
    /// Blob with the page messages, one for each page that goes to AI.
    pub manifest: String,
    /// Why a person has to approve the plan; absent if none has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Whether the tenant pays a credit for each page. Stored with the plan, because the process that
    /// approves or heals the job later may have other settings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepaid: bool,
    /// Why no page goes to AI, if the plan could not include any.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "no_ai_because")]
    pub no_ai_reason: Option<String>,
}

impl Plan {
    /// Why pages go to AI, in words: `5 with an image, 3 scanned`. Empty for older plans.
    pub fn reasons_in_words(&self, ai_pages: AiPages) -> String {
        let words = |reason: Reason| match (reason, ai_pages) {
            (Reason::Text, AiPages::Unsure) => "with uncertain text",
            (reason, _) => reason.in_words(),
        };
        let parts = self.reasons.iter().map(|(reason, pages)| format!("{pages} {}", words(*reason)));
        parts.collect::<Vec<_>>().join(", ")
    }
}
