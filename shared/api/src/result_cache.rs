//! Results that were read lately: the console requests a long document page by page, and a version never
//! changes.

use std::{collections::VecDeque, sync::Arc};

use everypage_core::{
    finish::{result::ResultDocument, results},
    job::{Job, StepError},
    ports::blobs::Blobs,
};
use parking_lot::Mutex;

const MAX_DOCUMENTS: usize = 8;
/// Characters of text that all cached documents may have together.
const MAX_TEXT: usize = 32 << 20;

#[derive(Default)]
pub struct ResultCache {
    /// By the SHA-256 of the JSON format, the most recently used first.
    cached: Mutex<VecDeque<(String, Arc<ResultDocument>)>>,
}

impl ResultCache {
    /// The latest version of a job's result; `None` before the first is published.
    pub async fn latest(
        &self,
        blobs: &dyn Blobs,
        job: &Job,
    ) -> Result<Option<Arc<ResultDocument>>, StepError> {
        let Some(sha256) = job.result.as_ref().map(|result| result.sha256.clone()) else { return Ok(None) };
        if let Some(found) = self.find(&sha256) {
            return Ok(Some(found));
        }
        let read = results::read_document(blobs, job, None).await?.map(Arc::new);
        if let Some(document) = &read {
            self.insert(sha256, document.clone());
        }
        Ok(read)
    }

    fn find(&self, sha256: &str) -> Option<Arc<ResultDocument>> {
        let mut cached = self.cached.lock();
        let place = cached.iter().position(|(known, _)| known == sha256)?;
        let found = cached.remove(place)?;
        cached.push_front(found.clone());
        Some(found.1)
    }

    fn insert(&self, sha256: String, document: Arc<ResultDocument>) {
        let mut cached = self.cached.lock();
        cached.push_front((sha256, document));
        let mut text = 0;
        let fitting = cached.iter().take(MAX_DOCUMENTS).take_while(|(_, document)| {
            text += document.metadata.result_text_len as usize;
            text <= MAX_TEXT
        });
        let fitting = fitting.count();
        cached.truncate(fitting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everypage_core::{
        finish::result::{Cause, assemble},
        ids::JobId,
    };
    use jiff::Timestamp;

    fn document(text: usize) -> Arc<ResultDocument> {
        let about = ("a.pdf".to_owned(), "sha".to_owned());
        let mut made = assemble(JobId::new("j"), 1, about, Timestamp::UNIX_EPOCH, Cause::Settled, vec![]);
        made.metadata.result_text_len = text as _;
        Arc::new(made)
    }

    #[test]
    fn the_least_recently_used_documents_are_evicted_by_number_and_by_size() {
        let cache = ResultCache::default();
        for number in 0..10 {
            cache.insert(number.to_string(), document(1));
        }
        assert!(cache.find("1").is_none());
        assert!(cache.find("2").is_some());
        cache.insert("half".into(), document(MAX_TEXT / 2));
        assert!(cache.find("2").is_some(), "it was used last");
        cache.insert("another half".into(), document(MAX_TEXT / 2));
        assert!(cache.find("half").is_none(), "the two newer ones fill the cache");
        assert!(cache.find("2").is_some());
        cache.insert("too large".into(), document(MAX_TEXT + 1));
        assert!(cache.find("too large").is_none());
    }
}
