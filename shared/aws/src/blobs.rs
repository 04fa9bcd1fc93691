//! Blobs as objects of one S3 bucket. S3 creates an object atomically, and with `If-None-Match` only
//! one writer of a key succeeds.
//!
//! The role needs `s3:ListBucket` besides `GetObject`, `PutObject` and `DeleteObject`: without it S3
//! returns 403, not 404, for a missing key. Reading or deleting one version of an object has separate
//! permissions.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_s3::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::get_object::{GetObjectError, GetObjectOutput},
    presigning::PresigningConfig,
    primitives::ByteStream,
    types::{Delete, MetadataDirective, ObjectIdentifier, TaggingDirective},
};
use everypage_core::{
    document::DocumentKind,
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        downloads::DownloadLinks,
        uploads::{UploadLink, UploadLinks},
    },
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    downloads::{Download, Downloads, MAX_KEPT_BYTES, Origin},
    fault::{by_code, fault},
};

pub(crate) const SERVICE: &str = "S3";
/// S3 returns 409 while another write of the key is in progress; a retry mostly succeeds.
pub(crate) const MAX_TRIES_ON_CONFLICT: usize = 5;

/// Characters that stay as they are in the name of a copy's source.
pub(crate) const IN_SOURCE_NAME: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub struct S3Blobs {
    pub(crate) client: Client,
    pub(crate) bucket: String,
    downloads: Downloads,
}

impl S3Blobs {
    pub fn new(client: Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into(), downloads: Downloads::default() }
    }

    /// Keeps the last documents that were opened, so that a function's instance downloads each once.
    pub fn keep_downloads(&self) {
        self.downloads.keep_up_to(MAX_KEPT_BYTES);
    }

    async fn create<F>(&self, key: &str, content: impl Fn() -> F) -> Result<Stored, Fault>
    where
        F: Future<Output = Result<ByteStream, Fault>>,
    {
        check(key)?;
        for _ in 0..MAX_TRIES_ON_CONFLICT {
            let call = self.client.put_object().bucket(&self.bucket).key(key).if_none_match("*");
            let Err(error) = call.body(content().await?).send().await else {
                return Ok(Stored::Created);
            };
            match error.raw_response().map(|response| response.status().as_u16()) {
                Some(412) => return Ok(Stored::Existed),
                Some(409) => {}
                _ => return Err(fault(SERVICE, error)),
            }
        }
        Err(Fault::Throttled { service: SERVICE, retry_after: None })
    }

    /// Copies an object inside the bucket, under a new key; `None` if it was deleted since. Neither its metadata
    /// nor its tags are copied: they are the uploader's.
    async fn copy(&self, key: &str, copied: &Download, origin: &Origin) -> Result<Option<Stored>, Fault> {
        check(key)?;
        let mut source = format!("{}/{}", self.bucket, utf8_percent_encode(&origin.key, IN_SOURCE_NAME));
        if let Some(version) = &origin.version {
            source += &format!("?versionId={}", utf8_percent_encode(version, IN_SOURCE_NAME));
        }
        for _ in 0..MAX_TRIES_ON_CONFLICT {
            let call = self.client.copy_object().bucket(&self.bucket).key(key).if_none_match("*");
            let call = call.copy_source(&source).copy_source_if_match(&origin.tag);
            let call = call.metadata_directive(MetadataDirective::Replace);
            let error = match call.tagging_directive(TaggingDirective::Replace).send().await {
                Ok(copy) => {
                    let tag = copy.copy_object_result.and_then(|result| result.e_tag).unwrap_or_default();
                    self.downloads.keep(key, &tag, copied);
                    return Ok(Some(Stored::Created));
                }
                Err(error) => error,
            };
            match error.raw_response().map(|response| response.status().as_u16()) {
                // Either the key is taken, or the source was overwritten: an upload distinguishes them.
                Some(412 | 404) => return Ok(None),
                Some(409) => {}
                _ => return Err(fault(SERVICE, error)),
            }
        }
        Err(Fault::Throttled { service: SERVICE, retry_after: None })
    }

    async fn upload(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.create(key, || async {
            let opened = ByteStream::from_path(file).await;
            opened.map_err(|error| Fault::unreachable(SERVICE, format!("{}: {error}", file.display())))
        })
        .await
    }

    /// Gets `version` of an object, or the latest.
    async fn find(&self, key: &str, version: Option<&str>) -> Result<Option<GetObjectOutput>, Fault> {
        check(key)?;
        let call = self.client.get_object().bucket(&self.bucket).key(key);
        match call.set_version_id(version.map(str::to_owned)).send().await {
            Ok(object) => Ok(Some(object)),
            Err(SdkError::ServiceError(response)) if is_missing(response.err()) => Ok(None),
            Err(error) => Err(fault(SERVICE, error)),
        }
    }
}

