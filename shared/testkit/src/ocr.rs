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
    document::{Block, Confidence},
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
    installed: Vec<String>,
    asked: Mutex<Vec<Vec<String>>>,
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
            installed: vec!["eng".into()],
            asked: Mutex::default(),
            started: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }
    }

    /// Has the data of these languages.
    pub fn with_languages(self, names: &[&str]) -> Self {
        Self { installed: names.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// The languages of each request.
    pub fn asked(&self) -> Vec<Vec<String>> {
        self.asked.lock().clone()
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
        self.asked.lock().push(request.languages.to_vec());
        self.started.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(self.time).await;
        self.finished.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(OcrError::Page("it crashed".into()));
        }
        let block = Block { text: RECOGNIZED.into(), ..Block::default() };
        Ok(OcrReading { blocks: vec![block], confidence: Confidence::new(0.9) })
    }
}
