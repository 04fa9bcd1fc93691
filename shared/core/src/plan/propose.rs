//! Proposes the plan: which pages go to AI, with which input, at what cost, and whether it needs approval.

use std::collections::{BTreeMap, HashMap};

use crate::{
    billing::accounts,
    digest::sha256_hex,
    document::Reason,
    event::Actor,
    ids::{JobId, PageNumber},
    job::{
        Job, JobEvent, Plan, State, StepCode, StepError, Survey, credits, encode, jobs,
        message::{self, ImageRef, MAX_INLINE_CONTEXT, PageMessage, idempotency_key, sendable},
        telemetry as job_telemetry,
    },
    keys::blob,
    plan::{
        Planner, context,
        route::{PageFacts, Route, estimate_cost, route},
    },
    ports::blobs::Blobs,
    prepare::{StoredPage, all_stored_images, stored_ranges, wants_image},
    providers::target::{Provider, Target},
    settings::{Credits, Settings},
    tenants,
};

/// Proposes a plan for an understood job, and approves it unless a person has to. A job that waits for one, or was
/// rejected, gives its seat to another.
pub async fn propose(planner: &Planner, job: &Job) -> Result<Job, StepError> {
    let proposed = propose_plan(planner, job).await?;
    if !proposed.needs_seat() {
        planner.admission.leave(&job.id).await;
    }
    Ok(proposed)
}

async fn propose_plan(planner: &Planner, job: &Job) -> Result<Job, StepError> {
    if job.state != State::Understood {
        return Ok(job.clone());
    }
    let plan = job_telemetry::plan(&planner.store, job).run(build_plan(planner, job, 1)).await?;
    let proposed = |job: &Job, verdict: Option<&JobEvent>| match job.state {
        State::Understood => {
            // A job that is halted before it was approved reserves no credits and is not rejected for too few:
            // finalize publishes its text.
            let verdict = verdict.filter(|_| job.halt.is_none());
            [JobEvent::Proposed(plan.clone())].into_iter().chain(verdict.cloned()).collect()
        }
        _ => vec![],
    };
    if plan.approval.is_some() {
        return Ok(jobs::advance(&planner.store, Actor::Intake, &job.id, |job| proposed(job, None))
            .await?
            .value);
    }
    if plan.prepaid && plan.ai_pages > 0 {
        accounts::welcome(&planner.store, &planner.tenants, &job.received.tenant).await?;
    }
    credits::approve(&planner.store, Actor::Intake, job, &plan, "policy", |job, verdict| {
        proposed(job, Some(verdict))
    })
    .await
}

/// Builds the plan of a job and stores its manifest.
pub async fn build_plan(planner: &Planner, job: &Job, version: u32) -> Result<Plan, StepError> {
    let survey = job.survey.as_ref().ok_or_else(|| StepError::Broken {
        code: StepCode::IllegalTransition,
        reason: "the document must be understood before it is planned".into(),
    })?;
    let options = &job.received.options;
    let settings = tenants::settings(&planner.tenants, &job.received.tenant).await?;
    let order = settings.failover_order_of(&options.failover);
    let steps = order.starting_with(options.provider).steps(options.tier);
    let no_ai_reason = steps.is_empty().then(|| match options.failover.is_empty() {
        true => format!("no API key is set ({})", Provider::api_key_variables().join(" or ")),
        false => format!("no API key is set for any of the models {}", options.failover),
    });
    let mut messages = Vec::new();
    let mut reasons: BTreeMap<Reason, u32> = BTreeMap::new();
    if no_ai_reason.is_none() {
        let pages = all_pages(planner.blobs.as_ref(), job, survey).await?;
        for (index, Prepared { key, page, image }) in pages.iter().enumerate() {
            let facts = PageFacts {
                number: page.page,
                reason: page.reason,
                confidence: page.confidence,
                has_image: !matches!(image, Image::None),
                has_text: !page.text.trim().is_empty(),
            };
            let route = route(&facts, options.ai_pages, options.image_for_all);
            // A modified plan may exclude some of the prepared pages.
            if route != Route::Keep && options.pages.contains(page.page) {
                let image = match (route, image) {
                    (Route::SendImage, Image::Rendered(image)) => Some(image.clone()),
                    _ => None,
                };
                let text =
                    context_of(&planner.settings, &pages, index, survey.document_pages, image.is_some());
                let context = store_context(planner.blobs.as_ref(), &job.id, page.page, text).await?;
                *reasons.entry(page.reason).or_default() += 1;
                messages.push(page_message(&settings, job, version, key, page, image, context));
            }
        }
    }
    let image_pages = messages.iter().filter(|message| message.image.is_some()).count() as u32;
    let ai_pages = messages.len() as u32;
    let price = steps.first().and_then(|target: &Target| planner.vision.price(target)).unwrap_or_default();
    let cost = estimate_cost(image_pages, ai_pages - image_pages, price);
    let unpriced = steps.first().filter(|target| planner.vision.price(target).is_none() && ai_pages > 0);
    let approval = settings.approval_threshold_usd.and_then(|threshold| match unpriced {
        // A threshold that could be passed by not knowing a price would be none.
        Some(target) => Some(format!("the price of {target} is not known: set it in MODEL_PRICES")),
        None if cost.usd() > threshold => Some(format!(
            "the estimated cost of {:.2} USD is over the threshold of {threshold:.2} USD",
            cost.usd()
        )),
        None => None,
    });
    let bytes = encode(&messages)?;
    // Named by its content, so that it never conflicts with a plan that was built but not proposed.
    let manifest = blob::manifest(&job.id, version, &sha256_hex(&bytes)[..16]);
    planner.blobs.put_new(&manifest, bytes).await?;
    Ok(Plan {
        version,
        tier: options.tier,
        provider: options.provider,
        priority: Some(options.priority),
        ai_pages,
        image_pages,
        reasons,
        estimated_credits: ai_pages,
        estimated_cost_micro_usd: cost,
        manifest,
        approval,
        prepaid: settings.credits == Credits::Prepaid,
        no_ai_reason,
    })
}

