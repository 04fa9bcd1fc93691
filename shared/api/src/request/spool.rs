//! Documents that arrive: written to a file while they are received, never held in memory.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header::CONTENT_LENGTH},
};
use futures::{Stream, StreamExt};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use super::broken_body;
use crate::{
    Api,
    problem::{Code, Problem},
};

/// A received document; its file is deleted when this is dropped.
pub struct Spooled(NamedTempFile);

impl Spooled {
    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

fn too_large(limit: u64) -> Problem {
    let detail = format!("the document has more than {limit} bytes, which is the limit (MAX_FILE_BYTES)");
    Problem::new(Code::FileTooLarge, detail)
}

/// Writes a stream of chunks to a file; fails when it is empty, broken or over `limit` bytes.
pub async fn spool<E: std::fmt::Display>(
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
        0 => Err(Problem::new(Code::EmptyFile, "the document has 0 bytes")),
        _ => Ok(Spooled(temporary)),
    }
}

/// Receives a document that is the whole body.
pub async fn body(api: &Api, limit: u64, headers: &HeaderMap, body: Body) -> Result<Spooled, Problem> {
    // A document that announces itself as too large is refused before it is received.
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > limit) {
        return Err(too_large(limit));
    }
    spool(api, limit, body.into_data_stream()).await
}
