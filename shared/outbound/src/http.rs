//! Common to every HTTP client: TLS, the user agent, no redirects, and how errors are described.

use std::{error::Error as _, sync::Arc};

use reqwest::{Client, ClientBuilder, redirect, retry};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

pub const USER_AGENT: &str = concat!("everypage/", env!("CARGO_PKG_VERSION"));

/// Why an HTTP client could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the HTTP client can't be created: {0}")]
    Client(#[source] reqwest::Error),
    #[error("TLS can't be set up: {0}")]
    Tls(#[source] rustls::Error),
    #[error("notices can't be sent: {1}; check {0}")]
    Notices(&'static str, String),
    #[error("traces and logs can't be exported: {0}; check OTEL_EXPORTER_OTLP_ENDPOINT")]
    Traces(String),
}

/// A client that sends one request per call: it neither follows redirects nor retries, and takes no proxy from
/// the environment, which would see every key and document.
///
/// Without `https` it trusts no certificate, so that every HTTPS call fails.
pub fn client(https: bool) -> Result<ClientBuilder, SetupError> {
    Ok(Client::builder()
        .tls_backend_preconfigured(tls_config(https)?)
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never()))
}

/// TLS by rustls and ring. With `system_roots`, it trusts the machine's own certificate store, so a
/// company's CA works once it is installed.
///
/// Without them, or where the machine has none, it trusts no certificate: plain HTTP on loopback
/// still works, and an HTTPS call fails on its own instead of the whole program at start.
pub(crate) fn tls_config(system_roots: bool) -> Result<ClientConfig, SetupError> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(SetupError::Tls)
    };
    // Reading some 150 certificates takes milliseconds that a plain-HTTP program need not spend.
    if system_roots && let Ok(trusting) = builder()?.with_platform_verifier() {
        return Ok(trusting.with_no_client_auth());
    }
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// The error and its innermost cause, without the URL, which may hold secrets.
pub fn describe(error: &reqwest::Error) -> String {
    let what = if error.is_connect() && error.is_timeout() {
        "no connection in time"
    } else if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no response in time"
    } else if error.is_body() || error.is_decode() {
        "the response broke off"
    } else {
        "the connection broke"
    };
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    match cause {
        Some(cause) => format!("{what}: {cause}"),
        None => what.to_owned(),
    }
}
