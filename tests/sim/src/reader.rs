//! The reader of documents, as bad as the plan wants it.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    domain::{document::PageReading, ids::PageNumber, secret::Secret},
    ports::{
        clock::Clock,
        pdf::{Pdf, PdfError, ReadOptions},
    },
};
use everypage_testkit::pdf::FakePdf;

use crate::{
    plan::Plan,
    trouble::{Reader, Trouble, name},
    witness::Witness,
};

pub struct Readers {
    pdf: FakePdf,
    plan: Arc<Plan>,
    witness: Arc<Witness>,
}

impl Readers {
    pub fn new(plan: &Arc<Plan>, witness: &Arc<Witness>) -> Self {
        Self { pdf: FakePdf::default(), plan: plan.clone(), witness: witness.clone() }
    }

    async fn opens(&self) -> Result<(), PdfError> {
        for trouble in &self.plan.troubles {
            let Trouble::Reader { window, does } = trouble else { continue };
            if !window.covers(self.witness.now()) {
                continue;
            }
            self.witness.struck(&format!("reader: {}", name(does)));
            match does {
                Reader::IsGone => return Err(PdfError::Unavailable("no process to read it".into())),
                Reader::Dawdles(by) => self.witness.clock.sleep(*by).await,
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Pdf for Readers {
    async fn inspect(&self, file: &Path, password: Option<&Secret>, time: Duration) -> Result<u32, PdfError> {
        self.opens().await?;
        self.pdf.inspect(file, password, time).await
    }

    async fn read(
        &self,
        file: &Path,
        password: Option<&Secret>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        self.opens().await?;
        self.pdf.read(file, password, pages, options).await
    }
}
