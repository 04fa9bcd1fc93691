//! Signs requests to AWS services that need no SDK client here, such as Bedrock's Converse.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider},
};
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4::SigningParams,
};
use everypage_core::ports::signer::{RequestSigner, Signable};
use tokio::sync::Mutex;

/// Credentials are fetched again this long before they expire.
const EXPIRY_MARGIN: Duration = Duration::from_secs(300);

/// SigV4 with the credentials of the default chain: environment, profile, role.
pub struct SigV4 {
    credentials: SharedCredentialsProvider,
    region: Option<String>,
    /// The chain itself may ask another service for every call.
    cached: Mutex<Option<Credentials>>,
}

impl SigV4 {
    pub fn new(credentials: SharedCredentialsProvider, region: Option<String>) -> Self {
        Self { credentials, region, cached: Mutex::new(None) }
    }

    /// With one pair of keys that does not expire.
    pub fn from_keys(id: &str, secret: &str, region: &str) -> Self {
        let credentials = Credentials::new(id, secret, None, None, "keys");
        Self::new(SharedCredentialsProvider::new(credentials), Some(region.to_owned()))
    }

    async fn credentials(&self) -> Result<Credentials, String> {
        let mut cached = self.cached.lock().await;
        let is_fresh = |credentials: &&Credentials| {
            credentials.expiry().is_none_or(|expiry| expiry > now() + EXPIRY_MARGIN)
        };
        if let Some(credentials) = cached.as_ref().filter(is_fresh) {
            return Ok(credentials.clone());
        }
        let fetched = self.credentials.provide_credentials().await;
        let fetched = fetched.map_err(|error| format!("there are no AWS credentials: {error}"))?;
        *cached = Some(fetched.clone());
        Ok(fetched)
    }
}

#[async_trait]
impl RequestSigner for SigV4 {
    fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    async fn sign(&self, request: Signable<'_>) -> Result<Vec<(String, String)>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the request can't be signed: {error}");
        let identity = self.credentials().await?.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(request.region)
            .name(request.service)
            .time(now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(&error))?
            .into();
        let headers = std::iter::empty();
        let signable = SignableRequest::new("POST", request.url, headers, SignableBody::Bytes(request.body))
            .map_err(|error| failed(&error))?;
        let (signed, _) = sign(signable, &params).map_err(|error| failed(&error))?.into_parts();
        Ok(signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

#[expect(clippy::disallowed_methods, reason = "AWS compares a signature with its own, real time")]
fn now() -> SystemTime {
    SystemTime::now()
}
