//! A result in any of its formats: stored, rendered now, or made from the document.

use std::pin::pin;

use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::{
    format::{Format, Make},
    result::{PageResult, ResultDocument},
    results, text_layer,
};
use crate::{
    document::{Classification, PageWord, TableStyle},
    job::{Job, StepError},
    ports::pdf::PageLayer,
    prepare::{self, Preparer, recognized_words},
    source::TextSource,
};

const CONCURRENT_READS: usize = 16;
/// Words of a document that are placed one by one: what a request to the parser holds.
const MAX_WORDS: usize = 1_000_000;

/// A published version's bytes; the latest without a `version`. `None` when there is none.
pub async fn read(
    preparer: &Preparer,
    job: &Job,
    format: Format,
    tables: TableStyle,
    version: Option<u32>,
) -> Result<Option<Vec<u8>>, StepError> {
    let blobs = preparer.blobs.as_ref();
    if format.is_stored(tables) {
        return results::read(blobs, job, format, version).await;
    }
    match results::read_document(blobs, job, version).await? {
        Some(document) => produce(preparer, job, format, tables, &document).await.map(Some),
        None => Ok(None),
    }
}

/// Produces a format from a result that may be provisional.
pub async fn produce(
    preparer: &Preparer,
    job: &Job,
    format: Format,
    tables: TableStyle,
    document: &ResultDocument,
) -> Result<Vec<u8>, StepError> {
    match format.make() {
        Make::Stored(render) | Make::OnDemand(render) => Ok(render(document, tables)),
        Make::FromWords(render) => {
            let pages: Vec<_> = words(preparer, job, document).try_collect().await?;
            Ok(render(document, &pages))
        }
        Make::FromSource => {
            let layers = layers(preparer, job, document).await?;
            prepare::searchable(preparer, job, &layers).await
        }
    }
}

/// The text of each page, and where it is as far as that is known. The parser leaves out pages that have sound
/// text of their own.
async fn layers(
    preparer: &Preparer,
    job: &Job,
    document: &ResultDocument,
) -> Result<Vec<PageLayer>, StepError> {
    let mut known = 0;
    let mut layers = Vec::new();
    let mut words = pin!(words(preparer, job, document));
    while let Some((page, words)) = words.try_next().await? {
        // A document with more of them has a coarser layer from there on.
        let is_small = known + words.len() <= MAX_WORDS;
        known += if is_small { words.len() } else { 0 };
        layers.extend(text_layer::layer(page, if is_small { &words } else { &[] }));
    }
    Ok(layers)
}

/// The pages of a result in order, each with the words that OCR found on it.
fn words<'a>(
    preparer: &'a Preparer,
    job: &'a Job,
    document: &'a ResultDocument,
) -> impl Stream<Item = Result<(&'a PageResult, Vec<PageWord>), StepError>> + 'a {
    let blobs = preparer.blobs.as_ref();
    stream::iter(&document.pages)
        .map(move |page| async move {
            let words = match may_be_recognized(page) {
                true => recognized_words(blobs, &job.id, page.page).await?,
                false => vec![],
            };
            Ok((page, words))
        })
        .buffered(CONCURRENT_READS)
}

fn may_be_recognized(page: &PageResult) -> bool {
    page.classification == Classification::HasGraphics || page.source.text == TextSource::Ocr
}
