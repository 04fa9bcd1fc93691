//! The reading of one page by one worker: what is sent, and to which models.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    PageReader,
    breaker::Urgency,
    breakers,
    expenses::{self, Budgets, Granted},
    outcome::{ModelCall, PageOutcome, Settlement},
    pages::Page,
    reference::Reference,
    round::Round,
    waiting::{WaitReason, Waiting},
};
use crate::{
    document::ImageFormat,
    job::{Job, StepCode, StepError, message::PageMessage},
    money::MicroUsd,
    ports::vision::{PageRequest, RequestImage},
    prepare::{StoredPage, add_recognized, render_sharper, stored_pages, stored_range},
    providers::target::Target,
    settings::{Patience, Settings},
    tenants,
    time::{after, until},
    trace::TraceContext,
};

/// Until when the worker has the page, as far as it knows. Where storage is slow, renewals come late: from
/// then on another worker may have the page, and may have read it.
pub(super) struct LeasedUntil(Mutex<Timestamp>);

impl LeasedUntil {
    pub fn new(page: &Page) -> Self {
        let until = Self(Mutex::new(Timestamp::MIN));
        until.renewed(page);
        until
    }

    pub fn renewed(&self, page: &Page) {
        *self.0.lock() = page.lease.as_ref().map_or(Timestamp::MIN, |lease| lease.until);
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= *self.0.lock()
    }
}

pub(super) struct PageTask<'a> {
    pub reader: &'a PageReader,
    pub job: &'a Job,
    pub message: &'a PageMessage,
    /// The holder of the page's lease, and of a probe that one of its calls may be.
    pub holder: &'a str,
    pub deadline: Timestamp,
    /// When the worker has to leave.
    pub leave_by: Timestamp,
    /// Of the page's span, if it is traced.
    pub trace: Option<TraceContext>,
    pub stop: &'a CancellationToken,
    pub leased_until: &'a LeasedUntil,
    /// What earlier rounds did.
    pub earlier_calls: &'a [ModelCall],
    pub rounds: u32,
    pub first_round_at: Timestamp,
}

impl PageTask<'_> {
    /// Reads the page, from stored text and image to an outcome.
    pub async fn run(&self) -> Result<PageOutcome, StepError> {
        let (reader, message) = (self.reader, self.message);
        let started_at = reader.store.clock.now();
        let settings = tenants::settings(&reader.tenants, &message.tenant).await?;
        let stored = self.stored_page().await?;
        // Its image could not be rendered: a model would have to invent the page.
        if message.image.is_none() && stored.text.trim().is_empty() {
            let reason = "the page has neither an image nor text to send".to_owned();
            let settled = Settlement::fallback(reason, vec![], started_at, reader.store.clock.now());
            return Ok(PageOutcome::Settled(settled, None));
        }
        let steps = steps(&settings, self.job, message);
        let reference = if settings.check_answers { self.reference(stored).await? } else { None };
        let tenant_budget = settings.tenant_budget_usd.map(MicroUsd::from_usd);
        let budget = self.job.received.options.budget_usd;
        let budgets = Budgets::new((&self.job.id, budget), (&message.tenant, tenant_budget), started_at);
        let round = Round {
            task: self,
            request: None,
            sharper_image: None,
            reference,
            other_texts: vec![],
            start_by: start_by(started_at, self.leave_by, settings.request_timeout),
            steps,
            settings,
            started_at,
            calls: vec![],
            budgets,
            unaffordable: vec![],
            retry_at: vec![],
        };
        round.run().await
    }

    /// What is sent to a model, from the blobs.
    pub async fn request(&self, settings: &Settings) -> Result<PageRequest, StepError> {
        let (blobs, message) = (&self.reader.blobs, self.message);
        let load = async |key: &str, code| {
            let reason = || format!("{key} is gone");
            blobs.get(key).await?.ok_or_else(|| StepError::Broken { code, reason: reason() })
        };
        let image = match &message.image {
            None => None,
            Some(image) => {
                let bytes = load(&image.key, StepCode::ImageMissing).await?.into();
                let is_png = image.mime == ImageFormat::Png.mime();
                let format = if is_png { ImageFormat::Png } else { ImageFormat::Jpeg };
                Some(RequestImage { format, bytes })
            }
        };
        let context_text = match &message.context_key {
            None => message.context_text.clone(),
            Some(key) => String::from_utf8_lossy(&load(key, StepCode::ContextMissing).await?).into_owned(),
        };
        Ok(PageRequest {
            system_prompt: settings.system_prompt.clone(),
            context_text,
            image,
            max_output_tokens: self.reader.settings.max_output_tokens,
            temperature: None,
            service_tier: Default::default(),
        })
    }

    /// Ends a reservation of money. One that can't be ended counts in full when its time is over.
    pub async fn settle_funds(&self, granted: &Granted, cost: MicroUsd) {
        if let Err(fault) = expenses::settle(&self.reader.store, granted, cost).await {
            warn!(%fault, "a call's cost was not settled in its budget, it counts as the most that it could be");
        }
    }

    /// The page's image with a higher resolution; `None` where it can't be rendered.
    pub async fn sharper_image(&self) -> Option<RequestImage> {
        self.message.image.as_ref().filter(|_| self.reader.preparer.pdf.is_available())?;
        match render_sharper(&self.reader.preparer, self.job, self.message.page_id).await {
            Ok(image) => image.map(|image| RequestImage { format: image.format, bytes: image.bytes.into() }),
            Err(error) => {
                debug!(%error, "no sharper image");
                None
            }
        }
    }

    /// What answers are checked against: the page's text layer, or what OCR has recognized by now.
    async fn reference(&self, stored: StoredPage) -> Result<Option<Reference>, StepError> {
        let mut pages = [Some(vec![stored])];
        if let Some(survey) = &self.job.survey {
            add_recognized(self.reader.blobs.as_ref(), &self.job.id, survey.ocr, &mut pages, |_| true)
                .await?;
        }
        Ok(pages.iter().flatten().flatten().next().and_then(Reference::of))
    }

    async fn stored_page(&self) -> Result<StoredPage, StepError> {
        let (page, key) = (self.message.page_id, &self.message.mupdf_text_key);
        let blobs = self.reader.blobs.as_ref();
        let pages = match self.job.survey.as_ref().and_then(|survey| survey.range_of(page)) {
            Some(range) => stored_range(blobs, &self.job.id, range).await?,
            None => stored_pages(blobs, key).await?,
        };
        let pages = pages.unwrap_or_default();
        pages.into_iter().find(|stored| stored.page == page).ok_or_else(|| StepError::Broken {
            code: StepCode::StoredText,
            reason: format!("page {page} is not in {key}"),
        })
    }
}

