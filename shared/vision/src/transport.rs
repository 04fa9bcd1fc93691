//! One POST and its response, limited in size. Errors below HTTP are turned into text here.

use std::time::Duration;

use everypage_outbound::http::{self, SetupError, describe};
use reqwest::{
    Client, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};

use crate::{dialect::Request, settings::VisionSettings};

/// Idle connections are closed before the server closes them, or a frozen Lambda makes them stale.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The status of an error matters more than its body: no more than this is read of the body, and
/// for no longer.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// A response of any status.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why there is no usable response, in words for people.
#[derive(Debug)]
pub(crate) struct TransportError(pub(crate) String);

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> Self {
        Self(describe(&error))
    }
}

pub(crate) struct Transport {
    client: Client,
    max_response_bytes: usize,
}

impl Transport {
    pub(crate) fn new(settings: &VisionSettings, https: bool) -> Result<Self, SetupError> {
        let client = http::client(https)?
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(SetupError::Client)?;
        Ok(Self { client, max_response_bytes: settings.max_response_bytes })
    }

    /// Sends the request. Dropping the future closes the connection.
    pub(crate) async fn post(&self, request: Request) -> Result<Reply, TransportError> {
        let Request { url, headers, body } = request;
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .headers(headers.into_iter().collect())
            .body(body);
        let mut response = request.send().await?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let body = if status.is_success() {
            self.whole_body(response).await?
        } else {
            start_of_body(response).await
        };
        Ok(Reply { status, headers, body })
    }

    /// The body; fails as soon as it is known to be over the limit, so that memory stays bounded.
    async fn whole_body(&self, mut response: Response) -> Result<Vec<u8>, TransportError> {
        let limit = self.max_response_bytes;
        let too_long = || TransportError(format!("the response is over the limit of {limit} bytes"));
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// As much of an error's body as arrives in time; a broken, endless or slow body is no error of its own.
async fn start_of_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = MAX_ERROR_BODY_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == MAX_ERROR_BODY_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await;
    body
}
