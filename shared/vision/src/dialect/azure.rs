//! Azure OpenAI: OpenAI's chat completions under a customer's own address.
//!
//! The v1 API has the deployment as `model` of the body; with `AZURE_OPENAI_API_VERSION` the older API is
//! called, with the deployment in the path. Both, and the `api-key` header, are documented at
//! learn.microsoft.com/azure/ai-foundry/openai/reference and .../api-version-lifecycle, content filtering at
//! .../concepts/content-filter. `x-ratelimit-reset-*` are seconds; limits that are -1 are not known.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::vision::{Allowance, VisionError};
use reqwest::header::{HeaderMap, HeaderName};

use super::{
    Call, Completion, Dialect, Request,
    openai::{OpenAi, Server, body},
};
use crate::{
    failure::{ErrorBody, Meaning},
    settings::{Endpoint, path_segment},
};

pub(super) struct Azure;

#[async_trait]
impl Dialect for Azure {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let key = call.secret_header(call.key.unwrap_or_default())?;
        let headers = vec![(HeaderName::from_static("api-key"), key)];
        // The address is given with or without the path of the v1 API.
        let root = endpoint.url(call, "")?;
        let root = root.trim_end_matches("/v1").trim_end_matches("/openai");
        let deployment = path_segment(&call.target.model);
        let url = match &endpoint.api_version {
            None => format!("{root}/openai/v1/chat/completions"),
            Some(version) => {
                let version = path_segment(version);
                format!("{root}/openai/deployments/{deployment}/chat/completions?api-version={version}")
            }
        };
        Ok(Request { url, headers, body: call.json(&body(call, Server::OpenAi))? })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        OpenAi.parse(body)
    }

    fn meaning(&self, error: &ErrorBody) -> Option<Meaning> {
        error.has_code("DeploymentNotFound").then_some(Meaning::UnknownModel)
    }

    fn allowance(&self, headers: &HeaderMap) -> Allowance {
        OpenAi.allowance(headers)
    }

    fn rate_limit_reset(&self, headers: &HeaderMap) -> Option<Duration> {
        OpenAi.rate_limit_reset(headers)
    }
}
