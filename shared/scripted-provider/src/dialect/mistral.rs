//! Mistral's OCR endpoint. It has no prompt: the page is not in the request's text, only in its image.
//!
//! Answers as in docs.mistral.ai/api/endpoint/ocr, errors as in docs.mistral.ai/resources/error-glossary and
//! as users report them (github.com/earendil-works/pi/issues/9815); the headers name what is left of a minute
//! (github.com/mistralai/client-ts/issues/169), while the body of a refused call names no limit. OCR neither refuses nor is cut off: such an answer is
//! an empty page, or one with less text.

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt};
use crate::{bucket::Level, image::ImageSize, request::ModelRequest};

pub(super) struct Mistral;

impl Dialect for Mistral {
    fn provider(&self) -> Provider {
        Provider::Mistral
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}/v1")
    }

    fn serves(&self, path: &str) -> bool {
        path == "/v1/ocr"
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "))
    }

    fn prompt(&self, _path: &str, body: &Value) -> Prompt {
        let document = &body["document"];
        let image = document["image_url"].as_str().filter(|_| document["type"] == "image_url");
        Prompt {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            has_image: image.is_some(),
            image: image.and_then(ImageSize::of_base64),
            ..Prompt::default()
        }
    }

    fn answer(&self, request: &ModelRequest, text: &str, _finish: Finish) -> Value {
        let ImageSize { width, height } = request.image.unwrap_or(ImageSize { width: 1, height: 1 });
        json!({
            "pages": [{
                "index": 0,
                "markdown": text,
                "images": [],
                "tables": [],
                "hyperlinks": [],
                "header": null,
                "footer": null,
                "dimensions": { "dpi": 200, "height": height, "width": width },
            }],
            "model": request.model,
            "document_annotation": null,
            "usage_info": { "pages_processed": 1, "doc_size_bytes": 3000 },
        })
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let (kind, code, message) = match status {
            400 => ("invalid_file", "3310", "Image, could not be loaded as a valid image.".to_owned()),
            401 => return json!({ "detail": "Unauthorized" }),
            403 => return json!({ "detail": "Forbidden" }),
            404 => ("invalid_model", "1500", format!("Invalid model: {model}")),
            413 => {
                ("invalid_request_error", "3001", "The document is larger than 52428800 bytes.".to_owned())
            }
            422 => {
                return json!({ "object": "error", "message": { "detail": [{
                    "type": "missing", "loc": ["body", "document"], "msg": "Field required",
                }] }, "type": "invalid_request_error", "param": null, "code": null });
            }
            429 => ("rate_limited", "1300", "Rate limit exceeded".to_owned()),
            503 => {
                ("service_unavailable", "3505", "Service tier capacity exceeded for this model.".to_owned())
            }
            _ => ("internal_server_error", "3000", "Service unavailable.".to_owned()),
        };
        json!({
            "object": "error", "message": message, "type": kind, "param": null, "code": code,
            "raw_status_code": status,
        })
    }

    fn unknown_model(&self, model: &str) -> (u16, Value) {
        (400, self.error(model, 404))
    }

    fn out_of_credit(&self) -> (u16, Value) {
        (402, json!({ "detail": "Payment required: your workspace has no credits left." }))
    }

    fn limit_headers(&self, name: &str, level: &Level, _now: Timestamp) -> Vec<(String, String)> {
        let name = if name == "requests" { "req" } else { name };
        vec![
            (format!("x-ratelimit-limit-{name}-minute"), level.limit.to_string()),
            (format!("x-ratelimit-remaining-{name}-minute"), level.remaining.to_string()),
        ]
    }

    fn refusal(&self) -> &'static str {
        ""
    }
}