/// The page messages of a plan, one for each page that goes to AI.
pub async fn manifest(blobs: &dyn Blobs, plan: &Plan) -> Result<Vec<PageMessage>, StepError> {
    let broken = |reason: String| StepError::Broken { code: StepCode::Manifest, reason };
    let bytes = blobs.get(&plan.manifest).await?;
    let bytes = bytes.ok_or_else(|| broken(format!("{} is missing", plan.manifest)))?;
    serde_json::from_slice(&bytes).map_err(|error| broken(format!("{}: {error}", plan.manifest)))
}

/// A page with its image, as input of the plan.
struct Prepared {
    /// The blob with the text of its range.
    key: String,
    page: StoredPage,
    image: Image,
}

enum Image {
    None,
    Rendered(ImageRef),
    /// The deadline passed before it was rendered, or rendering failed: the page is sent with its text, if
    /// any, and may be healed with its image.
    Missing,
}

async fn all_pages(blobs: &dyn Blobs, job: &Job, survey: &Survey) -> Result<Vec<Prepared>, StepError> {
    let mut pages = Vec::with_capacity(survey.page_count() as usize);
    let rendered = all_stored_images(blobs, &job.id, &survey.ranges).await?;
    let stored = stored_ranges(blobs, &job.id, &survey.ranges).await?;
    for ((range, rendered), stored) in survey.ranges.iter().zip(rendered).zip(stored) {
        let key = blob::range_text(&job.id, range.first, range.last);
        let mut images: HashMap<PageNumber, ImageRef> = rendered.into_iter().flatten().collect();
        for page in stored.unwrap_or_default() {
            let image = match images.remove(&page.page) {
                Some(image) => Image::Rendered(image),
                None if wants_image(job, &page) => Image::Missing,
                None => Image::None,
            };
            pages.push(Prepared { key: key.clone(), page, image });
        }
    }
    Ok(pages)
}

/// The context of a page message: the text itself, or the blob with it.
struct Context {
    text: String,
    key: Option<String>,
}

async fn store_context(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
    text: String,
) -> Result<Context, StepError> {
    let text = sendable(text);
    // The length as JSON: each control character of a garbled text layer takes six bytes there.
    let length = serde_json::to_string(&text).map_or(usize::MAX, |json| json.len());
    if length <= MAX_INLINE_CONTEXT {
        return Ok(Context { text, key: None });
    }
    let key = blob::page_context(job, page, &sha256_hex(text.as_bytes())[..16]);
    blobs.put_new(&key, text.into_bytes()).await?;
    Ok(Context { text: String::new(), key: Some(key) })
}

fn context_of(settings: &Settings, pages: &[Prepared], index: usize, of: u32, has_image: bool) -> String {
    let radius = settings.context_radius as usize;
    let number = pages[index].page.page.get();
    // Neighbours by page number: with a selection, the next page in the list may be far away.
    let joined = |range: std::ops::Range<usize>| {
        let neighbours =
            range.filter(|other| pages[*other].page.page.get().abs_diff(number) as usize <= radius);
        neighbours.map(|other| pages[other].page.text.trim()).collect::<Vec<_>>().join("\n")
    };
    let current = &pages[index].page.text;
    // Without an image the page's own text is the only input: it is never cut.
    let max_bytes = settings.max_context_bytes + if has_image { 0 } else { current.len() };
    let before = joined(index.saturating_sub(radius)..index);
    let after = joined(index + 1..(index + 1 + radius).min(pages.len()));
    context::build(number, of, &before, current, &after, max_bytes)
}

fn page_message(
    settings: &Settings,
    job: &Job,
    plan: u32,
    text_key: &str,
    page: &StoredPage,
    image: Option<ImageRef>,
    context: Context,
) -> PageMessage {
    let received = &job.received;
    PageMessage {
        version: message::VERSION,
        job_id: job.id.clone(),
        document_id: received.document.sha256.clone(),
        page_id: page.page,
        image,
        mupdf_text_key: text_key.to_owned(),
        context_text: context.text,
        context_key: context.key,
        system_prompt_version: sha256_hex(settings.system_prompt.as_bytes())[..8].to_owned(),
        ai_provider: received.options.provider,
        model_tier: received.options.tier,
        classification: page.reason.classification(),
        idempotency_key: idempotency_key(&job.id, page.page, plan),
        plan_version: plan,
        redrive_count: 0,
        rounds: 0,
        deadline: job.deadline,
        priority: received.options.priority,
        tenant: received.tenant.clone(),
        user: received.user.clone(),
        source: received.source.to_string(),
        correlation_id: job.correlation_id.clone(),
        traceparent: job.trace().to_string(),
    }
}
