//! Large immutable objects: S3 on AWS, a folder on one machine.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::ports::Fault;

/// A file to read a blob from; what was downloaded for it goes away with it.
pub struct LocalFile {
    path: PathBuf,
    /// Removes a temporary copy when dropped.
    _guard: Option<Box<dyn Send + Sync>>,
}

impl LocalFile {
    /// The blob's own home: nothing to clean up.
    pub fn permanent(path: PathBuf) -> Self {
        Self { path, _guard: None }
    }

    pub fn temporary(path: PathBuf, guard: Box<dyn Send + Sync>) -> Self {
        Self { path, _guard: Some(guard) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Created,
    /// Somebody was first; what is there was not touched.
    Existed,
}

/// A blob is whole or absent; a reader never sees half of one.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Of any number of simultaneous callers exactly one is told `Created`.
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault>;

    /// Takes in a file without holding it in memory; an existing blob is left as it is.
    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault>;

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault>;

    /// The blob as a file, for readers that need to seek.
    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault>;

    /// Removes one blob; one that is not there is gone already.
    async fn delete(&self, key: &str) -> Result<(), Fault>;

    /// Removes every blob whose key starts with `prefix`.
    async fn delete_all(&self, prefix: &str) -> Result<(), Fault>;
}