/// The models that may be called for a page, in order.
fn steps(settings: &Settings, job: &Job, message: &PageMessage) -> Vec<Target> {
    let order = settings.failover_order_of(&job.received.options.failover);
    order.starting_with(message.ai_provider).steps(message.model_tier)
}

/// Until when a page that waits has to wait longer; `None` when a round may start. It need not be claimed to find
/// that. `last_call_at` is when its latest call ended.
pub(super) async fn waits_until(
    reader: &PageReader,
    job: &Job,
    message: &PageMessage,
    waiting: Option<&Waiting>,
    last_call_at: Timestamp,
) -> Result<Option<Waiting>, StepError> {
    let settings: Arc<Settings> = tenants::settings(&reader.tenants, &message.tenant).await?;
    let steps = steps(&settings, job, message);
    // With less patience the page may have to be given up instead.
    if job.received.options.patience == Patience::Deadline
        && let Some((until, reason, target)) = unavailable_until(reader, job, &steps).await
    {
        return Ok(Some(Waiting { until, reason, target: target.clone(), rounds: message.rounds }));
    }
    // A queue that delays messages for less than that brings the page back before its backoff is over. Where a model
    // has recovered since its call, there is nothing to wait for.
    let now = reader.store.clock.now();
    let backoff = waiting.filter(|waiting| waiting.reason == WaitReason::CallFailed && now < waiting.until);
    for target in steps.iter().filter(|_| backoff.is_some()) {
        breakers::lets_through(&reader.breakers, target, &steps, Urgency::Normal).await;
        if breakers::has_recovered_since(&reader.breakers, target, last_call_at).await {
            return Ok(None);
        }
    }
    Ok(backoff.cloned())
}

/// When the first of these models may be called, and why not now; `None` when one may be now, or when there is none.
async fn unavailable_until<'a>(
    reader: &PageReader,
    job: &Job,
    steps: &'a [Target],
) -> Option<(Timestamp, WaitReason, &'a Target)> {
    reader.paces.refresh(steps).await;
    let mut soonest: Option<(Timestamp, WaitReason, &Target)> = None;
    let mut are_all_open = true;
    for target in steps {
        breakers::lets_through(&reader.breakers, target, steps, Urgency::Normal).await;
        let open = breakers::available_at(&reader.breakers, target, Urgency::Normal).await.map(|(at, _)| at);
        are_all_open &= open.is_some() || reader.paces.is_exhausted(target, job.deadline).await;
        let paused = reader.paces.paused(target).await;
        let at = open.max(paused)?;
        let reason = if paused == Some(at) { WaitReason::RateLimited } else { WaitReason::BreakerOpen };
        soonest =
            Some((at, reason, target)).filter(|_| soonest.is_none_or(|(first, ..)| at < first)).or(soonest);
    }
    if !are_all_open {
        return soonest;
    }
    let mut first_probe: Option<(Timestamp, WaitReason, &Target)> = None;
    for target in steps {
        let open = breakers::available_at(&reader.breakers, target, Urgency::NoOtherModel).await;
        let open = match (open, reader.paces.paused(target).await) {
            (Some((at, is_misconfigured)), paused) => Some((at.max(paused.unwrap_or(at)), is_misconfigured)),
            (None, paused) => paused.map(|at| (at, false)),
        };
        match open {
            None => return None,
            // It is not waited for. If all are like this, the round gives the page up.
            Some((_, true)) => {}
            Some((at, false)) => {
                let is_first = first_probe.is_none_or(|(first, ..)| at < first);
                first_probe =
                    Some((at, WaitReason::BreakerOpen, target)).filter(|_| is_first).or(first_probe);
            }
        }
    }
    first_probe
}

/// The last moment at which a call of at most `call` may start. A worker that lives shorter than a call
/// may take would never start any: it has half of its time for that, and cuts the call off.
fn start_by(now: Timestamp, leave_by: Timestamp, call: Duration) -> Timestamp {
    let time = until(now, leave_by);
    if call <= time { leave_by.saturating_sub(call).unwrap_or(leave_by) } else { after(now, time / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_starts_only_if_it_can_end_while_its_worker_lives() {
        let (now, seconds) = (Timestamp::UNIX_EPOCH, Duration::from_secs);
        let leave_by = after(now, seconds(320));
        assert_eq!(start_by(now, leave_by, seconds(120)), after(now, seconds(200)));
        assert_eq!(start_by(now, leave_by, seconds(270)), after(now, seconds(50)));
        // A tenant's calls may take longer than any worker lives: they are cut off.
        assert_eq!(start_by(now, leave_by, seconds(600)), after(now, seconds(160)));
        assert!(start_by(now, Timestamp::MAX, seconds(120)) > after(now, seconds(1 << 30)));
    }
}
