//! A fake OCR: every page says the same, after a time on the test's clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    document::{Block, Confidence, PageBox, PageWord},
    ports::{
        clock::Clock,
        ocr::{Ocr, OcrError, OcrReading, OcrRequest},
    },
};
use parking_lot::Mutex;

/// What [`FakeOcr`] reads on every page.
pub const RECOGNIZED: &str = "recognized";

pub struct FakeOcr {
    clock: Arc<dyn Clock>,
    time: Duration,
    fails: bool,
    text: String,
    installed: Vec<String>,
    requested: Mutex<Vec<Vec<String>>>,
    started: AtomicUsize,
    finished: AtomicUsize,
}

impl FakeOcr {
    /// Takes `time` for a page.
    pub fn new(clock: Arc<dyn Clock>, time: Duration) -> Self {
        Self {
            clock,
            time,
            fails: false,
            text: RECOGNIZED.into(),
            installed: vec!["eng".into()],
            requested: Mutex::default(),
            started: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }
    }

    /// Has the data of these languages.
    pub fn with_languages(self, names: &[&str]) -> Self {
        Self { installed: names.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// Reads this on every page, in one line.
    pub fn reading(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    /// The languages of each request.
    pub fn requested(&self) -> Vec<Vec<String>> {
        self.requested.lock().clone()
    }

    /// Every page crashes it.
    pub fn failing(clock: Arc<dyn Clock>) -> Self {
        Self { fails: true, ..Self::new(clock, Duration::ZERO) }
    }

    /// Pages that were started, and those of them that were done.
    pub fn pages(&self) -> (usize, usize) {
        (self.started.load(Ordering::Relaxed), self.finished.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Ocr for FakeOcr {
    async fn check(&self, languages: &[String]) -> Result<(), OcrError> {
        match languages.iter().find(|name| !self.installed.contains(name)) {
            None => Ok(()),
            Some(missing) => Err(OcrError::Unavailable(format!("no data for {missing}"))),
        }
    }

    fn parallel_pages(&self) -> usize {
        2
    }

    async fn recognize(&self, request: OcrRequest<'_>) -> Result<OcrReading, OcrError> {
        self.check(request.languages).await?;
        self.requested.lock().push(request.languages.to_vec());
        self.started.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(self.time).await;
        self.finished.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(OcrError::Page("it crashed".into()));
        }
        let block = Block { text: self.text.clone(), ..Block::default() };
        let word = |(at, text): (i32, &str)| PageWord {
            text: text.to_owned(),
            area: PageBox([50 + 40 * at, 100, 85 + 40 * at, 112]),
            confidence: Confidence::new(0.9),
            ..PageWord::default()
        };
        let words = (0..).zip(self.text.split_whitespace()).map(word).collect();
        Ok(OcrReading { blocks: vec![block], words, confidence: Confidence::new(0.9) })
    }
}
