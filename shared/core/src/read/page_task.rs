//! The reading of one page by one worker: the request, one round over the failover steps, and each model
//! call in it.

use std::{mem::take, ops::ControlFlow, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    PageReader,
    breakers::{self, Passes},
    budget::call_time,
    outcome::{CallResult, ModelCall, PageOutcome, Settlement},
    slots::{self, Slot},
    telemetry,
};
use crate::{
    document::{ImageFormat, Reason},
    job::{StepCode, StepError, message::PageMessage},
    ports::{
        notifier::Notice,
        vision::{PageRequest, RequestImage, Scope, VisionError},
    },
    prepare::{StoredPage, stored_pages},
    providers::target::Target,
    settings::Settings,
    tenants,
    time::{after, until, within},
    trace::TraceContext,
};

pub(super) struct PageTask<'a> {
    pub reader: &'a PageReader,
    pub message: &'a PageMessage,
    /// The holder of the page's lease, and of a probe that one of its calls may be.
    pub holder: &'a str,
    pub deadline: Timestamp,
    /// When the worker has to leave.
    pub leave_by: Timestamp,
    /// Of the page's span, if it is traced.
    pub trace: Option<TraceContext>,
    pub stop: &'a CancellationToken,
}

/// One pass over the failover steps.
struct Round<'a> {
    task: &'a PageTask<'a>,
    settings: Arc<Settings>,
    request: PageRequest,
    /// MuPDF's text, where it is sound enough to check an answer against.
    text_layer: Option<String>,
    /// No call starts from then on.
    start_by: Timestamp,
    started_at: Timestamp,
    calls: Vec<ModelCall>,
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
        let request = self.request(&settings).await?;
        let order = settings.failover_order().starting_with(message.ai_provider);
        let steps: Vec<Target> = order.steps(message.model_tier);
        // A scan's OCR layer is often worse than what the model reads: answers are not checked against it.
        let is_sound = matches!(stored.reason, Reason::Text | Reason::Image | Reason::VectorFigure);
        let round = Round {
            task: self,
            request,
            text_layer: is_sound.then_some(stored.text),
            start_by: start_by(started_at, self.leave_by, settings.request_timeout),
            settings,
            started_at,
            calls: vec![],
        };
        Ok(round.run(&steps).await)
    }

    async fn request(&self, settings: &Settings) -> Result<PageRequest, StepError> {
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
        })
    }

    async fn stored_page(&self) -> Result<StoredPage, StepError> {
        let (page, key) = (self.message.page_id, &self.message.mupdf_text_key);
        let pages = stored_pages(self.reader.blobs.as_ref(), key).await?.unwrap_or_default();
        pages.into_iter().find(|stored| stored.page == page).ok_or_else(|| StepError::Broken {
            code: StepCode::StoredText,
            reason: format!("page {page} is not in {key}"),
        })
    }
}

/// The last moment at which a call of at most `call` may start. A worker that lives shorter than a call
/// may take would never start any: it has half of its time for that, and cuts the call off.
fn start_by(now: Timestamp, leave_by: Timestamp, call: Duration) -> Timestamp {
    let time = until(now, leave_by);
    if call <= time { leave_by.saturating_sub(call).unwrap_or(leave_by) } else { after(now, time / 2) }
}

