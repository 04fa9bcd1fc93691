//! Objects under `incoming/{tenant}/…`. What is to be done with one may be said in its metadata or
//! in a file beside it, `{name}.json`. A password is taken from that file only, which is deleted once
//! the password is sealed: metadata would keep it readable for as long as there is the document.

use std::{collections::BTreeMap, path::Path};

use aws_lambda_events::s3::{S3Event, S3EventRecord};
use everypage_aws::{Stack, UploadedObject};
use everypage_core::{
    app::App,
    domain::{
        event::sha256_hex,
        ids::{CorrelationId, DeadLetterId, Priority, TenantId},
        job::Failure,
        secret::Secret,
    },
    store::dead::Subject,
    usecases::{
        StepError,
        bury::{Death, bury},
        intake::Submitted,
        upload::{ArrivalError, BESIDE, INCOMING, Object, arrived},
    },
};
use everypage_function::FailedStep;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tracing::{info, warn};

/// What opens the document, among the options.
const PASSWORD: &str = "password";

/// All of a notification, even if one of its objects fails: that one is then told to Lambda, which
/// calls again.
pub async fn handle(stack: &Stack, notification: S3Event) -> Result<Value, FailedStep> {
    let (mut jobs, mut failed) = (Vec::new(), None);
    for record in &notification.records {
        match take_in(stack, record).await {
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

/// The job that an object became; `None` when there is nothing to take in.
async fn take_in(stack: &Stack, record: &S3EventRecord) -> Result<Option<String>, FailedStep> {
    let object = &record.s3.object;
    let key = decoded(object.key.as_deref().unwrap_or_default());
    let key = key.as_str();
    if !key.starts_with(INCOMING) || key.ends_with(BESIDE) || key.ends_with('/') {
        return Ok(None);
    }
    let fault = |fault| FailedStep::from(StepError::from(fault));
    let limit = stack.app.settings.pdf.max_file_bytes;
    // Whatever was put over it meanwhile has a notification of its own.
    let named = object.version_id.as_deref().filter(|version| !version.is_empty());
    let Some(UploadedObject { file, metadata, tag }) =
        stack.blobs.fetch(key, named, limit).await.map_err(fault)?
    else {
        info!(key, "object is gone");
        return Ok(None);
    };
    let version = named.map(str::to_owned).or(object.e_tag.clone()).unwrap_or(tag);
    let object = Seen { key, version: &version, file: file.path(), metadata };
    match submit(stack, &object).await {
        Ok(submitted) => Ok(Some(submitted.job.id.to_string())),
        Err(ArrivalError::Fault(error)) => Err(fault(error)),
        // Nobody waits for an answer here: a person has to be told.
        Err(error) => {
            warn!(key, %error, "object refused");
            bury(&stack.app, refusal(&stack.app, key, &version, &error)).await.map_err(fault)?;
            Ok(None)
        }
    }
}

/// S3 writes keys as forms write values.
fn decoded(key: &str) -> String {
    percent_decode_str(&key.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// An object as S3 has it.
struct Seen<'a> {
    key: &'a str,
    version: &'a str,
    file: &'a Path,
    metadata: BTreeMap<String, String>,
}

async fn submit(stack: &Stack, seen: &Seen<'_>) -> Result<Submitted, ArrivalError> {
    let mut metadata = seen.metadata.clone();
    if take_password(&mut metadata).is_some() {
        let reason = format!(
            "a password in an object's metadata can be read for as long as the object is there: delete it, and \
             put the password into {}{BESIDE} beside the document, which is deleted once it was read",
            seen.key
        );
        return Err(ArrivalError::Refused(Failure { code: "password_in_metadata".into(), reason }));
    }
    let mut beside = Beside::of(stack, seen.key).await?;
    let password = take_password(&mut beside.options).map(Secret::new);
    metadata.extend(beside.options);
    let object = Object {
        key: seen.key,
        version: seen.version,
        file: seen.file,
        metadata: &metadata,
        password: password.as_ref(),
    };
    let submitted = arrived(&stack.app, object).await;
    // After a fault the notification comes again and needs the file once more.
    let is_over = !matches!(submitted, Err(ArrivalError::Fault(_)));
    if password.is_some() && is_over {
        stack.blobs.delete_version(&beside.key, beside.version.as_deref()).await?;
    }
    submitted
}

fn take_password(options: &mut BTreeMap<String, String>) -> Option<String> {
    let name = options.keys().find(|name| name.eq_ignore_ascii_case(PASSWORD)).cloned()?;
    options.remove(&name)
}

/// The file beside an object; without options where there is none.
struct Beside {
    key: String,
    version: Option<String>,
    options: BTreeMap<String, String>,
}

impl Beside {
    async fn of(stack: &Stack, object: &str) -> Result<Self, ArrivalError> {
        let key = format!("{object}{BESIDE}");
        let Some((bytes, version)) = stack.blobs.read(&key).await? else {
            return Ok(Self { key, version: None, options: BTreeMap::new() });
        };
        let said: BTreeMap<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            let reason = format!("{key} is not a JSON object of options: {error}");
            ArrivalError::Refused(Failure { code: "bad_options".into(), reason })
        })?;
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let options = said.into_iter().map(|(name, value)| (name, text(value))).collect();
        Ok(Self { key, version, options })
    }
}

fn refusal(app: &App, key: &str, version: &str, error: &ArrivalError) -> Death {
    let tenant = key.strip_prefix(INCOMING).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    // Nobody looks after the letters of a tenant that there is not.
    let known = app.settings.knows(&TenantId::new(tenant));
    let tenant = if known { tenant } else { app.settings.tenant.as_str() };
    let id = format!("upload-{}", &sha256_hex(format!("{key}\n{version}").as_bytes())[..16]);
    Death {
        correlation_id: CorrelationId::new(&id),
        id: DeadLetterId::new(id),
        subject: Subject::Message,
        tenant: TenantId::new(tenant),
        priority: Priority::Normal,
        reason: format!("{key}: {error}"),
        deliveries: 1,
        sending: 0,
        message: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_names_its_object_as_a_form_does() {
        let event: S3Event = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
        let object = &event.records[0].s3.object;
        assert_eq!(decoded(object.key.as_deref().unwrap()), "incoming/acme/Annual report (2026).pdf");
        assert!(object.version_id.is_some() && object.e_tag.is_some());
        assert_eq!(decoded("a%20b%C3%BC%2B"), "a bü+");
    }
}
