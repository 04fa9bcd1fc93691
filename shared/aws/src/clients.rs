//! One connection to AWS, or to an emulator of it, for all adapters.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig,
    timeout::TimeoutConfigBuilder,
};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_http_client::tls;

use crate::SigV4;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The services respond in milliseconds: a call that takes this long is better retried.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// S3 responds to an upload once all of it has arrived. The SDK's stalled stream protection ends an
/// upload without progress much sooner.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(180);

/// The SDK clients of all adapters. Cheap to clone; all share one connection pool.
#[derive(Clone)]
pub struct Clients {
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub eventbridge: aws_sdk_eventbridge::Client,
    pub kms: aws_sdk_kms::Client,
    pub s3: aws_sdk_s3::Client,
    pub secrets: aws_sdk_secretsmanager::Client,
    pub sfn: aws_sdk_sfn::Client,
    pub sns: aws_sdk_sns::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub sts: aws_sdk_sts::Client,
    /// The region of the clients; `None` when none is configured.
    pub region: Option<String>,
    credentials: Option<SharedCredentialsProvider>,
}

impl Clients {
    /// Creates the clients with region and credentials of the default chain (environment, profile, role).
    ///
    /// `endpoint` is an emulator's address: all calls go there, with the credentials that emulators
    /// expect (`test`) and path-style S3 buckets.
    pub async fn connect(endpoint: Option<String>, region: Option<String>) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(https())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(RESPONSE_TIMEOUT).build());
        if let Some(region) = region {
            loader = loader.region(Region::new(region));
        }
        let emulated = endpoint.is_some();
        if let Some(endpoint) = endpoint {
            let credentials = Credentials::new("test", "test", None, None, "emulator");
            loader = loader
                .endpoint_url(endpoint)
                .credentials_provider(SharedCredentialsProvider::new(credentials));
        }
        Self::new(&loader.load().await, emulated)
    }

    pub(crate) fn new(config: &SdkConfig, path_style: bool) -> Self {
        let s3 = aws_sdk_s3::config::Builder::from(config)
            .force_path_style(path_style)
            .timeout_config(timeouts(UPLOAD_TIMEOUT).build())
            .build();
        Self {
            dynamodb: aws_sdk_dynamodb::Client::new(config),
            eventbridge: aws_sdk_eventbridge::Client::new(config),
            kms: aws_sdk_kms::Client::new(config),
            s3: aws_sdk_s3::Client::from_conf(s3),
            secrets: aws_sdk_secretsmanager::Client::new(config),
            sfn: aws_sdk_sfn::Client::new(config),
            sns: aws_sdk_sns::Client::new(config),
            sqs: aws_sdk_sqs::Client::new(config),
            sts: aws_sdk_sts::Client::new(config),
            region: config.region().map(ToString::to_string),
            credentials: config.credentials_provider(),
        }
    }

    /// Signs other requests with the same credentials.
    pub fn signer(&self) -> Option<SigV4> {
        Some(SigV4::new(self.credentials.clone()?, self.region.clone()))
    }

    /// Sets the time limit of an S3 upload, for callers with a slow connection.
    pub fn with_upload_timeout(mut self, timeout: Duration) -> Self {
        let config = self.s3.config().to_builder().timeout_config(timeouts(timeout).build()).build();
        self.s3 = aws_sdk_s3::Client::from_conf(config);
        self
    }
}

fn timeouts(response: Duration) -> TimeoutConfigBuilder {
    TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).operation_attempt_timeout(response)
}

/// The project's only TLS stack: rustls with ring.
fn https() -> SharedHttpClient {
    let ring = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    aws_smithy_http_client::Builder::new().tls_provider(ring).build_https()
}
