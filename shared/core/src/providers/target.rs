//! The targets of model calls: providers, their models, and one model of one provider.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::VariantArray;
use utoipa::ToSchema;

/// A provider of vision models. The first one is the default of `PRIMARY_ENGINE`.
///
/// To add one, see docs/adding-a-provider.md.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
    ToSchema,
)]
#[schema(description = "A provider of vision models.")]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_provider)]
pub enum Provider {
    #[default]
    OpenAi,
    Anthropic,
    Gemini,
    /// Azure OpenAI. Its models are deployments, whose names the customer chooses.
    Azure,
    /// Mistral's OCR endpoint: an image in, Markdown out, without a prompt.
    Mistral,
    /// Amazon Bedrock, by the Converse API. Requests are signed with AWS credentials unless there is a key.
    Bedrock,
}

fn unknown_provider(text: &str) -> String {
    format!("unknown provider {text:?} (accepted: {})", Provider::NAMES.join(", "))
}

/// The names of the settings of one provider.
pub struct ProviderVariables {
    pub primary_model: &'static str,
    pub secondary_model: &'static str,
    pub fast_model: &'static str,
    pub api_key: &'static str,
    pub base_url: &'static str,
    /// For an API that has its version in the request.
    pub api_version: Option<&'static str>,
    /// For an API that has an address in each region.
    pub region: Option<&'static str>,
}

impl ProviderVariables {
    /// The variables that a tenant may override.
    pub fn of_models(&self) -> [&'static str; 3] {
        [self.primary_model, self.secondary_model, self.fast_model]
    }
}

/// Variables that start with the provider's name. A macro, because names of settings are constants.
macro_rules! variables {
    ($prefix:literal) => {
        ProviderVariables {
            primary_model: concat!($prefix, "_PRIMARY_MODEL"),
            secondary_model: concat!($prefix, "_SECONDARY_MODEL"),
            fast_model: concat!($prefix, "_FAST_MODEL"),
            api_key: concat!($prefix, "_API_KEY"),
            base_url: concat!($prefix, "_BASE_URL"),
            api_version: None,
            region: None,
        }
    };
}

/// The row of a provider in the table of providers.
pub struct ProviderProfile {
    pub variables: ProviderVariables,
    /// The provider's public one; `None` where each customer has one.
    pub base_url: Option<&'static str>,
    pub primary_model: &'static str,
    pub secondary_model: &'static str,
    pub fast_model: &'static str,
    pub access: AccessRule,
}

impl Provider {
    /// The table of providers: everything except the dialect of the API (everypage-vision) and the
    /// prices of the models.
    pub const fn profile(self) -> ProviderProfile {
        match self {
            Self::OpenAi => ProviderProfile {
                variables: variables!("OPENAI"),
                base_url: Some("https://api.openai.com/v1"),
                primary_model: "gpt-5.4",
                secondary_model: "gpt-5.4-mini",
                fast_model: "gpt-5.4-nano",
                access: AccessRule::KeyOrBaseUrl,
            },
            Self::Anthropic => ProviderProfile {
                variables: variables!("ANTHROPIC"),
                base_url: Some("https://api.anthropic.com"),
                primary_model: "claude-sonnet-4-6",
                secondary_model: "claude-opus-4-6",
                fast_model: "claude-haiku-4-5",
                access: AccessRule::Key,
            },
            Self::Gemini => ProviderProfile {
                variables: variables!("GEMINI"),
                base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
                primary_model: "gemini-3.8-flash",
                secondary_model: "gemini-3.6-flash",
                fast_model: "gemini-3.5-flash-lite",
                access: AccessRule::Key,
            },
            Self::Azure => ProviderProfile {
                variables: ProviderVariables {
                    api_version: Some("AZURE_OPENAI_API_VERSION"),
                    ..variables!("AZURE_OPENAI")
                },
                base_url: None,
                primary_model: "gpt-5.4",
                secondary_model: "gpt-5.4-mini",
                fast_model: "gpt-5.4-nano",
                access: AccessRule::KeyAndBaseUrl,
            },
            Self::Mistral => ProviderProfile {
                variables: variables!("MISTRAL"),
                base_url: Some("https://api.mistral.ai/v1"),
                primary_model: "mistral-ocr-4-1",
                secondary_model: "mistral-ocr-2512",
                fast_model: "mistral-ocr-2512",
                access: AccessRule::Key,
            },
            Self::Bedrock => ProviderProfile {
                variables: ProviderVariables { region: Some("BEDROCK_REGION"), ..variables!("BEDROCK") },
                base_url: None,
                primary_model: "global.anthropic.claude-sonnet-4-6",
                secondary_model: "global.anthropic.claude-haiku-4-5-20251001-v1:0",
                fast_model: "global.amazon.nova-2-lite-v1:0",
                access: AccessRule::KeyOrAws,
            },
        }
    }

    pub const ALL: &'static [Self] = Self::VARIANTS;
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The variables that hold API keys, in the order of the table.
    pub fn api_key_variables() -> Vec<&'static str> {
        Self::ALL.iter().map(|provider| provider.profile().variables.api_key).collect()
    }
}

/// The settings with which a provider is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    Key,
    /// Many servers that implement the provider's API at another base URL need no key.
    KeyOrBaseUrl,
    /// There is no public base URL: every customer has one.
    KeyAndBaseUrl,
    /// A key, or AWS credentials, which are found when a call is made. Such a provider is used only where
    /// it is named.
    KeyOrAws,
}

impl AccessRule {
    /// Of the variables of `provider`, those that have to be set before it can be called.
    pub fn missing(self, provider: Provider, has_key: bool, has_own_base_url: bool) -> Vec<&'static str> {
        let variables = provider.profile().variables;
        let needs_key = match self {
            Self::Key | Self::KeyAndBaseUrl => !has_key,
            Self::KeyOrBaseUrl => !has_key && !has_own_base_url,
            Self::KeyOrAws => false,
        };
        let needs_base_url = self == Self::KeyAndBaseUrl && !has_own_base_url;
        let mut missing = Vec::new();
        if needs_key {
            missing.push(variables.api_key);
        }
        if needs_base_url {
            missing.push(variables.base_url);
        }
        missing
    }
}

/// Which of a provider's models is called first for the pages of a job.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_tier)]
pub enum Tier {
    #[default]
    Primary,
    Fast,
    Secondary,
}

fn unknown_tier(text: &str) -> String {
    format!("unknown tier {text:?} (accepted: {})", Tier::NAMES.join(", "))
}

impl Tier {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
}

/// The models of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    pub primary: String,
    pub secondary: String,
    pub fast: String,
}

impl Models {
    pub fn of_tier(&self, tier: Tier) -> &str {
        match tier {
            Tier::Primary => &self.primary,
            Tier::Fast => &self.fast,
            Tier::Secondary => &self.secondary,
        }
    }
}

/// One provider:model, the unit of failover, breakers and in-flight slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct Target {
    pub provider: Provider,
    /// The name of the model.
    #[schema(example = "gpt-5.4")]
    pub model: String,
}

impl Target {
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into() }
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || format!("{text:?} is not PROVIDER:MODEL, such as openai:gpt-5.4");
        let (provider, model) = text.split_once(':').ok_or_else(shape)?;
        let model = model.trim();
        if model.is_empty() || model.chars().any(|c| c.is_whitespace() || c.is_control() || c == ',') {
            return Err(shape());
        }
        Ok(Self::new(provider.trim().parse()?, model))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}
