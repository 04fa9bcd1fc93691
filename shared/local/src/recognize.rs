//! OCR while models work: on one machine, idle cores recognize pages ahead, at the lowest priority.

use std::{
    future,
    sync::atomic::{AtomicBool, Ordering},
};

use everypage_core::{
    app::App,
    events::Store,
    finish::{Finisher, recognize},
    ids::PageNumber,
    job::Job,
    ports::ocr::OcrPriority,
    prepare::StoredPage,
    read::{outcome::Settlement, pages},
};
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Recognizes the pages of a job that need it and that no AI has read, and returns when none is left. As long as pages
/// are with a model, it continues with those that a model has read, which are checked by it. `ai_is_done` is signalled
/// once every page that was sent is settled. Never fails the job: without OCR it has what it has.
pub(crate) async fn recognize_pages(app: &App, job: &Job, ai_is_done: &CancellationToken) {
    let found = match recognize::pending(&app.finisher, job).await {
        Ok(found) => found,
        Err(error) => {
            warn!(%error, "pages for OCR not listed");
            return;
        }
    };
    let is_available = each(app, &found, |page| async {
        if is_read_by_ai(&app.store, job, page.page).await {
            return true;
        }
        tokio::select! {
            biased;
            () = until_nothing_needs(&app.store, job, page.page, ai_is_done) => true,
            is_available = recognize_one(&app.finisher, job, page, ai_is_done) => is_available,
        }
    })
    .await;
    if is_available {
        tokio::select! {
            biased;
            () = ai_is_done.cancelled() => {}
            () = recognize_unchecked(app, job, ai_is_done) => {}
        }
    }
}

/// Recognizes the pages that an AI has read.
async fn recognize_unchecked(app: &App, job: &Job, ai_is_done: &CancellationToken) {
    match recognize::unchecked(&app.finisher, job).await {
        Ok(found) => {
            each(app, &found, |page| recognize_one(&app.finisher, job, page, ai_is_done)).await;
        }
        Err(error) => warn!(%error, "pages for OCR not listed"),
    }
}

/// Works on as many pages at once as OCR has processes; false once a page finds that there is no OCR, which ends it.
async fn each<'a, F: Future<Output = bool>>(
    app: &App,
    found: &'a [StoredPage],
    work: impl Fn(&'a StoredPage) -> F,
) -> bool {
    let is_available = AtomicBool::new(true);
    stream::iter(found)
        .for_each_concurrent(app.preparer.ocr.parallel_pages(), |page| async {
            if is_available.load(Ordering::Relaxed) {
                let done = work(page).await;
                is_available.fetch_and(done, Ordering::Relaxed);
            }
        })
        .await;
    is_available.into_inner()
}

/// False if no page can be recognized here.
async fn recognize_one(
    finisher: &Finisher,
    job: &Job,
    page: &StoredPage,
    ai_is_done: &CancellationToken,
) -> bool {
    let is_needed = ai_is_done.is_cancelled();
    let priority = if is_needed { OcrPriority::Needed } else { OcrPriority::Ahead };
    recognize::recognize(finisher, job, page, priority).await
}

/// Returns when no page is with a model any more, if an AI has read this one: the result would wait for its check.
async fn until_nothing_needs(store: &Store, job: &Job, page: PageNumber, ai_is_done: &CancellationToken) {
    ai_is_done.cancelled().await;
    if !is_read_by_ai(store, job, page).await {
        future::pending().await
    }
}

async fn is_read_by_ai(store: &Store, job: &Job, page: PageNumber) -> bool {
    match pages::find(store, &job.id, page).await {
        Ok(found) => found.is_some_and(|kept| kept.value.outcome.as_ref().is_some_and(Settlement::is_ai)),
        Err(fault) => {
            warn!(%fault, "page not read");
            false
        }
    }
}
