//! The PDF reader of a run, with the faults that its plan injects.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::{
        clock::Clock,
        pdf::{Pdf, PdfError, PdfSource, ReadOptions},
    },
};
use everypage_testkit::pdf::FakePdf;

use crate::{
    faults::{PlannedFault, ReaderFault, name},
    observer::Observer,
    run_plan::RunPlan,
};

pub struct FaultyReader {
    pdf: FakePdf,
    plan: Arc<RunPlan>,
    observer: Arc<Observer>,
}

impl FaultyReader {
    pub fn new(plan: &Arc<RunPlan>, observer: &Arc<Observer>) -> Self {
        Self { pdf: FakePdf::default(), plan: plan.clone(), observer: observer.clone() }
    }

    async fn inject_fault(&self) -> Result<(), PdfError> {
        for fault in &self.plan.faults {
            let PlannedFault::Reader { window, kind } = fault else { continue };
            if !window.covers(self.observer.now()) {
                continue;
            }
            self.observer.count_fault(&format!("reader: {}", name(kind)));
            match kind {
                ReaderFault::IsUnavailable => return Err(PdfError::Unavailable("no reader process".into())),
                ReaderFault::IsSlow(by) => self.observer.clock.sleep(*by).await,
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Pdf for FaultyReader {
    async fn inspect(&self, source: PdfSource<'_>, time: Duration) -> Result<u32, PdfError> {
        self.inject_fault().await?;
        self.pdf.inspect(source, time).await
    }

    async fn read(
        &self,
        source: PdfSource<'_>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        self.inject_fault().await?;
        self.pdf.read(source, pages, options).await
    }
}