/// Whether the object or its version is missing; the SDK has no variant for the latter.
fn is_missing(error: &GetObjectError) -> bool {
    matches!(error, GetObjectError::NoSuchKey(_)) || error.code() == Some("NoSuchVersion")
}

/// An object that a caller put into the bucket.
pub struct UploadedObject {
    pub file: LocalFile,
    /// User-defined metadata, without S3's prefix.
    pub metadata: BTreeMap<String, String>,
    /// The entity tag, which changes with the content.
    pub tag: String,
}

impl S3Blobs {
    /// Downloads `version` of an object with its metadata, also when its key was overwritten since. An
    /// object over `limit` bytes is not downloaded: its file has the same length and only zero bytes.
    pub async fn fetch(
        &self,
        key: &str,
        version: Option<&str>,
        limit: u64,
    ) -> Result<Option<UploadedObject>, Fault> {
        let Some(object) = self.find(key, version).await? else { return Ok(None) };
        let metadata = object.metadata().map(|all| all.clone().into_iter().collect()).unwrap_or_default();
        let tag = object.e_tag().unwrap_or_default().to_owned();
        let (version, is_complete) = (version.map(str::to_owned), content_length(&object) <= limit);
        let file = download(object, limit).await;
        let file = file.map_err(|error| Fault::unreachable(SERVICE, format!("{key}: {error}")))?;
        if is_complete && !tag.is_empty() {
            self.downloads.record_origin(&file, Origin { key: key.to_owned(), version, tag: tag.clone() });
        }
        Ok(Some(UploadedObject { file: file.local_file(), metadata, tag }))
    }

    /// Reads a small object, with its version where the bucket has versioning.
    pub async fn read(&self, key: &str) -> Result<Option<(Vec<u8>, Option<String>)>, Fault> {
        let Some(object) = self.find(key, None).await? else { return Ok(None) };
        let version = object.version_id().map(str::to_owned);
        Ok(Some((content(object).await?, version)))
    }

    /// Permanently deletes a version of an object; without `version`, the object of an unversioned bucket.
    pub async fn delete_version(&self, key: &str, version: Option<&str>) -> Result<(), Fault> {
        check(key)?;
        let call = self.client.delete_object().bucket(&self.bucket).key(key);
        let call = call.set_version_id(version.map(str::to_owned));
        call.send().await.map_err(|error| fault(SERVICE, error))?;
        Ok(())
    }
}

async fn content(object: GetObjectOutput) -> Result<Vec<u8>, Fault> {
    let bytes = object.body.collect().await.map_err(|error| Fault::unreachable(SERVICE, error))?;
    Ok(bytes.to_vec())
}

fn content_length(object: &GetObjectOutput) -> u64 {
    object.content_length().unwrap_or(0).max(0) as u64
}

async fn download(object: GetObjectOutput, limit: u64) -> std::io::Result<Download> {
    let (file, path) = tempfile::NamedTempFile::new()?.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let length = content_length(&object);
    if length > limit {
        file.set_len(length).await?;
    } else {
        tokio::io::copy(&mut object.body.into_async_read(), &mut file).await?;
        tokio::io::AsyncWriteExt::flush(&mut file).await?;
    }
    Ok(Download { file: Arc::new(path), bytes: length })
}

