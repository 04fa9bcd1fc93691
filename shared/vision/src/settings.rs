//! The settings of the adapter; nothing here reads the environment.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use everypage_core::{
    ports::{signer::RequestSigner, vision::VisionError},
    providers::target::Provider,
    secret::Secret,
    settings::Settings,
};
use everypage_outbound::SetupError;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

use crate::{Models, PricesError, dialect::Call};

/// Where one provider is called, and with which key. Calls fail without what its `AccessRule` asks for.
#[derive(Clone, Debug, Default)]
pub struct ProviderAccess {
    /// The provider's public one if unset.
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    pub api_version: Option<String>,
    pub region: Option<String>,
}

impl ProviderAccess {
    pub fn at(base_url: impl Into<String>, api_key: Option<Secret>) -> Self {
        Self { base_url: Some(base_url.into()), api_key, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub struct VisionSettings {
    /// A provider that is not listed has its public base URL and no key.
    pub access: BTreeMap<Provider, ProviderAccess>,
    pub models: Models,
    /// A call with a longer response fails.
    pub max_response_bytes: usize,
    pub connect_timeout: Duration,
}

impl VisionSettings {
    pub fn new(access: impl IntoIterator<Item = (Provider, ProviderAccess)>) -> Self {
        Self {
            access: access.into_iter().collect(),
            models: Models::default(),
            // The text of the densest page is some tens of kilobytes: this leaves room for any JSON
            // around it, and limits the memory of eight concurrent calls.
            max_response_bytes: 4 * 1024 * 1024,
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// The part of the program's settings that concerns the adapter.
    pub fn from_settings(settings: &Settings) -> Result<Self, SettingsError> {
        let access = settings.providers.iter().map(|configured| {
            let access = ProviderAccess {
                base_url: configured.base_url.clone(),
                api_key: configured.api_key.clone(),
                api_version: configured.api_version.clone(),
                region: configured.region.clone(),
            };
            (configured.provider, access)
        });
        let models = Models::parse(&settings.model_prices)?;
        for (limit, value) in [
            ("APPROVAL_THRESHOLD_USD", settings.approval_threshold_usd),
            ("BUDGET_USD", settings.budget_usd),
            ("TENANT_BUDGET_USD", settings.tenant_budget_usd),
        ] {
            if value.is_some() {
                check_prices(settings, &models, limit)?;
            }
        }
        Ok(Self { models, ..Self::new(access) })
    }
}

/// A model without a price costs 0, so that no limit of costs would ever hold for it.
fn check_prices(settings: &Settings, known: &Models, limit: &'static str) -> Result<(), SettingsError> {
    let mut models: Vec<String> = known.unpriced(settings).into_iter().map(|target| target.model).collect();
    models.dedup();
    match models.first() {
        None => Ok(()),
        Some(first) => {
            let example = format!("{first}=2/8");
            Err(SettingsError::Unpriced { limit, models: models.join(", "), example })
        }
    }
}

/// A setting that every call would fail with.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The URL itself is left out, because it may hold a password.
    #[error("the {provider} base URL {reason}")]
    BaseUrl { provider: Provider, reason: String },
    #[error("MODEL_PRICES can't be used: {0}")]
    Prices(#[from] PricesError),
    #[error(
        "{limit} is set, and would not hold for models whose price is not known: {models}; add them to MODEL_PRICES, such as {example} (US dollars per million tokens)"
    )]
    Unpriced { limit: &'static str, models: String, example: String },
    #[error(transparent)]
    Http(#[from] SetupError),
}

/// One provider as it is called.
pub(crate) struct Endpoint {
    base: Option<BaseUrl>,
    api_key: Option<Secret>,
    pub(crate) api_version: Option<String>,
    pub(crate) region: Option<String>,
    /// For providers that are called with AWS credentials.
    pub(crate) signer: Option<Arc<dyn RequestSigner>>,
}

impl Endpoint {
    pub(crate) fn new(provider: Provider, access: ProviderAccess) -> Result<Self, SettingsError> {
        let public = provider.profile().base_url.map(str::to_owned);
        let base =
            access.base_url.clone().or(public).map(|url| BaseUrl::check(provider, &url)).transpose()?;
        let ProviderAccess { api_key, api_version, region, .. } = access;
        Ok(Self { base, api_key, api_version, region, signer: None })
    }

    /// The key without the white space that files and shells leave around it; none if it is blank.
    pub(crate) fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty())
    }

    pub(crate) fn has_base_url(&self) -> bool {
        self.base.is_some()
    }

    /// Whether the base URL is not the provider's public one.
    pub(crate) fn is_custom(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.custom)
    }

    pub(crate) fn is_https(&self) -> bool {
        self.base.as_ref().is_none_or(|base| base.https)
    }

    /// The variables that have to be set before the provider can be called.
    pub(crate) fn missing(&self, provider: Provider) -> Vec<&'static str> {
        provider.profile().access.missing(provider, self.key().is_some(), self.is_custom())
    }

    pub(crate) fn url(&self, call: Call<'_>, path: &str) -> Result<String, VisionError> {
        let base = self.base.as_ref().ok_or_else(|| call.misconfigured("no base URL is set"))?;
        Ok(format!("{}{path}", base.text))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_ref().map_or("(no base URL)", |base| &base.text))
    }
}

