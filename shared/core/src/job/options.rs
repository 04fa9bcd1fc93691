//! The options of a job, resolved at acceptance.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PageSelection;
use crate::{
    digest::sha256_hex,
    document::ImageStyle,
    ids::Priority,
    money::MicroUsd,
    providers::{
        failover::FailoverList,
        target::{Provider, Tier},
    },
    settings::{AiPages, Cost, Patience, Settings},
};

/// Where a request came from.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RequestSource {
    /// The command line.
    Cli,
    /// The HTTP API.
    Api,
    /// An object that was uploaded to the bucket.
    S3,
    /// A tool call of an assistant.
    Mcp,
}

/// All options of a job, resolved from the request and the tenant's settings, so that every process that
/// works on the job uses the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOptions {
    pub pages: PageSelection,
    pub ai_pages: AiPages,
    /// Every page is sent to AI, with its image.
    pub image_for_all: bool,
    pub tier: Tier,
    #[serde(alias = "engine")]
    pub provider: Provider,
    pub image: ImageStyle,
    pub job_timeout_ms: u64,
    /// The caller set that time: it runs from acceptance. Else it runs from admission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_given: bool,
    pub priority: Priority,
    #[serde(default)]
    pub patience: Patience,
    /// The caller's own order of models; if empty, that of the settings.
    #[serde(default, skip_serializing_if = "FailoverList::is_empty")]
    pub failover: FailoverList,
    #[serde(default, skip_serializing_if = "Cost::is_standard")]
    pub cost: Cost,
    /// What the job's model calls may cost; unlimited if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<MicroUsd>,
}

impl JobOptions {
    /// The options of a job whose caller sets none.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            pages: PageSelection::all(),
            ai_pages: settings.ai_pages,
            image_for_all: settings.image_for_all,
            tier: settings.tier,
            provider: settings.first_provider(),
            image: settings.image,
            job_timeout_ms: settings.job_timeout.as_millis() as u64,
            deadline_given: false,
            priority: settings.priority,
            patience: settings.patience,
            failover: FailoverList::default(),
            cost: settings.cost,
            budget_usd: settings.budget_usd.map(MicroUsd::from_usd),
        }
    }

    /// The options that every call follows.
    pub fn calls(&self) -> CallOptions {
        let Self { patience, failover, cost, budget_usd, .. } = self.clone();
        CallOptions { patience, failover, cost, budget_usd }
    }

    pub fn set_calls(&mut self, calls: CallOptions) {
        let CallOptions { patience, failover, cost, budget_usd } = calls;
        (self.patience, self.failover) = (patience, failover);
        (self.cost, self.budget_usd) = (cost, budget_usd);
    }

    /// Whether a cheaper, slower tier of a provider is wanted.
    pub fn is_cheap(&self) -> bool {
        self.cost == Cost::Low || self.priority == Priority::Low
    }

    pub fn job_timeout(&self) -> Duration {
        Duration::from_millis(self.job_timeout_ms)
    }

    /// A hash of these options: a request with the same document and the same options is a repetition, whether the
    /// caller or the settings chose them.
    pub fn fingerprint(&self) -> String {
        let chosen = Self { deadline_given: false, ..self.clone() };
        sha256_hex(serde_json::to_string(&chosen).expect("options are strings, numbers and names").as_bytes())
    }
}

/// Those of the options that are read at every call, and not when the plan is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOptions {
    pub patience: Patience,
    #[serde(default, skip_serializing_if = "FailoverList::is_empty")]
    pub failover: FailoverList,
    #[serde(default, skip_serializing_if = "Cost::is_standard")]
    pub cost: Cost,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<MicroUsd>,
}
