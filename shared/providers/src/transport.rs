//! One POST and its answer, bounded in size; what can go wrong below HTTP ends here.

use std::{error::Error as _, time::Duration};

use reqwest::{
    Client, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect, retry,
};

use crate::{
    settings::{Settings, SettingsError},
    tls,
};

/// An idle connection is closed by us before the far side, or a frozen Lambda, makes it stale.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// An error's body only adds words to what its status already says: this much is read of it.
const ERROR_BODY_BYTES: usize = 64 * 1024;
/// And waited for this long.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// What came back, whatever its status.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why nothing usable came back, in words for people.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

pub(crate) struct Transport {
    client: Client,
    max_response_bytes: usize,
}

impl Transport {
    pub(crate) fn new(settings: &Settings, https: bool) -> Result<Self, SettingsError> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls::client_config(https).map_err(SettingsError::Tls)?)
            .user_agent(&settings.user_agent)
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(IDLE_FOR)
            .redirect(redirect::Policy::none())
            // One call is one request on the wire, and no proxy is picked up from the environment.
            .retry(retry::never())
            .no_proxy()
            .build()
            .map_err(SettingsError::Client)?;
        Ok(Self { client, max_response_bytes: settings.max_response_bytes })
    }

    /// Sends `json`. Dropping the future closes the connection.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        json: Vec<u8>,
    ) -> Result<Reply, Broken> {
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .headers(headers.into_iter().collect())
            .body(json);
        let mut response = request.send().await.map_err(|error| Broken(describe(&error)))?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let body = if status.is_success() {
            self.whole_body(response).await?
        } else {
            start_of_body(response).await
        };
        Ok(Reply { status, headers, body })
    }

    /// The body, or an error as soon as it is known to be over the limit: it is never held whole.
    async fn whole_body(&self, mut response: Response) -> Result<Vec<u8>, Broken> {
        let limit = self.max_response_bytes;
        let too_long = || Broken(format!("the answer is over the limit of {limit} bytes"));
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Broken(describe(&error)))? {
            if body.len() + chunk.len() > limit {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Whatever can be had of an error's body: broken, endless or slow, the status is what counts.
async fn start_of_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BODY_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(ERROR_BODY_WAIT, reading).await;
    body
}

/// What happened and the innermost cause; the address is left out.
pub(crate) fn describe(error: &reqwest::Error) -> String {
    let what = if error.is_connect() && error.is_timeout() {
        "no connection in time"
    } else if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else if error.is_body() || error.is_decode() {
        "the answer broke off"
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
