use axum::{
    Json,
    extract::{Path, Query, State},
};
use everypage_core::{
    app::App,
    finish::page_status::PageStatus,
    ids::PageNumber,
    job::{self, Survey},
    plan::route::{PageFacts, Route, route},
    prepare::{StoredPage, add_recognized, stored_range, wants_image},
    read::pages,
};

use crate::{
    Api,
    auth::Known,
    cursor::{self, ListParams},
    problem::Problem,
    shape::{List, Page, PageList},
};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

/// List the pages of a job with the source of their text
///
/// Before the first result, pages are in their current state: a waiting page shows why it waits and until
/// when, and pages that are not settled show the calls so far. The list is empty until the document is
/// opened. The text itself is in the result.
#[utoipa::path(get, path = "/v1/jobs/{id}/pages", operation_id = "list_job_pages", tag = "jobs", params(("id" = String, Path, description = "The id of the job"), ListParams),
    responses((status = 200, description = "Up to 500 pages, 100 by default", body = PageList)))]
pub async fn pages(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(params): Query<ListParams>,
) -> Result<Json<PageList>, Problem> {
    let job = api.job(&caller, &id).await?;
    let list = format!("pages/{}", job.id);
    let limit = params.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let after = match params.after(&list)? {
        None => 0,
        Some(text) => text
            .parse()
            .map_err(|_| Problem::invalid("cursor", "not the `next` of a response to this request"))?,
    };
    // One more than the limit, to know whether the list continues.
    let mut items: Vec<Page> = match api.results.latest(api.app.blobs.as_ref(), &job).await? {
        Some(document) => {
            let wanted = document.pages.iter().filter(|page| page.page.get() > after);
            wanted.take(limit + 1).cloned().map(Page::from).collect()
        }
        None => match &job.survey {
            Some(survey) => unpublished_pages(&api.app, &job, survey, after, limit + 1).await?,
            None => Vec::new(),
        },
    };
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more).map(|page| page.page);
    Ok(Json(List { items, next: last.map(|page| cursor::encode(&list, &page.to_string())) }))
}

/// Pages of a job without a result, in their current state.
pub async fn unpublished_pages(
    app: &App,
    job: &job::Job,
    survey: &Survey,
    after: u32,
    count: usize,
) -> Result<Vec<Page>, Problem> {
    let numbers: Vec<PageNumber> = survey.pages().filter(|page| page.get() > after).take(count).collect();
    let mut touched = pages::some(&app.store, &job.id, &numbers).await?;
    let mut stored: Vec<StoredPage> = Vec::new();
    for range in &survey.ranges {
        if numbers.iter().any(|page| range.first <= *page && *page <= range.last) {
            stored.extend(stored_range(app.blobs.as_ref(), &job.id, range).await?.unwrap_or_default());
        }
    }
    let mut stored = vec![Some(stored)];
    add_recognized(app.blobs.as_ref(), &job.id, survey.ocr, &mut stored, |page| {
        !touched.contains_key(&page) && numbers.contains(&page)
    })
    .await?;
    let stored: Vec<StoredPage> = stored.into_iter().flatten().flatten().collect();
    let now = app.store.clock.now();
    Ok(numbers
        .into_iter()
        .map(|number| {
            let found = stored.iter().find(|page| page.page == number);
            let page = Page::planned(number).classified(found.map(|page| page.reason));
            let record = touched.remove(&number);
            let status = PageStatus::of(record.as_ref(), false, now);
            match record {
                Some(pages::Page { outcome: Some(outcome), .. }) => page.settled(outcome),
                Some(record) => page.unsettled(status, record),
                None => match found.filter(|found| !found.awaits_ocr && is_kept(job, found)) {
                    Some(found) => page.kept(found),
                    None => page,
                },
            }
        })
        .collect())
}

/// Whether the plan keeps our own text for this page.
fn is_kept(job: &job::Job, page: &StoredPage) -> bool {
    let Some(plan) = &job.plan else { return false };
    let facts = PageFacts {
        number: page.page,
        reason: page.reason,
        confidence: page.confidence,
        has_image: wants_image(job, page),
        has_text: !page.text.trim().is_empty(),
    };
    let options = &job.received.options;
    plan.ai_pages == 0 || route(&facts, options.ai_pages, options.image_for_all) == Route::Keep
}
