//! What the adapter is told at start; nothing here is read from the environment.

use std::{fmt, time::Duration};

use everypage_core::{
    config,
    domain::{secret::Secret, target::Provider},
};
use reqwest::Url;

use crate::{Prices, PricesError};

pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";

/// Where one provider is and how it knows us.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    pub base_url: String,
    /// Without one, a provider is not asked at all, except an OpenAI-like server at an address
    /// of its own: local servers often have no keys.
    pub api_key: Option<Secret>,
}

impl ProviderSettings {
    /// The provider's public address, with this key.
    pub fn official(provider: Provider, api_key: Option<Secret>) -> Self {
        Self { base_url: official_base_url(provider).to_owned(), api_key }
    }

    /// The key without the white space that files and shells leave around it; none if empty.
    pub(crate) fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty())
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub openai: ProviderSettings,
    pub anthropic: ProviderSettings,
    pub prices: Prices,
    pub user_agent: String,
    /// A longer answer is cut off and counts as broken.
    pub max_response_bytes: usize,
    pub connect_timeout: Duration,
}

impl Settings {
    pub fn new(openai: ProviderSettings, anthropic: ProviderSettings) -> Self {
        Self {
            openai,
            anthropic,
            prices: Prices::default(),
            user_agent: concat!("everypage/", env!("CARGO_PKG_VERSION")).to_owned(),
            // The text of the densest page is some tens of kilobytes: this leaves room for any
            // wrapping, and bounds what eight concurrent calls can occupy.
            max_response_bytes: 4 * 1024 * 1024,
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// As the program was configured.
    pub fn of(settings: &config::Settings) -> Result<Self, PricesError> {
        let access = |provider| {
            let engine = settings.engines.iter().find(|engine| engine.provider == provider);
            let mut access =
                ProviderSettings::official(provider, engine.and_then(|engine| engine.api_key.clone()));
            if let Some(url) = engine.and_then(|engine| engine.base_url.clone()) {
                access.base_url = url;
            }
            access
        };
        let mut adapter = Self::new(access(Provider::OpenAi), access(Provider::Anthropic));
        adapter.prices = Prices::parse(&settings.model_prices)?;
        Ok(adapter)
    }
}

/// A setting that no call could work with.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The address itself is left out, as it may hold a password.
    #[error("the {provider} base URL {reason}")]
    BaseUrl { provider: Provider, reason: String },
    #[error("the HTTP client could not be made: {0}")]
    Client(#[source] reqwest::Error),
    #[error("TLS could not be set up: {0}")]
    Tls(#[source] rustls::Error),
    #[error("traces can't be sent: {0} (OTEL_EXPORTER_OTLP_ENDPOINT)")]
    Traces(String),
}

/// A checked base address, ready to have a path appended.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Base {
    text: String,
    pub(crate) custom: bool,
    pub(crate) https: bool,
}

impl Base {
    pub(crate) fn check(provider: Provider, text: &str) -> Result<Self, SettingsError> {
        let fault = |reason: &str| SettingsError::BaseUrl { provider, reason: reason.to_owned() };
        let text = text.trim().trim_end_matches('/');
        let url = Url::parse(text).map_err(|error| fault(&format!("is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(fault("must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault("must not hold a user name or password; set the API key instead"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault("must not have a query (?…) or fragment (#…)"));
        }
        let custom = text != official_base_url(provider);
        Ok(Self { text: text.to_owned(), custom, https: url.scheme() == "https" })
    }

    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn official_base_url(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAi => OPENAI_BASE_URL,
        Provider::Anthropic => ANTHROPIC_BASE_URL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_does_not_matter() {
        for text in ["http://127.0.0.1:8/v1", "http://127.0.0.1:8/v1/", " http://127.0.0.1:8/v1// "] {
            let base = Base::check(Provider::OpenAi, text).unwrap();
            assert_eq!(base.join("/chat/completions"), "http://127.0.0.1:8/v1/chat/completions");
            assert!(base.custom && !base.https);
        }
        assert!(!Base::check(Provider::OpenAi, "https://api.openai.com/v1/").unwrap().custom);
        assert!(!Base::check(Provider::Anthropic, "https://api.anthropic.com/").unwrap().custom);
    }

    #[test]
    fn a_bad_base_url_is_explained_without_repeating_it() {
        let table = [
            ("", "is not a URL"),
            ("api.openai.com/v1", "is not a URL"),
            ("ftp://host/v1", "must begin with http"),
            ("https://joe:hunter2@host/v1", "must not hold a user name or password"),
            ("https://host/v1?key=hunter2", "must not have a query"),
        ];
        for (text, reason) in table {
            let error = Base::check(Provider::OpenAi, text).unwrap_err().to_string();
            assert!(error.starts_with("the openai base URL ") && error.contains(reason), "{text}: {error}");
            assert!(!error.contains("hunter2"));
        }
    }

    #[test]
    fn a_blank_key_is_no_key_and_white_space_around_one_is_ignored() {
        let key = |text: &str| {
            let settings = ProviderSettings::official(Provider::OpenAi, Some(Secret::new(text)));
            settings.key().map(str::to_owned)
        };
        assert_eq!(key(" \n"), None);
        assert_eq!(key("abc\n").as_deref(), Some("abc"));
    }
}
