use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    blobs::{Blobs, LocalFile, Stored},
};

#[derive(Default)]
pub struct MemoryBlobs {
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryBlobs {
    fn blobs(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.blobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn keys(&self) -> Vec<String> {
        self.blobs().keys().cloned().collect()
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        let mut blobs = self.blobs();
        if blobs.contains_key(key) {
            return Ok(Stored::Existed);
        }
        blobs.insert(key.to_owned(), bytes);
        Ok(Stored::Created)
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        let bytes = std::fs::read(file).map_err(|error| Fault::broken("blobs", error))?;
        self.put_new(key, bytes).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.blobs().get(key).cloned())
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        let Some(bytes) = self.blobs().get(key).cloned() else {
            return Ok(None);
        };
        let broken = |error: std::io::Error| Fault::broken("blobs", error);
        let file = tempfile::NamedTempFile::new().map_err(broken)?;
        std::fs::write(file.path(), bytes).map_err(broken)?;
        let path = file.path().to_owned();
        Ok(Some(LocalFile::temporary(path, Box::new(file))))
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.blobs().remove(key);
        Ok(())
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.blobs().retain(|key, _| !key.starts_with(prefix));
        Ok(())
    }
}