#[async_trait]
impl UploadLinks for S3Blobs {
    async fn put(&self, key: &str, time: Duration) -> Result<UploadLink, Fault> {
        check(key)?;
        let valid = PresigningConfig::expires_in(time).map_err(|error| Fault::broken(SERVICE, error))?;
        let kind = DocumentKind::by_name(key).unwrap_or(DocumentKind::Pdf);
        let call = self.client.put_object().bucket(&self.bucket).key(key).content_type(kind.mime());
        let signed = call.presigned(valid).await.map_err(|error| fault(SERVICE, error))?;
        let headers = signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(UploadLink { method: "PUT", url: signed.uri().to_owned(), headers })
    }
}

#[async_trait]
impl DownloadLinks for S3Blobs {
    async fn link(&self, key: &str, media_type: &str, time: Duration) -> Result<String, Fault> {
        check(key)?;
        let valid = PresigningConfig::expires_in(time).map_err(|error| Fault::broken(SERVICE, error))?;
        let call = self.client.get_object().bucket(&self.bucket).key(key).response_content_type(media_type);
        let signed = call.presigned(valid).await.map_err(|error| fault(SERVICE, error))?;
        Ok(signed.uri().to_owned())
    }
}

/// Refuses keys that are not relative paths of plain names, as the local backend does.
pub(crate) fn check(key: &str) -> Result<(), Fault> {
    if !key.is_empty() && Path::new(key).components().all(|part| matches!(part, Component::Normal(_))) {
        Ok(())
    } else {
        Err(Fault::broken("blobs", format!("{key:?} is not a blob key: it must be a relative path")))
    }
}

