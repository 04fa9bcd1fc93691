//! The settings of the adapter; nothing here reads the environment.

use std::{collections::BTreeMap, fmt, time::Duration};

use everypage_core::{providers::target::Provider, secret::Secret, settings::Settings};
use everypage_outbound::SetupError;
use reqwest::Url;

use crate::{Prices, PricesError};

/// Where one provider is called, and with which key.
#[derive(Clone, Debug)]
pub struct ProviderAccess {
    pub base_url: String,
    /// Without one, calls fail unless `ApiKeyRule` allows them.
    pub api_key: Option<Secret>,
}

impl ProviderAccess {
    /// The provider's public base URL, with this key.
    pub fn official(provider: Provider, api_key: Option<Secret>) -> Self {
        Self { base_url: provider.profile().base_url.to_owned(), api_key }
    }

    /// The key without the white space that files and shells leave around it; none if it is blank.
    pub(crate) fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty())
    }
}

#[derive(Clone, Debug)]
pub struct VisionSettings {
    /// A provider that is not listed has its public base URL and no key.
    pub access: BTreeMap<Provider, ProviderAccess>,
    pub prices: Prices,
    /// A call with a longer response fails.
    pub max_response_bytes: usize,
    pub connect_timeout: Duration,
}

impl VisionSettings {
    pub fn new(access: impl IntoIterator<Item = (Provider, ProviderAccess)>) -> Self {
        Self {
            access: access.into_iter().collect(),
            prices: Prices::default(),
            // The text of the densest page is some tens of kilobytes: this leaves room for any JSON
            // around it, and limits the memory of eight concurrent calls.
            max_response_bytes: 4 * 1024 * 1024,
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// The part of the program's settings that concerns the adapter.
    pub fn from_settings(settings: &Settings) -> Result<Self, SettingsError> {
        let access = settings.providers.iter().map(|configured| {
            let mut access = ProviderAccess::official(configured.provider, configured.api_key.clone());
            if let Some(url) = &configured.base_url {
                access.base_url.clone_from(url);
            }
            (configured.provider, access)
        });
        Ok(Self { prices: Prices::parse(&settings.model_prices)?, ..Self::new(access) })
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
    #[error(transparent)]
    Http(#[from] SetupError),
}

/// A checked base URL, ready to have a path appended.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    text: String,
    /// It is not the provider's public one.
    pub(crate) custom: bool,
    pub(crate) https: bool,
}

impl BaseUrl {
    pub(crate) fn check(provider: Provider, text: &str) -> Result<Self, SettingsError> {
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
        let custom = text != provider.profile().base_url;
        Ok(Self { text: text.to_owned(), custom, https: url.scheme() == "https" })
    }

    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_does_not_matter() {
        for text in ["http://127.0.0.1:8/v1", "http://127.0.0.1:8/v1/", " http://127.0.0.1:8/v1// "] {
            let base = BaseUrl::check(Provider::OpenAi, text).unwrap();
            assert_eq!(base.join("/chat/completions"), "http://127.0.0.1:8/v1/chat/completions");
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
    fn a_blank_key_counts_as_none_and_surrounding_white_space_is_ignored() {
        let key = |text: &str| {
            let access = ProviderAccess::official(Provider::OpenAi, Some(Secret::new(text)));
            access.key().map(str::to_owned)
        };
        assert_eq!(key(" \n"), None);
        assert_eq!(key("abc\n").as_deref(), Some("abc"));
    }
}
