//! Objects under `incoming/{tenant}/…` become jobs. Their options are in their metadata or in an options
//! file next to them, `{name}.json`. A password is accepted in that file only, which is deleted once the
//! password is sealed: metadata would stay readable as long as the document exists.

use std::{collections::BTreeMap, path::Path};

use aws_lambda_events::{
    s3::{S3Event, S3EventRecord},
    sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent},
};
use everypage_aws::{Stack, UploadedObject};
use everypage_core::{
    app::App,
    dead_letters::{
        Subject,
        add::{self, Cause, NewDeadLetter},
    },
    digest::sha256_hex,
    ids::{CorrelationId, DeadLetterId, Priority, TenantId},
    intake::{
        accept::{self, ArrivalError, Object},
        submit::Submitted,
        uploads::{INCOMING, SIDECAR_SUFFIX},
    },
    job::{Failure, StepError},
    secret::Secret,
};
use everypage_function::FailedStep;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tracing::{info, warn};

/// The name of the option with the document's password.
const PASSWORD: &str = "password";

/// Accepts the objects of notifications from the arrivals queue. Those that failed are reported, and SQS delivers
/// them again.
pub async fn handle_queued(stack: &Stack, arrivals: SqsEvent) -> Result<Value, FailedStep> {
    let mut response = SqsBatchResponse::default();
    for message in arrivals.records {
        if let Err(error) = accept_queued(stack, message.body.as_deref().unwrap_or_default()).await {
            warn!(code = error.code, reason = error.reason, "upload not accepted yet");
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = message.message_id.unwrap_or_default();
            response.batch_item_failures.push(failure);
        }
    }
    serde_json::to_value(response).map_err(FailedStep::unknown_event)
}

async fn accept_queued(stack: &Stack, body: &str) -> Result<(), FailedStep> {
    let body: Value = serde_json::from_str(body).map_err(FailedStep::unknown_event)?;
    // S3 sends this event when a notification is configured.
    if body["Event"] == "s3:TestEvent" {
        return Ok(());
    }
    let notification = serde_json::from_value(body).map_err(FailedStep::unknown_event)?;
    handle(stack, notification).await.map(drop)
}

