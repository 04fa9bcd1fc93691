//! Makes a searchable PDF: the document's own pages, with text that can be found on all of them.

use std::time::Duration;

use super::{Preparer, inspect::source};
use crate::{
    job::{Job, StepError},
    ports::pdf::{PageLayer, PdfError, PdfSource},
};

/// Time of the parser: opening and writing, and for each page that gets text.
const BASE_TIME: Duration = Duration::from_secs(60);
const TIME_PER_PAGE: Duration = Duration::from_millis(100);

/// Lays text over the pages of the job's document. Nothing is stored.
pub async fn searchable(preparer: &Preparer, job: &Job, layers: &[PageLayer]) -> Result<Vec<u8>, StepError> {
    let file = source(preparer, job).await?;
    // The password is deleted when the text is read.
    let document = PdfSource { file: file.path(), password: None, tenant: &job.received.tenant };
    let time = BASE_TIME + TIME_PER_PAGE * u32::try_from(layers.len()).unwrap_or(u32::MAX);
    match preparer.pdf.searchable(document, layers, time).await {
        Err(PdfError::PasswordNeeded) => {
            let reason = "the document is encrypted, and its password was deleted when it was read";
            Err(PdfError::NotSearchable(reason.into()).into())
        }
        made => Ok(made?),
    }
}
