//! Announces the upload of a document: the caller gets the key to upload it to.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    digest::sha256_hex,
    ids::TenantId,
    intake::{
        Intake,
        options::OptionOverrides,
        submit::SubmitError,
        uploads::{self, INCOMING, Upload},
    },
    job::{JobOptions, RequestSource},
    records::Versioned,
    secret::Secret,
    tenants::administration,
    time::after,
    trace::TraceContext,
};

/// Maximum length of a document's name within an object key.
const MAX_NAME_LEN: usize = 100;

/// A document that the caller is going to upload.
pub struct UploadAnnouncement {
    pub tenant: TenantId,
    pub user: Option<String>,
    /// The document's name, for people.
    pub name: String,
    pub options: JobOptions,
    pub password: Option<Secret>,
    /// The caller's name for the request.
    pub idempotency_key: Option<String>,
    /// The caller's trace context.
    pub traceparent: Option<TraceContext>,
}

/// Records an upload, which expires after `ttl`; the caller puts the document under its `key`.
///
/// A repeated request with the same idempotency key returns the same upload with a new expiry, or what
/// became of it. The key with another name or other options is an error.
pub async fn announce(
    intake: &Intake,
    announcement: UploadAnnouncement,
    ttl: Duration,
) -> Result<Upload, SubmitError> {
    create(intake, RequestSource::Api, announcement, None, ttl).await
}

/// Like [`announce`], for a caller that does not know the settings of the installation that accepts the
/// document: `overrides` are applied to those settings on arrival, and the announcement's options are ignored.
pub async fn announce_with_overrides(
    intake: &Intake,
    source: RequestSource,
    announcement: UploadAnnouncement,
    overrides: &OptionOverrides,
    ttl: Duration,
) -> Result<Upload, SubmitError> {
    create(intake, source, announcement, Some(overrides.to_map()), ttl).await
}

async fn create(
    intake: &Intake,
    source: RequestSource,
    announcement: UploadAnnouncement,
    overrides: Option<BTreeMap<String, String>>,
    ttl: Duration,
) -> Result<Upload, SubmitError> {
    administration::check_open(&intake.store, &announcement.tenant).await?;
    let key = announcement.idempotency_key.clone();
    let id = match &key {
        Some(key) => id_of_key(&announcement.tenant, key),
        None => intake.store.ids.fresh(),
    };
    let sealed_password = match &announcement.password {
        Some(password) => Some(intake.vault.seal(password).await?),
        None => None,
    };
    let now = intake.store.clock.now();
    let upload = Upload {
        key: format!("{INCOMING}{}/{id}/{}", announcement.tenant, key_name(&announcement.name)),
        id,
        tenant: announcement.tenant,
        user: announcement.user,
        source,
        name: announcement.name,
        options: announcement.options,
        overrides,
        idempotency_key: announcement.idempotency_key,
        traceparent: announcement.traceparent,
        sealed_password,
        created_at: now,
        expires_at: after(now, ttl),
        intended: None,
        job: None,
        failure: None,
    };
    let mut known: Option<Versioned<Upload>> = None;
    loop {
        let wanted = match &known {
            None => upload.clone(),
            // The job of the earlier request was deleted: this is a new request.
            Some(Versioned { value, .. }) if value.is_erased() => upload.clone(),
            Some(Versioned { value, .. }) if value.name != upload.name || value.options != upload.options => {
                return Err(SubmitError::KeyReused { key: key.unwrap_or_default() });
            }
            Some(Versioned { value, .. }) if value.is_over() => return Ok(value.clone()),
            Some(Versioned { value, .. }) => Upload {
                expires_at: upload.expires_at,
                sealed_password: upload.sealed_password.clone(),
                ..value.clone()
            },
        };
        match uploads::save(&intake.store, known.as_ref(), wanted.clone()).await? {
            Some(stored) if stored.value == wanted => return Ok(wanted),
            // The upload was announced before, or changed in between.
            stored => known = stored,
        }
    }
}

/// The id of an upload with an idempotency key.
fn id_of_key(tenant: &TenantId, key: &str) -> String {
    sha256_hex(format!("upload of {tenant}: {key}").as_bytes())[..26].to_owned()
}

/// A name that needs no escaping in a store, URL or log: letters, digits, dot, dash, underscore.
fn key_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = &name[name.len().saturating_sub(MAX_NAME_LEN)..];
    if name.trim_matches(['.', '_']).is_empty() { "document.pdf".into() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_names_become_valid_parts_of_object_keys() {
        assert_eq!(key_name("Jahresbericht 2026 (für Ålesund).pdf"), "Jahresbericht_2026__f_r__lesund_.pdf");
        assert_eq!(key_name("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(key_name(""), "document.pdf");
        assert_eq!(key_name(&"x".repeat(300)).len(), MAX_NAME_LEN);
    }
}