#[async_trait]
impl Blobs for S3Blobs {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        // Shared, so that a retry does not copy it.
        let content = aws_sdk_s3::primitives::SdkBody::from(bytes);
        self.create(key, || async {
            let body =
                content.try_clone().ok_or_else(|| Fault::broken(SERVICE, "content can't be sent twice"))?;
            Ok(ByteStream::new(body))
        })
        .await
    }

    /// A file that was downloaded from this bucket is copied inside it instead of being sent back.
    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        if let Some((copied, origin)) = self.downloads.origin(file)
            && let Some(stored) = self.copy(key, &copied, &origin).await?
        {
            return Ok(stored);
        }
        self.upload(key, file).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some(object) = self.find(key, None).await? else { return Ok(None) };
        Ok(Some(content(object).await?))
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        check(key)?;
        let _turn = self.downloads.turn.lock().await;
        let kept = self.downloads.kept(key);
        let call = self.client.get_object().bucket(&self.bucket).key(key);
        // Asked even for a kept copy: the document may have been deleted since.
        let object = match call.set_if_none_match(kept.as_ref().map(|(tag, _)| tag.clone())).send().await {
            Ok(object) => object,
            Err(SdkError::ServiceError(response)) if is_missing(response.err()) => {
                self.downloads.discard(key);
                return Ok(None);
            }
            Err(error) => {
                let status = error.raw_response().map(|response| response.status().as_u16());
                return match kept {
                    Some((_, download)) if status == Some(304) => Ok(Some(download.local_file())),
                    _ => Err(fault(SERVICE, error)),
                };
            }
        };
        let tag = object.e_tag().unwrap_or_default().to_owned();
        let downloaded = download(object, u64::MAX).await;
        let downloaded =
            downloaded.map_err(|error| Fault::unreachable(SERVICE, format!("{key}: {error}")))?;
        self.downloads.keep(key, &tag, &downloaded);
        Ok(Some(downloaded.local_file()))
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        check(key)?;
        self.downloads.discard(key);
        let call = self.client.delete_object().bucket(&self.bucket).key(key).send();
        call.await.map(drop).map_err(|error| fault(SERVICE, error))
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        check(prefix)?;
        self.downloads.discard(prefix);
        let mut pages =
            self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| fault(SERVICE, error))?;
            let keys: Result<Vec<_>, _> = page
                .contents
                .unwrap_or_default()
                .into_iter()
                .map(|object| ObjectIdentifier::builder().set_key(object.key).build())
                .collect();
            let keys = keys.map_err(|error| Fault::broken(SERVICE, error))?;
            if keys.is_empty() {
                continue;
            }
            // A page of a listing and one delete call have the same limit: 1000 keys.
            let batch = Delete::builder().set_objects(Some(keys)).quiet(true).build();
            let batch = batch.map_err(|error| Fault::broken(SERVICE, error))?;
            let call = self.client.delete_objects().bucket(&self.bucket).delete(batch).send();
            let response = call.await.map_err(|error| fault(SERVICE, error))?;
            if let Some(error) = response.errors().first() {
                let (code, message) = (error.code().unwrap_or_default(), error.message().unwrap_or_default());
                let status = if matches!(code, "InternalError" | "ServiceUnavailable") { 500 } else { 200 };
                return Err(by_code(SERVICE, code, message, status, None));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::config::http::HttpResponse;
    use aws_smithy_http_client::test_util::StaticReplayClient;

    use super::*;
    use crate::test_clients::{clients, response};

    #[tokio::test]
    async fn a_conflict_is_retried_until_one_writer_succeeded() {
        let (clients, sent) = clients(vec![response(409, ""), response(409, ""), response(412, "")]);
        let stored = S3Blobs::new(clients.s3, "b").put_new("k", b"x".to_vec()).await.unwrap();
        assert_eq!(stored, Stored::Existed);
        assert_eq!(sent.actual_requests().count(), 3);
        assert!(sent.actual_requests().all(|request| request.headers().get("if-none-match") == Some("*")));
    }

    #[tokio::test]
    async fn a_conflict_that_stays_is_throttling() {
        let (clients, _) = clients((0..MAX_TRIES_ON_CONFLICT).map(|_| response(409, "")).collect());
        let fault = S3Blobs::new(clients.s3, "b").put_new("k", b"x".to_vec()).await.unwrap_err();
        assert!(matches!(fault, Fault::Throttled { .. }));
    }

    #[tokio::test]
    async fn a_missing_bucket_is_not_a_missing_blob() {
        let body = "<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>";
        let (clients, _) = clients(vec![response(404, body)]);
        let fault = S3Blobs::new(clients.s3, "b").get("k").await.unwrap_err();
        assert!(fault.to_string().contains("bucket's name"), "{fault}");
    }

    #[tokio::test]
    async fn a_version_is_read_and_deleted_by_its_id() {
        let missing = "<Error><Code>NoSuchVersion</Code><Message>no</Message></Error>";
        let (clients, sent) = clients(vec![response(200, "one"), response(404, missing), response(204, "")]);
        let blobs = S3Blobs::new(clients.s3, "b");
        let found = blobs.fetch("k", Some("v1"), 10).await.unwrap().unwrap();
        assert_eq!(std::fs::read(found.file.path()).unwrap(), b"one");
        assert!(blobs.fetch("k", Some("v1"), 10).await.unwrap().is_none(), "deleted permanently");
        blobs.delete_version("k", Some("v1")).await.unwrap();
        assert!(sent.actual_requests().all(|request| request.uri().contains("versionId=v1")));
    }

    /// A response with an entity tag and a length, as S3 gives.
    fn object(body: &str, tag: &str) -> HttpResponse {
        let mut response = response(200, body);
        response.headers_mut().insert("etag", tag.to_owned());
        response.headers_mut().insert("content-length", body.len().to_string());
        response
    }

    fn copied(tag: &str) -> HttpResponse {
        response(200, &format!("<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>"))
    }

    fn calls(sent: &StaticReplayClient) -> Vec<String> {
        let path =
            |uri: &str| uri.split('?').next().unwrap_or_default().rsplit('/').next().unwrap().to_owned();
        sent.actual_requests()
            .map(|request| format!("{} {}", request.method(), path(request.uri())))
            .collect()
    }

    #[tokio::test]
    async fn an_upload_is_downloaded_once_and_copied_inside_the_bucket() {
        let (clients, sent) =
            clients(vec![object("one", "\"e1\""), copied("\"e2\""), response(304, ""), response(304, "")]);
        let blobs = S3Blobs::new(clients.s3, "b");
        blobs.keep_downloads();
        let upload = blobs.fetch("incoming/acme/a b+.pdf", Some("v/1"), 10).await.unwrap().unwrap();
        assert_eq!(blobs.put_file("jobs/j/source.pdf", upload.file.path()).await.unwrap(), Stored::Created);
        drop(upload);
        for _ in 0..2 {
            let opened = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap();
            assert_eq!(std::fs::read(opened.path()).unwrap(), b"one");
        }
        assert_eq!(
            calls(&sent),
            ["GET a%20b%2B.pdf", "PUT source.pdf", "GET source.pdf", "GET source.pdf"],
            "nothing is sent back, and the body comes once"
        );
        let requests: Vec<_> = sent.actual_requests().collect();
        let header =
            |index: usize, name: &str| requests[index].headers().get(name).unwrap_or_default().to_owned();
        assert_eq!(header(1, "x-amz-copy-source"), "b/incoming/acme/a%20b%2B.pdf?versionId=v/1");
        assert_eq!(
            (header(1, "x-amz-copy-source-if-match"), header(1, "if-none-match")),
            ("\"e1\"".into(), "*".into())
        );
        assert_eq!(header(3, "if-none-match"), "\"e2\"");
    }

    #[tokio::test]
    async fn an_upload_that_was_deleted_or_is_stored_already_is_sent_back_and_one_writer_wins() {
        for refused in [404, 412] {
            let error = "<Error><Code>X</Code><Message>no</Message></Error>";
            let (clients, sent) =
                clients(vec![object("one", "\"e1\""), response(refused, error), response(412, "")]);
            let blobs = S3Blobs::new(clients.s3, "b");
            let upload = blobs.fetch("incoming/a", None, 10).await.unwrap().unwrap();
            assert_eq!(
                blobs.put_file("jobs/j/source.pdf", upload.file.path()).await.unwrap(),
                Stored::Existed
            );
            assert_eq!(sent.actual_requests().count(), 3);
        }
    }

    #[tokio::test]
    async fn a_kept_copy_of_a_deleted_document_is_not_given() {
        let missing = "<Error><Code>NoSuchKey</Code><Message>no</Message></Error>";
        let (clients, _) =
            clients(vec![object("one", "\"e1\""), response(404, missing), object("two", "\"e2\"")]);
        let blobs = S3Blobs::new(clients.s3, "b");
        blobs.keep_downloads();
        let path = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap().path().to_owned();
        assert!(path.exists(), "kept");
        assert!(blobs.open("jobs/j/source.pdf").await.unwrap().is_none());
        assert!(!path.exists());
        let opened = blobs.open("jobs/j/source.pdf").await.unwrap().unwrap();
        assert_eq!(std::fs::read(opened.path()).unwrap(), b"two");
    }

    #[tokio::test]
    async fn an_object_over_the_limit_is_never_copied() {
        let (clients, sent) = clients(vec![object("one", "\"e1\""), response(200, "")]);
        let blobs = S3Blobs::new(clients.s3, "b");
        let upload = blobs.fetch("incoming/a", None, 2).await.unwrap().unwrap();
        blobs.put_file("jobs/j/source.pdf", upload.file.path()).await.unwrap();
        let copies =
            sent.actual_requests().filter(|request| request.headers().get("x-amz-copy-source").is_some());
        assert_eq!(copies.count(), 0, "the file has the length and not the content");
    }

    #[tokio::test]
    async fn a_blob_that_could_not_be_deleted_is_an_error() {
        let list = "<ListBucketResult><Contents><Key>a/b</Key></Contents></ListBucketResult>";
        let failed = "<DeleteResult><Error><Key>a/b</Key><Code>InternalError</Code></Error></DeleteResult>";
        let (clients, _) = clients(vec![response(200, list), response(200, failed)]);
        let fault = S3Blobs::new(clients.s3, "b").delete_all("a/").await.unwrap_err();
        assert!(matches!(fault, Fault::Unreachable { .. }));
    }

    #[tokio::test]
    async fn an_invalid_key_is_refused_without_a_call() {
        let (clients, sent) = clients(vec![]);
        let blobs = S3Blobs::new(clients.s3, "b");
        for key in ["", "/", "../x", "a/../../x", "/etc/passwd", "./x"] {
            assert!(matches!(blobs.get(key).await, Err(Fault::Broken { .. })), "{key}");
            assert!(blobs.put_new(key, vec![]).await.is_err(), "{key}");
            assert!(blobs.delete(key).await.is_err(), "{key}");
            assert!(blobs.delete_all(key).await.is_err(), "{key}");
        }
        assert_eq!(sent.actual_requests().count(), 0);
    }
}