impl Round<'_> {
    /// Calls each model in turn until one gives the page's text. A model whose breaker is open is skipped,
    /// never waited for.
    async fn run(mut self, steps: &[Target]) -> PageOutcome {
        for index in 0..steps.len() {
            if self.task.stop.is_cancelled() {
                return PageOutcome::Stopped;
            }
            if let ControlFlow::Break(outcome) = self.call(&steps[index], &steps[index..]).await {
                return outcome;
            }
        }
        let all_skipped = self.calls.iter().all(|call| call.result == CallResult::BreakerOpen);
        let reason =
            if all_skipped { "every model's breaker was open" } else { "no model gave the page's text" };
        self.fall_back(reason.to_owned())
    }

    /// Calls `target`, the first of `steps`. Breaks with the outcome where that ends the round.
    async fn call(&mut self, target: &Target, steps: &[Target]) -> ControlFlow<PageOutcome> {
        let (task, reader) = (self.task, self.task.reader);
        let (slots, breakers) = (&reader.slots, &reader.breakers);
        let Some((mut slot, passes)) = self.admit(target, steps).await? else {
            return ControlFlow::Continue(());
        };
        let started = reader.store.clock.now();
        let timeout = self.settings.request_timeout;
        let time = call_time(started, task.deadline.min(task.leave_by), timeout);
        let Some(time) = time.filter(|_| started < self.start_by) else {
            slots::release(slots, slot).await;
            breakers::given_up(breakers, target, &passes).await;
            return ControlFlow::Break(self.too_late());
        };
        if let Some(before) = self.calls.last() {
            telemetry::failed_over(before.target.provider, target.provider);
        }
        let metric = telemetry::Call::to(target);
        let mut span = telemetry::call_span(&reader.store, task.trace, target);
        let reply = {
            let read = reader.vision.read_page(target, &self.request);
            let read = within(reader.store.clock.as_ref(), time, read);
            let read_or_stopped = async {
                tokio::select! {
                    biased;
                    reply = read => Some(reply),
                    () = task.stop.cancelled() => None,
                }
            };
            slots::while_held(slots, &mut slot, read_or_stopped).await
        };
        let latency = reader.store.clock.now().duration_since(started).as_millis().max(0) as u64;
        slots::release(slots, slot).await;
        let Some(reply) = reply else {
            telemetry::cut_off(&mut span);
            breakers::given_up(breakers, target, &passes).await;
            return ControlFlow::Break(PageOutcome::Stopped);
        };
        let mut call = ModelCall::new(target, started, latency);
        match reply {
            Some(Ok(answer)) => {
                call.add_answer(&answer, self.text_layer.as_deref());
                metric.ended(&call);
                telemetry::answered(span, &call);
                // The model responds: good for its breaker, whatever it says.
                breakers::succeeded(breakers, target, &passes).await;
                if call.result == CallResult::Answered {
                    info!(%target, latency_ms = latency, "page read");
                    self.calls.push(call);
                    return ControlFlow::Break(self.settle(target, answer.text));
                }
                warn!(%target, result = ?call.result, "answer not usable");
                self.calls.push(call);
                ControlFlow::Continue(())
            }
            Some(Err(error)) => {
                call.add_error(&error);
                warn!(%target, detail = call.detail, latency_ms = latency, "model call failed");
                metric.ended(&call);
                telemetry::answered(span, &call);
                self.report_failure(target, &passes, &error).await;
                let detail = call.detail.clone();
                let is_refused_everywhere = call.result == CallResult::Request;
                self.calls.push(call);
                if is_refused_everywhere {
                    return ControlFlow::Break(self.fall_back(format!("the page can't be sent: {detail}")));
                }
                ControlFlow::Continue(())
            }
            None => {
                call.result = CallResult::Timeout;
                call.detail = format!("no answer within {:.1} s", time.as_secs_f64());
                warn!(%target, latency_ms = latency, "model timed out");
                // Cut short by the job's own deadline: that says nothing about the model.
                if time < timeout && task.deadline <= task.leave_by {
                    telemetry::cut_off(&mut span);
                    breakers::given_up(breakers, target, &passes).await;
                    self.calls.push(call);
                    return ControlFlow::Break(self.out_of_time());
                }
                metric.ended(&call);
                telemetry::answered(span, &call);
                breakers::failed(breakers, target, &passes, false, &call.detail, None).await;
                self.calls.push(call);
                ControlFlow::Continue(())
            }
        }
    }

    /// Waits for a slot of `target` and takes the breakers' passes; `None` when a breaker refuses.
    async fn admit(
        &mut self,
        target: &Target,
        steps: &[Target],
    ) -> ControlFlow<PageOutcome, Option<(Slot, Passes)>> {
        let (task, reader) = (self.task, self.task.reader);
        let (slots, breakers) = (&reader.slots, &reader.breakers);
        if !breakers::lets_through(breakers, target, steps).await {
            return self.skip(target);
        }
        let timeout = self.settings.request_timeout;
        let wait_until = task.deadline.min(self.start_by);
        loop {
            let priority = task.message.priority;
            let slot = slots::acquire(slots, target, timeout, priority, wait_until, task.stop).await;
            let mut slot = match slot {
                Ok(Some(slot)) => slot,
                Ok(None) if task.stop.is_cancelled() => return ControlFlow::Break(PageOutcome::Stopped),
                Ok(None) => return ControlFlow::Break(self.too_late()),
                Err(fault) => return ControlFlow::Break(PageOutcome::Faulted(fault, take(&mut self.calls))),
            };
            // The breaker may have opened while this page waited for its slot.
            let Some(passes) = breakers::admit(breakers, target, task.holder, timeout).await else {
                slots::release(slots, slot).await;
                return self.skip(target);
            };
            if slots::is_ours(slots, &mut slot, timeout).await {
                return ControlFlow::Continue(Some((slot, passes)));
            }
            breakers::given_up(breakers, target, &passes).await;
        }
    }

    fn skip<T>(&mut self, target: &Target) -> ControlFlow<PageOutcome, Option<T>> {
        let now = self.task.reader.store.clock.now();
        self.calls.push(ModelCall { result: CallResult::BreakerOpen, ..ModelCall::new(target, now, 0) });
        ControlFlow::Continue(None)
    }

    /// Reports a failed call to the breaker that it concerns. A bad key or an unknown model does not repair
    /// itself: the responsible person is notified, once per opening.
    async fn report_failure(&self, target: &Target, passes: &Passes, error: &VisionError) {
        let breakers = &self.task.reader.breakers;
        let whole_provider = matches!(error, VisionError::Configuration { scope: Scope::Provider, .. });
        let cooldown = match error {
            // It refused this page, but it responds.
            VisionError::Request { .. } => return breakers::succeeded(breakers, target, passes).await,
            VisionError::Exhausted { retry_after, .. } => *retry_after,
            _ => None,
        };
        let detail = error.to_string();
        let opened = breakers::failed(breakers, target, passes, whole_provider, &detail, cooldown).await;
        if opened && matches!(error, VisionError::Configuration { .. }) {
            self.notify(target, &detail).await;
        }
    }

    async fn notify(&self, target: &Target, detail: &str) {
        let notice = Notice {
            tenant: self.task.message.tenant.clone(),
            responsible: self.settings.responsible.clone(),
            subject: format!("Everypage can't use {target}"),
            body: format!("{detail}\nCheck the settings: everypage config check"),
        };
        if let Err(fault) = self.task.reader.notifier.notify(&notice).await {
            warn!(%fault, %target, "notice not sent");
        }
    }

    /// The outcome when it is too late for a call: because of the worker's end, or of the deadline.
    fn too_late(&mut self) -> PageOutcome {
        if self.start_by >= self.task.deadline {
            return self.out_of_time();
        }
        let calls = take(&mut self.calls);
        let was_called = calls.iter().any(|call| call.result != CallResult::BreakerOpen);
        if was_called { PageOutcome::Interrupted(calls) } else { PageOutcome::NotStarted }
    }

    fn out_of_time(&mut self) -> PageOutcome {
        // The time of a page that heals is not the job's, whose deadline may never have come.
        if self.task.message.redrive_count > 0 {
            return self.fall_back("no answer in the time given for healing".to_owned());
        }
        let now = self.task.reader.store.clock.now();
        PageOutcome::Settled(Settlement::timed_out(take(&mut self.calls), self.started_at, now), None)
    }

    fn fall_back(&mut self, reason: String) -> PageOutcome {
        let now = self.task.reader.store.clock.now();
        PageOutcome::Settled(Settlement::fallback(reason, take(&mut self.calls), self.started_at, now), None)
    }

    fn settle(&mut self, target: &Target, text: String) -> PageOutcome {
        let now = self.task.reader.store.clock.now();
        let calls = take(&mut self.calls);
        let settlement = Settlement::read_by(target.clone(), &text, calls, self.started_at, now);
        PageOutcome::Settled(settlement, Some(text))
    }
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
