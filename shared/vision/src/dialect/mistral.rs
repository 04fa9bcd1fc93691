//! Mistral's OCR: an image in, Markdown out. There is no prompt, no output limit and no refusal.
//!
//! Documented at docs.mistral.ai/api/endpoint/ocr and docs.mistral.ai/resources/error-glossary. Its
//! rate-limit headers (github.com/mistralai/client-ts/issues/169) name what is left of the current minute,
//! without the moment at which it ends.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::vision::{Allowance, Finish, Quota, VisionError};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::{Deserialize, Serialize};

use super::{Call, Completion, Dialect, Request, Used, image::DataUrl};
use crate::{
    failure::{ErrorBody, Meaning},
    rate_limit::header,
    settings::Endpoint,
};

/// The limits are per minute.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) struct Mistral;

#[async_trait]
impl Dialect for Mistral {
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError> {
        let Some(image) = &call.page.image else {
            return Err(call.cannot_take("it reads images, and this page is sent as text"));
        };
        let body = Body {
            model: &call.target.model,
            document: Document { kind: "image_url", image_url: DataUrl(image) },
            include_image_base64: false,
        };
        let headers = call.bearer()?.map(|key| (AUTHORIZATION, key)).into_iter().collect();
        Ok(Request { url: endpoint.url(call, "/ocr")?, headers, body: call.json(&body)? })
    }

    fn parse(&self, body: &[u8]) -> Option<Completion> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let pages = response.usage_info.and_then(|usage| usage.pages_processed);
        let used = Used { pages: pages.unwrap_or(response.pages.len() as u64), ..Used::default() };
        let text: Vec<String> = response.pages.into_iter().map(|page| page.markdown).collect();
        (!text.is_empty()).then(|| Completion { text: text.join("\n\n"), finish: Finish::Complete, used })
    }

    fn meaning(&self, error: &ErrorBody) -> Option<Meaning> {
        (error.has_code("invalid_model") || error.has_code("1500")).then_some(Meaning::UnknownModel)
    }

    fn allowance(&self, headers: &HeaderMap) -> Allowance {
        let whole = |limit: &str| header(headers, &format!("x-ratelimit-limit-{limit}-minute"))?.parse().ok();
        let quota = |limit: &str| {
            let left = header(headers, &format!("x-ratelimit-remaining-{limit}-minute"))?.parse().ok()?;
            Some(Quota { left, limit: whole(limit), resets_in: WINDOW })
        };
        Allowance { requests: quota("req"), tokens: quota("tokens"), ..Allowance::default() }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    document: Document<'a>,
    include_image_base64: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    image_url: DataUrl<'a>,
}

#[derive(Deserialize)]
struct Response {
    pages: Vec<Page>,
    usage_info: Option<UsageInfo>,
}

#[derive(Deserialize)]
struct Page {
    markdown: String,
}

#[derive(Deserialize)]
struct UsageInfo {
    pages_processed: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_markdown_of_a_response_is_the_text() {
        let body = json!({ "pages": [{ "index": 0, "markdown": "# Hi", "images": [],
            "dimensions": { "dpi": 200, "height": 2200, "width": 1700 } }], "model": "mistral-ocr-4-1",
            "usage_info": { "pages_processed": 1, "doc_size_bytes": 3000 } });
        let parsed = Mistral.parse(body.to_string().as_bytes()).unwrap();
        assert_eq!((parsed.text.as_str(), parsed.finish, parsed.used.pages), ("# Hi", Finish::Complete, 1));
    }

    #[test]
    fn any_other_response_is_rejected() {
        for body in ["", "null", "{}", r#"{"pages":[]}"#, r#"{"pages":[{}]}"#, r#"{"choices":[]}"#] {
            assert!(Mistral.parse(body.as_bytes()).is_none(), "{body}");
        }
    }

    #[test]
    fn what_is_left_of_the_minute_is_known() {
        let headers = [("x-ratelimit-remaining-req-minute", "7"), ("x-ratelimit-limit-req-minute", "60")];
        let headers = headers
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()));
        let allowance = Mistral.allowance(&headers.into_iter().collect());
        assert_eq!(allowance.requests, Some(Quota { left: 7, limit: Some(60), resets_in: WINDOW }));
        assert_eq!(allowance.tokens, None);
    }
}
