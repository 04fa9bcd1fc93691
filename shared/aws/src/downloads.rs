//! Local copies of objects of the bucket: where each came from, so that storing it under another key is a copy
//! inside S3, and the last few documents, so that an instance downloads each once.

use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use everypage_core::ports::blobs::LocalFile;
use parking_lot::Mutex;
use tempfile::TempPath;

/// Documents that an instance keeps at most, and their bytes. A larger document is downloaded each time.
const MAX_KEPT: usize = 4;
pub const MAX_KEPT_BYTES: u64 = 512 << 20;

/// A downloaded object: removed when the last reader and the cache have dropped it.
#[derive(Clone)]
pub struct Download {
    pub file: Arc<TempPath>,
    pub bytes: u64,
}

impl Download {
    pub fn local_file(&self) -> LocalFile {
        LocalFile::temporary(self.file.to_path_buf(), Box::new(self.file.clone()))
    }
}

/// The object that a local file is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub key: String,
    pub version: Option<String>,
    /// The entity tag, which changes with the content.
    pub tag: String,
}

#[derive(Default)]
pub struct Downloads {
    /// One download at a time, so that concurrent readers of one document share it.
    pub turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    max_bytes: u64,
    origins: HashMap<PathBuf, (Weak<TempPath>, u64, Origin)>,
    /// Key, entity tag and file, the last used ones at the back.
    kept: VecDeque<(String, String, Download)>,
}

impl Downloads {
    /// Keeps the last documents, for a process that opens one several times; without it none is kept.
    pub fn keep_up_to(&self, max_bytes: u64) {
        self.state.lock().max_bytes = max_bytes;
    }

    /// Remembers where a file came from, for as long as it exists.
    pub fn record_origin(&self, download: &Download, origin: Origin) {
        let mut state = self.state.lock();
        state.origins.retain(|_, (file, ..)| file.strong_count() > 0);
        let file = Arc::downgrade(&download.file);
        state.origins.insert(download.file.to_path_buf(), (file, download.bytes, origin));
    }

    /// The object that the file is an unchanged copy of.
    pub fn origin(&self, path: &Path) -> Option<(Download, Origin)> {
        let state = self.state.lock();
        let (file, bytes, origin) = state.origins.get(path)?;
        Some((Download { file: file.upgrade()?, bytes: *bytes }, origin.clone()))
    }

    pub fn keep(&self, key: &str, tag: &str, download: &Download) {
        let mut state = self.state.lock();
        state.kept.retain(|(kept, ..)| kept != key);
        if tag.is_empty() || download.bytes > state.max_bytes {
            return;
        }
        state.kept.push_back((key.to_owned(), tag.to_owned(), download.clone()));
        while state.kept.len() > MAX_KEPT || state.kept_bytes() > state.max_bytes {
            state.kept.pop_front();
        }
    }

    /// The kept copy of an object and its entity tag, with which S3 confirms that it is current.
    pub fn kept(&self, key: &str) -> Option<(String, Download)> {
        let state = self.state.lock();
        let (_, tag, download) = state.kept.iter().find(|(kept, ..)| kept == key)?;
        Some((tag.clone(), download.clone()))
    }

    /// Removes the copies of the objects under `prefix`.
    pub fn discard(&self, prefix: &str) {
        self.state.lock().kept.retain(|(key, ..)| !key.starts_with(prefix));
    }
}

impl State {
    fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|(.., download)| download.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download(bytes: u64) -> Download {
        Download { file: Arc::new(tempfile::NamedTempFile::new().unwrap().into_temp_path()), bytes }
    }

    #[test]
    fn the_last_documents_are_kept_within_the_limits_and_others_removed_from_disk() {
        let downloads = Downloads::default();
        downloads.keep("first", "t", &download(1));
        assert!(downloads.kept("first").is_none(), "none is kept without a request");
        downloads.keep_up_to(10);
        downloads.keep("huge", "t", &download(11));
        assert!(downloads.kept("huge").is_none());
        let path = {
            let large = download(8);
            downloads.keep("large", "t", &large);
            large.file.to_path_buf()
        };
        assert!(path.exists() && downloads.kept("large").is_some());
        downloads.keep("small", "t", &download(3));
        assert!(!path.exists() && downloads.kept("large").is_none(), "no room for both");
        for n in 0..MAX_KEPT {
            downloads.keep(&format!("jobs/{n}"), "t", &download(1));
        }
        assert!(downloads.kept("small").is_none(), "too many");
        downloads.discard("jobs/0");
        assert!(downloads.kept("jobs/0").is_none() && downloads.kept("jobs/1").is_some());
    }

    #[test]
    fn a_removed_file_has_no_origin() {
        let downloads = Downloads::default();
        let origin = Origin { key: "incoming/a".into(), version: None, tag: "t".into() };
        let file = download(1);
        let path = file.file.to_path_buf();
        downloads.record_origin(&file, origin.clone());
        assert_eq!(downloads.origin(&path).unwrap().1, origin);
        drop(file);
        assert!(downloads.origin(&path).is_none());
    }
}
