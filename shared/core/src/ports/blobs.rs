//! Large immutable objects: S3 on AWS, a folder on one machine.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::ports::Fault;

/// A file that holds a blob; a downloaded copy is removed when this is dropped.
pub struct LocalFile {
    path: PathBuf,
    /// Removes a temporary copy when dropped.
    _guard: Option<Box<dyn Send + Sync>>,
}

impl LocalFile {
    /// The stored blob itself: nothing to clean up.
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
    /// The key was taken; the existing blob was not changed.
    Existed,
}

/// A blob is complete or absent; a reader never sees a part of one.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores a blob under a new key. Of any number of concurrent callers exactly one gets `Created`.
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault>;

    /// Stores a file without holding it in memory; an existing blob is not changed.
    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault>;

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault>;

    /// Returns the blob as a file, for readers that need to seek.
    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault>;

    /// Removes one blob; succeeds if there is none.
    async fn delete(&self, key: &str) -> Result<(), Fault>;

    /// Removes every blob whose key starts with `prefix`.
    async fn delete_all(&self, prefix: &str) -> Result<(), Fault>;
}