/// Accepts all objects of a notification, even if one of them fails. The error of that one is returned
/// to Lambda, which retries the notification.
pub async fn handle(stack: &Stack, notification: S3Event) -> Result<Value, FailedStep> {
    let (mut jobs, mut failed) = (Vec::new(), None);
    for record in &notification.records {
        match accept(stack, record).await {
            Ok(Some(job)) => jobs.push(job),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(json!({ "jobs": jobs })),
    }
}

/// Submits an object and returns its job; `None` for an object that is no document, is missing or was
/// refused.
async fn accept(stack: &Stack, record: &S3EventRecord) -> Result<Option<String>, FailedStep> {
    let object = &record.s3.object;
    let key = decoded(object.key.as_deref().unwrap_or_default());
    let key = key.as_str();
    if !key.starts_with(INCOMING) || key.ends_with(SIDECAR_SUFFIX) || key.ends_with('/') {
        return Ok(None);
    }
    let fault = |fault| FailedStep::from(StepError::from(fault));
    let limit = stack.app.settings.pdf.max_file_bytes;
    // This version only: an object that overwrote it has its own notification.
    let version_id = object.version_id.as_deref().filter(|version| !version.is_empty());
    let fetched = stack.blobs.fetch(key, version_id, limit).await.map_err(fault)?;
    let Some(UploadedObject { file, metadata, tag }) = fetched else {
        info!(key, "object no longer exists");
        return Ok(None);
    };
    let version = version_id.map(str::to_owned).or(object.e_tag.clone()).unwrap_or(tag);
    let object = SourceObject { key, version: &version, file: file.path(), metadata };
    match submit(stack, &object).await {
        Ok(submitted) => Ok(Some(submitted.job.id.to_string())),
        Err(ArrivalError::Fault(error)) => Err(fault(error)),
        // No caller waits for a response here: a dead letter notifies the responsible person.
        Err(error) => {
            warn!(key, %error, "object refused");
            add::add(&stack.app.dead_letters, dead_letter(&stack.app, key, &version, &error))
                .await
                .map_err(fault)?;
            Ok(None)
        }
    }
}

/// Decodes a key, which S3 encodes like a form value.
fn decoded(key: &str) -> String {
    percent_decode_str(&key.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// One version of an object in the bucket.
struct SourceObject<'a> {
    key: &'a str,
    version: &'a str,
    file: &'a Path,
    metadata: BTreeMap<String, String>,
}

async fn submit(stack: &Stack, source: &SourceObject<'_>) -> Result<Submitted, ArrivalError> {
    let mut metadata = source.metadata.clone();
    if take_password(&mut metadata).is_some() {
        let reason = format!(
            "the object's metadata contains a password, which stays readable as long as the object exists: \
             delete the object and upload it again with the password in {}{SIDECAR_SUFFIX}, which is deleted once it \
             was read",
            source.key
        );
        return Err(ArrivalError::Refused(Failure { code: "password_in_metadata".into(), reason }));
    }
    let mut options_file = OptionsFile::read(stack, source.key).await?;
    let password = take_password(&mut options_file.options).map(Secret::new);
    metadata.extend(options_file.options);
    let object = Object {
        key: source.key,
        version: source.version,
        file: source.file,
        metadata: &metadata,
        password: password.as_ref(),
    };
    let submitted = accept::accept(&stack.app.intake, object).await;
    // After a fault the notification is retried and needs the file again.
    let is_final = !matches!(submitted, Err(ArrivalError::Fault(_)));
    if password.is_some() && is_final {
        stack.blobs.delete_version(&options_file.key, options_file.version.as_deref()).await?;
    }
    submitted
}

fn take_password(options: &mut BTreeMap<String, String>) -> Option<String> {
    let name = options.keys().find(|name| name.eq_ignore_ascii_case(PASSWORD)).cloned()?;
    options.remove(&name)
}

/// The options file of an object; without options where there is none.
struct OptionsFile {
    key: String,
    version: Option<String>,
    options: BTreeMap<String, String>,
}

impl OptionsFile {
    async fn read(stack: &Stack, object: &str) -> Result<Self, ArrivalError> {
        let key = format!("{object}{SIDECAR_SUFFIX}");
        let Some((bytes, version)) = stack.blobs.read(&key).await? else {
            return Ok(Self { key, version: None, options: BTreeMap::new() });
        };
        let values: BTreeMap<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            let reason = format!("{key} is not a JSON object of options: {error}");
            ArrivalError::Refused(Failure { code: "bad_options".into(), reason })
        })?;
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let options = values.into_iter().map(|(name, value)| (name, text(value))).collect();
        Ok(Self { key, version, options })
    }
}

fn dead_letter(app: &App, key: &str, version: &str, error: &ArrivalError) -> NewDeadLetter {
    let tenant = key.strip_prefix(INCOMING).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    // The dead letter of an unknown tenant goes to the installation's own tenant, where it is seen.
    let known = app.settings.allows_tenant(&TenantId::new(tenant));
    let tenant = if known { tenant } else { app.settings.tenant.as_str() };
    let id = format!("upload-{}", &sha256_hex(format!("{key}\n{version}").as_bytes())[..16]);
    NewDeadLetter {
        correlation_id: CorrelationId::new(&id),
        id: DeadLetterId::new(id),
        subject: Subject::Message,
        cause: Cause::Unreadable,
        tenant: TenantId::new(tenant),
        priority: Priority::Normal,
        reason: format!("{key}: {error}"),
        receive_count: 1,
        redrive_count: 0,
        message: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_keys_of_a_notification_are_form_decoded() {
        let event: S3Event = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
        let object = &event.records[0].s3.object;
        assert_eq!(decoded(object.key.as_deref().unwrap()), "incoming/acme/Annual report (2026).pdf");
        assert!(object.version_id.is_some() && object.e_tag.is_some());
        assert_eq!(decoded("a%20b%C3%BC%2B"), "a bü+");
    }
}
