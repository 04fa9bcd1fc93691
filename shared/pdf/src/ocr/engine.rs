//! The port [`Ocr`] over processes of `everypage-ocr`.

use std::{num::NonZeroUsize, path::Path, process::Stdio, sync::Arc, thread};

use async_trait::async_trait;
use everypage_core::ports::ocr::{Ocr, OcrError, OcrReading, OcrRequest};
use tokio::{
    process::Command,
    sync::{Mutex, Semaphore},
};

use super::{process, program::OcrProgram, words};

/// Recognizes pages with as many processes as there are cores, over all documents. Cheap to clone.
#[derive(Clone)]
pub struct TesseractOcr {
    program: Arc<OcrProgram>,
    processes: usize,
    slots: Arc<Semaphore>,
    /// Held while the program is built; why that failed, if it did.
    build_failure: Arc<Mutex<Option<String>>>,
}

impl TesseractOcr {
    pub fn new(program: OcrProgram) -> Self {
        let processes = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (program, slots) = (Arc::new(program), Arc::new(Semaphore::new(processes)));
        Self { program, processes, slots, build_failure: Arc::default() }
    }

    /// Runs at most `processes` at a time: each may take 1 GiB of memory.
    pub fn with_processes(self, processes: NonZeroUsize) -> Self {
        Self { processes: processes.get(), slots: Arc::new(Semaphore::new(processes.get())), ..self }
    }

    /// Whether the program is not there and is built when the first page needs it.
    pub fn will_be_built(&self) -> bool {
        self.program.missing_builder().is_some()
    }

    /// Builds the program if it is not there and can be built. A build that was started continues when this is
    /// dropped: the next page or process finds the program.
    pub async fn build_if_missing(&self) -> Result<(), OcrError> {
        let Some(builder) = self.program.missing_builder() else { return Ok(()) };
        let mut failure = self.build_failure.lock().await;
        if self.program.exists() {
            return Ok(());
        }
        if failure.is_none() {
            tracing::info!("building the OCR program, once");
            *failure = build(builder).await.err();
        }
        match &*failure {
            None => Ok(()),
            Some(reason) => Err(OcrError::Unavailable(reason.clone())),
        }
    }
}

async fn build(builder: &Path) -> Result<(), String> {
    let failed = |reason: String| format!("{} failed: {reason}", builder.display());
    let status = Command::new(builder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(false)
        .status()
        .await
        .map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

#[async_trait]
impl Ocr for TesseractOcr {
    async fn check(&self, languages: &[String]) -> Result<(), OcrError> {
        self.program.data_for(languages).map_err(OcrError::Unavailable)?;
        if !self.program.exists() && self.program.missing_builder().is_none() {
            let missing = format!("the program {} is missing", self.program.path().display());
            return Err(OcrError::Unavailable(missing));
        }
        Ok(())
    }

    fn parallel_pages(&self) -> usize {
        self.processes
    }

    async fn recognize(&self, request: OcrRequest<'_>) -> Result<OcrReading, OcrError> {
        let OcrRequest { image, page, languages, priority, time } = request;
        let data = self.program.data_for(languages).map_err(OcrError::Unavailable)?;
        self.build_if_missing().await?;
        let _slot = self.slots.acquire().await.map_err(|_| OcrError::Unavailable("shutting down".into()))?;
        let dpi = words::dpi(image.width_px, page);
        let (program, names) = (self.program.path(), languages.join("+"));
        let found = process::recognize(program, &data, &names, &image.bytes, dpi, priority, time).await?;
        // Pure, and bounded by what a page can hold; but not on the runtime's threads.
        tokio::task::spawn_blocking(move || words::layout(found, page))
            .await
            .map_err(|_| OcrError::Page("its layout could not be read".into()))
    }
}
