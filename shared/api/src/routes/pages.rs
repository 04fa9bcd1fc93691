use axum::{
    Json,
    extract::{Path, Query, State},
};
use everypage_core::{
    app::App,
    domain::{
        ids::PageNumber,
        job::{self, Survey},
        plan::{PageFacts, Route, route},
    },
    store::pages,
    usecases::prepare::{StoredPage, stored_range, wants_image},
};

use crate::{
    Api,
    auth::Known,
    cursor::{self, Place},
    problem::Problem,
    shape::{Page, PageStatus, Piece},
};

const USUAL: usize = 100;
const MOST: usize = 500;

/// A job's pages and where the text of each comes from
///
/// Before there is a result, as far as each page has come by now. Empty until the document was
/// opened. The text itself is in the result.
#[utoipa::path(get, path = "/v1/jobs/{id}/pages", operation_id = "list_job_pages", tag = "jobs", params(("id" = String, Path), Place),
    responses((status = 200, description = "Up to 500 pages, 100 unless asked otherwise", body = Piece<Page>)))]
pub async fn pages(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(place): Query<Place>,
) -> Result<Json<Piece<Page>>, Problem> {
    let job = api.job(&caller, &id).await?;
    let list = format!("pages/{}", job.id);
    let limit = place.limit(USUAL, MOST)?;
    let after = match place.after(&list)? {
        None => 0,
        Some(text) => text.parse().map_err(|_| Problem::mistake("cursor", "it leads to no page"))?,
    };
    // One more than wanted, to know whether there is more.
    let mut items: Vec<Page> = match api.documents.latest(&api.app, &job).await? {
        Some(document) => {
            let wanted = document.pages.iter().filter(|page| page.page.get() > after);
            wanted.take(limit + 1).cloned().map(Page::from).collect()
        }
        None => match &job.survey {
            Some(survey) => live(&api.app, &job, survey, after, limit + 1).await?,
            None => Vec::new(),
        },
    };
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more).map(|page| page.page);
    Ok(Json(Piece { items, next: last.map(|page| cursor::write(&list, &page.to_string())) }))
}

/// Pages of a job whose result is not there yet.
pub async fn live(
    app: &App,
    job: &job::Job,
    survey: &Survey,
    after: u32,
    count: usize,
) -> Result<Vec<Page>, Problem> {
    let numbers: Vec<PageNumber> = survey.pages().filter(|page| page.get() > after).take(count).collect();
    let mut touched = pages::some(app, &job.id, &numbers).await?;
    let mut stored: Vec<StoredPage> = Vec::new();
    for range in &survey.ranges {
        if numbers.iter().any(|page| range.first <= *page && *page <= range.last) {
            stored.extend(stored_range(app, &job.id, range).await?.unwrap_or_default());
        }
    }
    let now = app.clock.now();
    Ok(numbers
        .into_iter()
        .map(|number| {
            let found = stored.iter().find(|page| page.page == number);
            let page = Page::waiting(number).classified(found.map(|page| page.reason));
            match touched.remove(&number) {
                Some(record) => match record.outcome {
                    Some(outcome) => page.settled(outcome),
                    None if record.lease.is_some_and(|lease| lease.alive(now)) => {
                        Page { status: PageStatus::Working, ..page }
                    }
                    None => page,
                },
                None if found.is_some_and(|found| is_kept(job, found)) => page.kept(),
                None => page,
            }
        })
        .collect())
}

/// MuPDF's text was all that was planned for it.
fn is_kept(job: &job::Job, page: &StoredPage) -> bool {
    let Some(plan) = &job.plan else { return false };
    let facts = PageFacts {
        number: page.page,
        reason: page.reason,
        has_image: wants_image(job, page),
        has_text: !page.text.trim().is_empty(),
    };
    let options = &job.received.options;
    plan.ai_pages == 0 || route(&facts, options.ai_pages, options.image_for_all) == Route::Keep
}
