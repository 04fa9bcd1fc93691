//! OCR while models work: on one machine, idle cores recognize pages ahead, at the lowest priority.

use std::{
    future,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use everypage_core::{
    app::App,
    finish::recognize,
    ids::PageNumber,
    job::Job,
    ports::ocr::OcrPriority,
    prepare::StoredPage,
    read::{outcome::Settlement, pages},
};
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often a page that is being recognized is looked up: an AI may have read it meanwhile.
const PAGE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Recognizes the pages of a job that need it and that no AI has read, and returns when none is left. `ai_is_done`
/// is signalled once every page that was sent is settled. Never fails the job: without OCR it has what it has.
pub(crate) async fn recognize_pages(app: &App, job: &Job, ai_is_done: &CancellationToken) {
    let found = match recognize::pending(&app.finisher, job).await {
        Ok(found) => found,
        Err(error) => {
            warn!(%error, "pages for OCR not listed");
            return;
        }
    };
    let is_unavailable = AtomicBool::new(false);
    stream::iter(&found)
        .for_each_concurrent(app.preparer.ocr.parallel_pages(), |page| async {
            if is_unavailable.load(Ordering::Relaxed) {
                return;
            }
            tokio::select! {
                biased;
                () = read_by_ai(app, job, page.page, ai_is_done) => {}
                done = recognize_one(app, job, page, ai_is_done) => is_unavailable.store(!done, Ordering::Relaxed),
            }
        })
        .await;
}

/// False if no page can be recognized here.
async fn recognize_one(app: &App, job: &Job, page: &StoredPage, ai_is_done: &CancellationToken) -> bool {
    let is_needed = ai_is_done.is_cancelled();
    let priority = if is_needed { OcrPriority::Needed } else { OcrPriority::Ahead };
    recognize::recognize(&app.finisher, job, page, priority).await
}

/// Returns when an AI has read the page.
async fn read_by_ai(app: &App, job: &Job, page: PageNumber, ai_is_done: &CancellationToken) {
    loop {
        let is_last = ai_is_done.is_cancelled();
        match pages::find(&app.store, &job.id, page).await {
            Ok(Some(kept)) if kept.value.outcome.as_ref().is_some_and(Settlement::is_ai) => return,
            Ok(_) => {}
            Err(fault) => warn!(%fault, "page not read"),
        }
        if is_last {
            return future::pending().await;
        }
        tokio::select! {
            biased;
            () = ai_is_done.cancelled() => {}
            () = app.store.clock.sleep(PAGE_POLL_INTERVAL) => {}
        }
    }
}
