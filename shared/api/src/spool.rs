//! Documents on their way in: streamed to a file, measured while they come, never held in memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Multipart, Request, multipart::MultipartError},
    http::{HeaderMap, header::CONTENT_LENGTH},
};
use everypage_core::{
    domain::{secret::Secret, trace::TraceContext},
    usecases::wishes::{Mistake, Wishes},
};
use futures::{Stream, StreamExt, stream};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::{
    Api, MOST_JSON,
    problem::{self, Problem, broken_body},
};

/// Where a document's password may be sent; never in the address, which others log.
pub const PASSWORD: &str = "everypage-password";
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
const TRACEPARENT: &str = "traceparent";

/// Longest value of a field of a form but the document.
const LONGEST_FIELD: usize = 4096;
const MOST_FIELDS: usize = 32;
/// Bytes of a form that may come without being part of a field that somebody reads: the reader of
/// forms holds them in memory.
const MOST_UNCLAIMED: usize = 1 << 20;
const LONGEST_NAME: usize = 255;
const LONGEST_KEY: usize = 255;

/// What is asked for beside the document, from whatever part of the request.
#[derive(Debug, Default)]
pub struct Asked {
    pub name: Option<String>,
    pub password: Option<Secret>,
    pub idempotency_key: Option<String>,
    pub traceparent: Option<TraceContext>,
    pub wishes: Wishes,
    seen: Vec<String>,
    mistakes: Vec<Mistake>,
}

impl Asked {
    /// What headers and the address say.
    pub fn read(headers: &HeaderMap, query: &[(String, String)]) -> Self {
        let mut asked = Self::default();
        for (name, value) in query {
            if name.eq_ignore_ascii_case("password") {
                asked.refuse("password", "send it in the header Everypage-Password: addresses are logged");
            } else {
                asked.take(name, value);
            }
        }
        if let Some(value) = headers.get(PASSWORD) {
            match std::str::from_utf8(value.as_bytes()) {
                Ok(password) => asked.take("password", password),
                Err(_) => asked.refuse("Everypage-Password", "it is not UTF-8"),
            }
        }
        match idempotency_key(headers) {
            Ok(key) => asked.idempotency_key = key,
            Err(mistake) => asked.mistakes.push(mistake),
        }
        // As the W3C asks: one that can't be read is as good as none.
        let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        asked.traceparent = traceparent.and_then(|text| text.trim().parse().ok());
        asked
    }

    /// One field of a form, an address or a JSON object.
    pub fn take(&mut self, name: &str, value: &str) {
        if self.seen.iter().any(|seen| seen == name) {
            return self.refuse(name, "it is given twice");
        }
        self.seen.push(name.to_owned());
        match name {
            "name" => match document_name(value) {
                Some(name) => self.name = Some(name),
                None => self.refuse(name, format!("it takes 1 to {LONGEST_NAME} characters")),
            },
            // An empty field of a form is no password.
            "password" if value.is_empty() => {}
            "password" => self.password = Some(Secret::new(value)),
            _ => match self.wishes.take(name, value) {
                Ok(true) => {}
                Ok(false) => {
                    let names = Wishes::NAMES.join(", ");
                    self.refuse(name, format!("there is no such option; there are name, password, {names}"));
                }
                Err(mistake) => self.mistakes.push(mistake),
            },
        }
    }

    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.mistakes.push(Mistake::new(name, message));
    }

    /// All that was wrong, told together.
    pub fn checked(mut self) -> Result<Self, Problem> {
        if self.wishes.again && self.idempotency_key.is_some() {
            self.refuse(
                "again",
                "an Idempotency-Key says that it is the same request; send one or the other",
            );
        }
        match std::mem::take(&mut self.mistakes) {
            mistakes if mistakes.is_empty() => Ok(self),
            mistakes => Err(Problem::mistakes(mistakes)),
        }
    }
}

/// The caller's own name for the request, where it has one.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Mistake> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok(key) if (1..=LONGEST_KEY).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let message = format!("it takes 1 to {LONGEST_KEY} characters of plain ASCII");
            Err(Mistake::new("Idempotency-Key", message))
        }
    }
}

/// A name without folders and control characters; `None` when nothing is left or it is too long.
fn document_name(text: &str) -> Option<String> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let name = name.trim();
    (1..=LONGEST_NAME).contains(&name.chars().count()).then(|| name.to_owned())
}

/// A document that has come.
pub struct Spooled(NamedTempFile);

impl Spooled {
    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

fn too_large(limit: u64) -> Problem {
    let detail = format!("the document has more than {limit} bytes, which is the limit (MAX_FILE_BYTES)");
    Problem::new(&problem::TOO_LARGE, detail)
}

/// Writes what comes to a file, up to `limit` bytes.
async fn spool<E: std::fmt::Display>(
    api: &Api,
    limit: u64,
    chunks: impl Stream<Item = Result<Bytes, E>>,
) -> Result<Spooled, Problem> {
    let made = match &api.spool {
        Some(folder) => NamedTempFile::new_in(folder),
        None => NamedTempFile::new(),
    };
    let temporary = made.map_err(Problem::internal)?;
    let mut file = tokio::fs::File::from_std(temporary.reopen().map_err(Problem::internal)?);
    let mut chunks = std::pin::pin!(chunks);
    let mut bytes = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(broken_body)?;
        bytes += chunk.len() as u64;
        if bytes > limit {
            return Err(too_large(limit));
        }
        file.write_all(&chunk).await.map_err(Problem::internal)?;
    }
    file.flush().await.map_err(Problem::internal)?;
    match bytes {
        0 => Err(Problem::new(&problem::EMPTY_FILE, "the document has 0 bytes")),
        _ => Ok(Spooled(temporary)),
    }
}

