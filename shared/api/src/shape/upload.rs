use std::collections::BTreeMap;

use everypage_core::{intake::uploads::Upload, ports::uploads};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Document, Failure, Job, Links, Options, Status};

/// The request that uploads the document.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadLink {
    /// The HTTP method.
    #[schema(example = "PUT")]
    pub method: String,
    /// The signed URL.
    pub url: String,
    /// Headers that the upload must have.
    pub headers: BTreeMap<String, String>,
    /// When the link expires.
    pub expires_at: Timestamp,
}

impl UploadLink {
    pub fn new(link: uploads::UploadLink, expires_at: Timestamp) -> Self {
        let headers = link.headers.into_iter().collect();
        Self { method: link.method.to_owned(), url: link.url, headers, expires_at }
    }
}

impl Job {
    /// An upload as a job that waits for its document.
    pub fn awaited(upload: Upload, now: Timestamp) -> Self {
        let (status, message) = match &upload.failure {
            Some(failure) => (Status::Failed, failure.reason.clone()),
            None if now < upload.expires_at => (Status::AwaitingUpload, "waiting for the upload".to_owned()),
            None => {
                let message = "the upload link expired unused; submit the document again";
                (Status::AwaitingUpload, message.to_owned())
            }
        };
        let place = format!("/v1/jobs/{}", upload.id);
        Self {
            links: Links { this: place, pages: None, events: None, result: None, cancel: None },
            status,
            state: None,
            progress: Some(if status == Status::Failed { 100 } else { 0 }),
            message,
            document: Document { name: upload.name, bytes: None, sha256: None },
            options: Options::from(&upload.options),
            user: upload.user,
            source: upload.source,
            created_at: upload.created_at,
            started_at: None,
            deadline: None,
            finished_at: None,
            pages: None,
            plan: None,
            result: None,
            error: upload.failure.map(Failure::from),
            redrives: 0,
            correlation_id: None,
            trace_id: None,
            queue: None,
            upload: None,
            id: upload.id,
        }
    }
}
