//! Forms (`multipart/form-data`): the document as `file`, options as fields of their own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::Body,
    extract::{FromRequest, Multipart, Request, multipart::MultipartError},
};
use futures::{StreamExt, stream};

use super::{
    broken_body,
    options::RequestOptions,
    spool::{Spooled, spool},
};
use crate::{
    Api,
    problem::{Code, Problem},
};

/// Longest value of a field other than the document.
const MAX_FIELD: usize = 4096;
const MAX_FIELDS: usize = 32;
/// Bytes of a form outside of any field: the multipart parser holds them in memory.
const MAX_UNCLAIMED: usize = 1 << 20;

/// Reads a form: sets its fields in `options` and returns its document, if it has one.
pub async fn read(
    api: &Api,
    limit: u64,
    request: Request,
    options: &mut RequestOptions,
) -> Result<Option<Spooled>, Problem> {
    let unclaimed = Arc::new(AtomicUsize::new(0));
    let mut form = Multipart::from_request(chunk_by_chunk(request, unclaimed.clone()), &())
        .await
        .map_err(|rejection| Problem::new(Code::BadRequest, rejection.body_text()))?;
    let broken = |error: MultipartError| match unclaimed.load(Ordering::Relaxed) > MAX_UNCLAIMED {
        true => broken_body("too much of it belongs to no field"),
        false => broken_body(error.body_text()),
    };
    let mut file = None;
    let mut fields = 0;
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        unclaimed.store(0, Ordering::Relaxed);
        fields += 1;
        if fields > MAX_FIELDS {
            return Err(Problem::new(
                Code::BadOptions,
                format!("the form has more than {MAX_FIELDS} fields"),
            ));
        }
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            if file.is_some() {
                return Err(Problem::invalid("file", "given twice; send one document with each request"));
            }
            options.name_after(field.file_name());
            let chunks = field.map(|chunk| {
                unclaimed.store(0, Ordering::Relaxed);
                chunk.map_err(|error| error.body_text())
            });
            file = Some(spool(api, limit, chunks).await?);
            continue;
        }
        let mut value = Vec::new();
        while let Some(chunk) = field.chunk().await.map_err(broken)? {
            if value.len() + chunk.len() > MAX_FIELD {
                return Err(Problem::invalid(&name, format!("has more than {MAX_FIELD} bytes")));
            }
            value.extend_from_slice(&chunk);
        }
        match String::from_utf8(value) {
            Ok(value) => options.set_form_field(&name, &value),
            Err(_) => options.reject(&name, "not UTF-8"),
        }
    }
    Ok(file)
}

/// The request with a body that yields after every chunk, however fast the client is, and that fails when
/// more than [`MAX_UNCLAIMED`] bytes came outside of any field.
///
/// The multipart parser reads all chunks that are ready before it returns any, and loses a form whose last
/// chunk and end are ready at the same moment.
fn chunk_by_chunk(request: Request, unclaimed: Arc<AtomicUsize>) -> Request {
    request.map(|body| {
        let start = (body.into_data_stream(), unclaimed, false);
        Body::from_stream(stream::unfold(start, |(mut chunks, unclaimed, started)| async move {
            if started {
                tokio::task::yield_now().await;
            }
            let chunk = match chunks.next().await? {
                Err(error) => Err(std::io::Error::other(error)),
                Ok(chunk) if unclaimed.fetch_add(chunk.len(), Ordering::Relaxed) > MAX_UNCLAIMED => {
                    Err(std::io::Error::other("too much that belongs to no field"))
                }
                Ok(chunk) => Ok(chunk),
            };
            Some((chunk, (chunks, unclaimed, true)))
        }))
    })
}
