//! Results that were just read: whoever leafs through a long document asks for it page by page, and a
//! version never changes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use everypage_core::{
    app::App,
    domain::{job::Job, result::ResultDocument},
    usecases::{StepError, result},
};

/// Documents kept, and how many characters of text they may have together.
const MOST_KEPT: usize = 8;
const MOST_TEXT: usize = 32 << 20;

#[derive(Default)]
pub struct Documents {
    /// By the SHA-256 of their JSON form, the latest read first.
    kept: Mutex<VecDeque<(String, Arc<ResultDocument>)>>,
}

impl Documents {
    /// The latest version of a job's result; `None` when there is none.
    pub async fn latest(&self, app: &App, job: &Job) -> Result<Option<Arc<ResultDocument>>, StepError> {
        let Some(sha256) = job.result.as_ref().map(|result| result.sha256.clone()) else { return Ok(None) };
        if let Some(known) = self.known(&sha256) {
            return Ok(Some(known));
        }
        let read = result::read_document(app, job, None).await?.map(Arc::new);
        if let Some(document) = &read {
            self.keep(sha256, document.clone());
        }
        Ok(read)
    }

    fn known(&self, sha256: &str) -> Option<Arc<ResultDocument>> {
        let mut kept = self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = kept.iter().position(|(known, _)| known == sha256)?;
        let found = kept.remove(place)?;
        kept.push_front(found.clone());
        Some(found.1)
    }

    fn keep(&self, sha256: String, document: Arc<ResultDocument>) {
        let mut kept = self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        kept.push_front((sha256, document));
        let mut text = 0;
        let room = kept.iter().take(MOST_KEPT).take_while(|(_, document)| {
            text += document.metadata.result_text_len as usize;
            text <= MOST_TEXT
        });
        let room = room.count();
        kept.truncate(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everypage_core::domain::{
        ids::JobId,
        result::{Cause, assemble},
    };
    use jiff::Timestamp;

    fn document(text: usize) -> Arc<ResultDocument> {
        let about = ("a.pdf".to_owned(), "sha".to_owned());
        let mut made = assemble(JobId::new("j"), 1, about, Timestamp::UNIX_EPOCH, Cause::Settled, vec![]);
        made.metadata.result_text_len = text as _;
        Arc::new(made)
    }

    #[test]
    fn the_latest_few_are_kept_and_large_ones_push_out_the_others() {
        let documents = Documents::default();
        for number in 0..10 {
            documents.keep(number.to_string(), document(1));
        }
        assert!(documents.known("1").is_none());
        assert!(documents.known("2").is_some());
        documents.keep("half".into(), document(MOST_TEXT / 2));
        assert!(documents.known("2").is_some(), "it was asked for last");
        documents.keep("another half".into(), document(MOST_TEXT / 2));
        assert!(documents.known("half").is_none(), "there is no room for it beside the two");
        assert!(documents.known("2").is_some());
        documents.keep("too large".into(), document(MOST_TEXT + 1));
        assert!(documents.known("too large").is_none());
    }
}
