//! One connection to AWS, or to an emulator of it, for all adapters.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig,
    timeout::TimeoutConfigBuilder,
};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_http_client::tls;

const CONNECT: Duration = Duration::from_secs(3);
/// The services answer in milliseconds; whatever takes this long is better asked again.
const ANSWER: Duration = Duration::from_secs(10);
/// An S3 upload is answered once all of it has arrived. One that stops moving is cut off much
/// sooner, by the SDK's protection against stalled streams.
const UPLOAD: Duration = Duration::from_secs(180);

/// Cheap to clone; all share one pool of connections.
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
    /// Where they are; `None` when nobody said.
    pub region: Option<String>,
}

impl Clients {
    /// Region and credentials come from where AWS puts them (environment, profile, role).
    ///
    /// `endpoint` is an emulator's address: everything goes there, with the credentials that
    /// emulators expect (`test`), and S3 buckets are named in the path.
    pub async fn connect(endpoint: Option<String>, region: Option<String>) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(https())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(ANSWER).build());
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
            .timeout_config(timeouts(UPLOAD).build())
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
        }
    }

    /// The same for a door with a slow line: an upload may take this long, as long as it moves.
    pub fn with_uploads_within(mut self, time: Duration) -> Self {
        let patient = self.s3.config().to_builder().timeout_config(timeouts(time).build()).build();
        self.s3 = aws_sdk_s3::Client::from_conf(patient);
        self
    }
}

fn timeouts(answer: Duration) -> TimeoutConfigBuilder {
    TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(answer)
}

/// The one TLS stack of the project: rustls with ring.
fn https() -> SharedHttpClient {
    let ring = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    aws_smithy_http_client::Builder::new().tls_provider(ring).build_https()
}
