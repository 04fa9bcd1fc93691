//! One page: its text, its history and its image.

use axum::{
    Json,
    extract::{Path, State},
    http::{
        HeaderMap, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, VARY},
    },
    response::{IntoResponse, Response},
};
use everypage_core::{
    app::App,
    document::PageBox,
    document::Reason,
    event::{self, Aggregate},
    events::trail,
    ids::PageNumber,
    job::{Job, StepError},
    prepare::{self, StoredPage, recognized_page, stored_image, stored_range},
    read::{outcome::PageEvent, pages},
};

use super::{pages::unpublished_pages, results::matches_etag};
use crate::{
    Api, DOWNLOAD_LINK_TTL, MAX_RENDERINGS, MAX_RESPONSE,
    auth::Known,
    problem::{Code, Problem},
    range::IN_PARTS,
    shape::{Page, PageDetail, PageImage, Settlement},
};

/// Parses the number of a page of the job.
fn number(job: &Job, text: &str) -> Result<PageNumber, Problem> {
    let number = text.parse().ok().and_then(PageNumber::new);
    let is_there = |number: &PageNumber| {
        let range = job.survey.as_ref().and_then(|survey| survey.range_of(*number));
        range.is_some_and(|range| range.pages.contains(*number))
    };
    number.filter(is_there).ok_or_else(|| {
        let detail = match &job.survey {
            Some(survey) => format!("the job has no such page; it has {} pages", survey.page_count()),
            None => "the document is not opened yet".to_owned(),
        };
        Problem::new(Code::UnknownPage, detail)
    })
}

/// Get a page with its text and history
///
/// The text is that of the latest result or, before the first, the best text so far. The history has every
/// settlement of the page with its model calls.
#[utoipa::path(get, path = "/v1/jobs/{id}/pages/{page}", operation_id = "get_job_page", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job"), ("page" = u32, Path, minimum = 1, description = "The number of the page in the document")),
    responses((status = 200, description = "The page in its current state", body = PageDetail)))]
pub async fn page(
    State(api): State<Api>,
    Known(caller): Known,
    Path((id, page)): Path<(String, String)>,
) -> Result<Json<PageDetail>, Problem> {
    let (app, job) = (&api.app, api.job(&caller, &id).await?);
    let number = number(&job, &page)?;
    let (mupdf_text, blocks, area) = match stored_page(app, &job, number).await? {
        Some(StoredPage { text, blocks, area, .. }) => (Some(text), blocks, area),
        None => (None, Vec::new(), PageBox::default()),
    };
    let settlements = settlements(app, &job, number).await?;
    let (page, text) = match api.results.latest(app.blobs.as_ref(), &job).await? {
        Some(document) => {
            let found = document.pages.iter().find(|page| page.page == number).cloned();
            let found =
                found.ok_or_else(|| Problem::new(Code::UnknownPage, "the result has no such page"))?;
            let text = found.text.clone();
            (Page::from(found), Some(text))
        }
        None => (unpublished_page(app, &job, number).await?, None),
    };
    let own_text = match recognized_page(app.blobs.as_ref(), &job.id, number).await? {
        Some((recognized, _)) if mupdf_text.as_ref().is_none_or(|text| text.trim().is_empty()) => {
            Some(recognized)
        }
        _ => mupdf_text.clone(),
    };
    let text = match text {
        Some(text) => Some(text),
        None => match pages::find(&app.store, &job.id, number).await? {
            Some(kept) => pages::text(app.blobs.as_ref(), &kept.value).await?.or(own_text),
            None => own_text,
        },
    };
    let stored = stored_image(app.blobs.as_ref(), &job, number).await?;
    let can_render = api.renderings.is_some() && page.reason != Some(Reason::Unreadable);
    let image = (stored.is_some() || can_render).then(|| PageImage {
        href: format!("/v1/jobs/{}/pages/{number}/image", job.id),
        sent: stored.is_some(),
        width_px: stored.as_ref().map(|image| image.width_px),
        height_px: stored.as_ref().map(|image| image.height_px),
    });
    Ok(Json(PageDetail { page, text, mupdf_text, blocks, area, image, settlements }))
}

