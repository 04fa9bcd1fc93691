//! Documents in any bucket that the caller may read: listed, and copied into the stack's bucket by S3 itself.

use aws_sdk_s3::{
    error::SdkError,
    types::{MetadataDirective, TaggingDirective},
};
use everypage_core::{document::DocumentKind, ports::Fault};
use percent_encoding::utf8_percent_encode;

use crate::{
    blobs::{IN_SOURCE_NAME, MAX_TRIES_ON_CONFLICT, S3Blobs, SERVICE, check},
    fault::fault,
};

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The object is there: by this copy, or by an earlier one whose reply was lost.
    Stored,
    /// There is no such object.
    Missing,
    /// It has more bytes than allowed, and was not copied.
    TooLarge { bytes: u64 },
}

impl S3Blobs {
    /// The keys under a prefix of any bucket whose names are those of documents, in their order.
    pub async fn list_documents(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, Fault> {
        let call = self.client.list_objects_v2().bucket(bucket).prefix(prefix);
        let mut pages = call.into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| fault(SERVICE, error))?;
            let keys = page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
            found.extend(keys.filter(|key| DocumentKind::by_name(key).is_some()));
        }
        Ok(found)
    }

    /// Copies an object of any bucket of this region, of at most `limit` bytes, to a new key of this one. Neither its
    /// metadata nor its tags are copied: they are its owner's.
    pub async fn copy_from(
        &self,
        bucket: &str,
        object: &str,
        key: &str,
        limit: u64,
    ) -> Result<Copied, Fault> {
        check(key)?;
        let bytes = match self.client.head_object().bucket(bucket).key(object).send().await {
            Ok(head) => head.content_length().unwrap_or(0).max(0) as u64,
            Err(SdkError::ServiceError(response)) if response.raw().status().as_u16() == 404 => {
                return Ok(Copied::Missing);
            }
            Err(error) => return Err(fault(SERVICE, error)),
        };
        if bytes > limit {
            return Ok(Copied::TooLarge { bytes });
        }
        let source = format!("{bucket}/{}", utf8_percent_encode(object, IN_SOURCE_NAME));
        for _ in 0..MAX_TRIES_ON_CONFLICT {
            let call = self.client.copy_object().bucket(&self.bucket).key(key).if_none_match("*");
            let call = call.copy_source(&source).metadata_directive(MetadataDirective::Replace);
            let Err(error) = call.tagging_directive(TaggingDirective::Replace).send().await else {
                return Ok(Copied::Stored);
            };
            match error.raw_response().map(|response| response.status().as_u16()) {
                Some(412) => return Ok(Copied::Stored),
                Some(404) => return Ok(Copied::Missing),
                Some(409) => {}
                _ => return Err(fault(SERVICE, error)),
            }
        }
        Err(Fault::Throttled { service: SERVICE, retry_after: None })
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::config::http::HttpResponse;

    use super::*;
    use crate::test_clients::{clients, response};

    fn head(bytes: u64) -> HttpResponse {
        let mut response = response(200, "");
        response.headers_mut().insert("content-length", bytes.to_string());
        response
    }

    fn copied() -> HttpResponse {
        response(200, "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
    }

    #[tokio::test]
    async fn a_document_is_copied_without_a_download() {
        let (clients, sent) = clients(vec![head(9), response(409, ""), copied()]);
        let blobs = S3Blobs::new(clients.s3, "stack");
        let done = blobs.copy_from("scans", "a b/ä+.pdf", "incoming/acme/u.pdf", 9).await.unwrap();
        assert_eq!(done, Copied::Stored);
        let requests: Vec<_> = sent.actual_requests().collect();
        assert_eq!(
            requests.iter().map(|request| request.method()).collect::<Vec<_>>(),
            ["HEAD", "PUT", "PUT"]
        );
        assert!(requests[0].uri().contains("scans") && requests[1].uri().contains("incoming/acme/u.pdf"));
        let header = |name: &str| requests[2].headers().get(name).unwrap_or_default();
        assert_eq!(header("x-amz-copy-source"), "scans/a%20b/%C3%A4%2B.pdf");
        assert_eq!(header("if-none-match"), "*");
        assert_eq!(
            (header("x-amz-metadata-directive"), header("x-amz-tagging-directive")),
            ("REPLACE", "REPLACE")
        );
    }

    #[tokio::test]
    async fn what_is_missing_too_large_or_copied_already_is_no_fault() {
        let cases = [
            (vec![response(404, "")], Copied::Missing, 1),
            (vec![head(10)], Copied::TooLarge { bytes: 10 }, 1),
            (vec![head(9), response(412, "")], Copied::Stored, 2),
            (vec![head(9), response(404, "")], Copied::Missing, 2),
        ];
        for (responses, expected, calls) in cases {
            let (clients, sent) = clients(responses);
            let blobs = S3Blobs::new(clients.s3, "stack");
            assert_eq!(blobs.copy_from("scans", "a.pdf", "k", 9).await.unwrap(), expected);
            assert_eq!(sent.actual_requests().count(), calls, "{expected:?}");
        }
        let (clients, _) = clients(vec![response(403, "")]);
        assert!(S3Blobs::new(clients.s3, "stack").copy_from("scans", "a.pdf", "k", 9).await.is_err());
    }

    #[tokio::test]
    async fn a_listing_has_the_documents_of_all_its_pages() {
        let page = |keys: &[&str], next: &str| {
            let contents: String =
                keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
            let more = !next.is_empty();
            response(
                200,
                &format!(
                    "<ListBucketResult><IsTruncated>{more}</IsTruncated>\
                     <NextContinuationToken>{next}</NextContinuationToken>{contents}</ListBucketResult>"
                ),
            )
        };
        let (clients, sent) =
            clients(vec![page(&["in/", "in/a.pdf", "in/notes.txt"], "n"), page(&["in/b/c.TIFF"], "")]);
        let found = S3Blobs::new(clients.s3, "stack").list_documents("scans", "in/").await.unwrap();
        assert_eq!(found, ["in/a.pdf", "in/b/c.TIFF"]);
        assert!(sent.actual_requests().all(|request| request.uri().contains("prefix=in%2F")));
    }
}