/// A model's name as one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    const PLAIN: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A checked base URL, ready to have a path appended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BaseUrl {
    text: String,
    /// It is not the provider's public one.
    custom: bool,
    https: bool,
}

impl BaseUrl {
    fn check(provider: Provider, text: &str) -> Result<Self, SettingsError> {
        let fault = |reason: &str| SettingsError::BaseUrl { provider, reason: reason.to_owned() };
        let text = text.trim().trim_end_matches('/');
        let url = Url::parse(text).map_err(|error| fault(&format!("is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(fault("must start with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault("must not hold a user name or password; set the API key instead"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault("must not have a query (?…) or fragment (#…)"));
        }
        let custom = Some(text) != provider.profile().base_url;
        Ok(Self { text: text.to_owned(), custom, https: url.scheme() == "https" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_does_not_matter() {
        for text in ["http://127.0.0.1:8/v1", "http://127.0.0.1:8/v1/", " http://127.0.0.1:8/v1// "] {
            let base = BaseUrl::check(Provider::OpenAi, text).unwrap();
            assert_eq!(base.text, "http://127.0.0.1:8/v1");
            assert!(base.custom && !base.https);
        }
        assert!(!BaseUrl::check(Provider::OpenAi, "https://api.openai.com/v1/").unwrap().custom);
        assert!(!BaseUrl::check(Provider::Anthropic, "https://api.anthropic.com/").unwrap().custom);
    }

    #[test]
    fn a_bad_base_url_is_explained_without_repeating_it() {
        let table = [
            ("", "is not a URL"),
            ("api.openai.com/v1", "is not a URL"),
            ("ftp://host/v1", "must start with http"),
            ("https://joe:hunter2@host/v1", "must not hold a user name or password"),
            ("https://host/v1?key=hunter2", "must not have a query"),
        ];
        for (text, reason) in table {
            let error = BaseUrl::check(Provider::OpenAi, text).unwrap_err().to_string();
            assert!(error.starts_with("the openai base URL ") && error.contains(reason), "{text}: {error}");
            assert!(!error.contains("hunter2"));
        }
    }

    #[test]
    fn a_threshold_that_a_model_without_a_price_would_bypass_is_an_error() {
        let check = |prices: &str| {
            let given = [
                ("OPENAI_API_KEY", "k"),
                ("OPENAI_PRIMARY_MODEL", "qwen2.5-vl"),
                ("APPROVAL_THRESHOLD_USD", "2"),
                ("MODEL_PRICES", prices),
            ];
            let read = Settings::read(|name| {
                given.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            });
            VisionSettings::from_settings(&read.unwrap().settings)
        };
        let error = check("").unwrap_err().to_string();
        assert!(error.contains("APPROVAL_THRESHOLD_USD") && error.contains("qwen2.5-vl"), "{error}");
        assert!(check("qwen2.5-vl=0/0").is_ok());
    }

    #[test]
    fn a_blank_key_counts_as_none_and_surrounding_white_space_is_ignored() {
        let key = |text: &str| {
            let access = ProviderAccess { api_key: Some(Secret::new(text)), ..ProviderAccess::default() };
            Endpoint::new(Provider::OpenAi, access).unwrap().key().map(str::to_owned)
        };
        assert_eq!(key(" \n"), None);
        assert_eq!(key("abc\n").as_deref(), Some("abc"));
    }

    #[test]
    fn a_limit_on_costs_needs_the_price_of_every_model() {
        let read = |pairs: &[(&str, &str)]| {
            let value =
                |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            VisionSettings::from_settings(&Settings::read(value).unwrap().settings).map(drop)
        };
        let model = [("OPENAI_API_KEY", "k"), ("SECONDARY_ENGINE", "openai"), ("OPENAI_FAST_MODEL", "mine")];
        assert!(read(&model).is_ok());
        for limit in ["APPROVAL_THRESHOLD_USD", "BUDGET_USD", "TENANT_BUDGET_USD"] {
            let limited = [&model[..], &[(limit, "5")]].concat();
            let error = read(&limited).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!(
                    "{limit} is set, and would not hold for models whose price is not known: mine;"
                )),
                "{error}"
            );
            assert!(read(&[&limited[..], &[("MODEL_PRICES", "mine=0/0")]].concat()).is_ok());
        }
    }

    #[test]
    fn a_name_in_a_path_is_one_segment() {
        assert_eq!(path_segment("gemini-3.8-flash"), "gemini-3.8-flash");
        assert_eq!(path_segment("../x y:z"), "..%2Fx%20y%3Az");
    }
}