async fn unpublished_page(app: &App, job: &Job, number: PageNumber) -> Result<Page, Problem> {
    let Some(survey) = &job.survey else { return Ok(Page::planned(number)) };
    let found = unpublished_pages(app, job, survey, number.get() - 1, 1).await?;
    Ok(found.into_iter().next().unwrap_or_else(|| Page::planned(number)))
}

async fn stored_page(app: &App, job: &Job, number: PageNumber) -> Result<Option<StoredPage>, StepError> {
    let Some(range) = job.survey.as_ref().and_then(|survey| survey.range_of(number)) else { return Ok(None) };
    let stored = stored_range(app.blobs.as_ref(), &job.id, range).await?.unwrap_or_default();
    Ok(stored.into_iter().find(|page| page.page == number))
}

/// Every settlement of the page: the first, and one for each redrive or heal.
async fn settlements(app: &App, job: &Job, number: PageNumber) -> Result<Vec<Settlement>, Problem> {
    let events = trail::read(&app.store, &Aggregate::Page(job.id.clone(), number)).await?;
    let settled = events.iter().filter_map(|event| event::decode::<PageEvent>(event).ok());
    Ok(settled.map(|PageEvent::Settled(outcome)| Settlement::from(outcome)).collect())
}

/// Get the image of a page
///
/// The image that was sent to models. For other pages the image is rendered, where the service can.
#[utoipa::path(get, path = "/v1/jobs/{id}/pages/{page}/image", operation_id = "get_job_page_image", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job"), ("page" = u32, Path, minimum = 1, description = "The number of the page in the document")),
    responses(
        (status = 200, description = "The image", content(
            (inline(Image) = "image/jpeg"), (inline(Image) = "image/png")), headers(("etag" = String))),
        (status = 206, description = "The requested part of the image (`Range`)"),
        (status = 303, description = "The image is too large for a response: download it from `Location`, which is valid for five minutes",
            headers(("location" = String))),
        (status = 304, description = "The client has this image")))]
pub async fn image(
    State(api): State<Api>,
    Known(caller): Known,
    Path((id, page)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (app, job) = (&api.app, api.job(&caller, &id).await?);
    let number = number(&job, &page)?;
    // The image of a page never changes: a job keeps its document and settings.
    let tag = format!("\"{}.{number}.{}\"", job.received.document.sha256, job.id);
    // Asked for again each time, so that no browser shows it to the next person with another key.
    let common = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, "private, no-cache".to_owned()),
        (VARY, "authorization".to_owned()),
    ];
    if matches_etag(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let none = |detail: &str| Problem::new(Code::NoImage, detail);
    let (media_type, bytes) = match stored_image(app.blobs.as_ref(), &job, number).await? {
        Some(image) => {
            let bytes = app.blobs.get(&image.key).await?;
            let bytes = bytes.ok_or_else(|| none("the image was deleted"))?;
            if let Some(downloads) = api.download_links.as_ref().filter(|_| bytes.len() > MAX_RESPONSE) {
                let link = downloads.link(&image.key, &image.mime, DOWNLOAD_LINK_TTL).await?;
                return Ok((StatusCode::SEE_OTHER, [(LOCATION, link)]).into_response());
            }
            (image.mime, bytes)
        }
        None => {
            let renderings = api.renderings.as_ref();
            let renderings =
                renderings.ok_or_else(|| none("the page was not sent to a model, so it has no image"))?;
            let _share = renderings.take(caller.identity()).ok_or_else(|| {
                let detail = format!("{MAX_RENDERINGS} images are being rendered for this caller already");
                Problem::new(Code::TooManyRequests, detail).with_header("retry-after", "1")
            })?;
            match prepare::render_page(&app.preparer, &job, number).await {
                Ok(Some(image)) => (image.format.mime().to_owned(), image.bytes),
                Ok(None) => return Err(none("the page can't be rendered")),
                Err(StepError::Document(error)) => return Err(none(&error.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
    };
    Ok((common, [IN_PARTS], [(CONTENT_TYPE, media_type)], bytes).into_response())
}

/// The bytes of an image.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a body of bytes")]
pub struct Image(Vec<u8>);