/// A document that is the whole body.
pub async fn body(api: &Api, limit: u64, headers: &HeaderMap, body: Body) -> Result<Spooled, Problem> {
    // Who says that it is too much need not send it.
    let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > limit) {
        return Err(too_large(limit));
    }
    spool(api, limit, body.into_data_stream()).await
}

/// A form with the document as `file` and everything else as fields of its own.
pub async fn form(
    api: &Api,
    limit: u64,
    request: Request,
    asked: &mut Asked,
) -> Result<Option<Spooled>, Problem> {
    let unclaimed = Arc::new(AtomicUsize::new(0));
    let mut form = Multipart::from_request(in_small_bites(request, unclaimed.clone()), &())
        .await
        .map_err(|rejection| Problem::new(&problem::BAD_REQUEST, rejection.body_text()))?;
    let broken = |error: MultipartError| match unclaimed.load(Ordering::Relaxed) > MOST_UNCLAIMED {
        true => broken_body("too much of it belongs to no field"),
        false => broken_body(error.body_text()),
    };
    let mut file = None;
    let mut fields = 0;
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        unclaimed.store(0, Ordering::Relaxed);
        fields += 1;
        if fields > MOST_FIELDS {
            return Err(Problem::new(
                &problem::BAD_OPTIONS,
                format!("the form has more than {MOST_FIELDS} fields"),
            ));
        }
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            if file.is_some() {
                return Err(Problem::mistake(
                    "file",
                    "it is given twice; send one document with each request",
                ));
            }
            if asked.name.is_none() {
                asked.name = field.file_name().and_then(document_name);
            }
            let chunks = field.map(|chunk| {
                unclaimed.store(0, Ordering::Relaxed);
                chunk.map_err(|error| error.body_text())
            });
            file = Some(spool(api, limit, chunks).await?);
            continue;
        }
        let mut value = Vec::new();
        while let Some(chunk) = field.chunk().await.map_err(broken)? {
            if value.len() + chunk.len() > LONGEST_FIELD {
                return Err(Problem::mistake(&name, format!("it has more than {LONGEST_FIELD} bytes")));
            }
            value.extend_from_slice(&chunk);
        }
        match String::from_utf8(value) {
            // A name given on purpose counts for more than the file's own.
            Ok(value) if name == "name" && document_name(&value).is_some() => {
                asked.name = document_name(&value)
            }
            Ok(value) => asked.take(&name, &value),
            Err(_) => asked.refuse(&name, "it is not UTF-8"),
        }
    }
    Ok(file)
}

/// The request with a body that comes one chunk at a time, however fast the client is, and ends when
/// too much of it has come that nobody wanted.
///
/// The reader of forms takes all that is ready before it gives anything away, and loses a form whose
/// last chunk and end are ready together at the wrong moment: so it rests after every chunk.
fn in_small_bites(request: Request, unclaimed: Arc<AtomicUsize>) -> Request {
    request.map(|body| {
        let start = (body.into_data_stream(), unclaimed, false);
        Body::from_stream(stream::unfold(start, |(mut chunks, unclaimed, started)| async move {
            if started {
                tokio::task::yield_now().await;
            }
            let chunk = match chunks.next().await? {
                Err(error) => Err(std::io::Error::other(error)),
                Ok(chunk) if unclaimed.fetch_add(chunk.len(), Ordering::Relaxed) > MOST_UNCLAIMED => {
                    Err(std::io::Error::other("too much that belongs to no field"))
                }
                Ok(chunk) => Ok(chunk),
            };
            Some((chunk, (chunks, unclaimed, true)))
        }))
    })
}

/// A JSON object, read up to what options can take.
pub async fn json(body: Body) -> Result<serde_json::Map<String, serde_json::Value>, Problem> {
    let bytes = axum::body::to_bytes(body, MOST_JSON).await.map_err(|_| {
        let detail = format!("JSON of more than {MOST_JSON} bytes; send the document as application/pdf");
        Problem::new(&problem::TOO_LARGE, detail)
    })?;
    problem::json(&bytes)
}

/// Takes the fields of a JSON object as text, as the other doors have them.
pub fn take_json(asked: &mut Asked, fields: serde_json::Map<String, serde_json::Value>) {
    use serde_json::Value;
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::String(text) => asked.take(&name, &text),
            Value::Bool(_) | Value::Number(_) => asked.take(&name, &value.to_string()),
            Value::Array(_) | Value::Object(_) => {
                asked.refuse(&name, "it takes text, a number, true or false")
            }
        }
    }
}
