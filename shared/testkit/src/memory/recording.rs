use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    event::Event,
    ports::{
        Fault,
        bus::Bus,
        hooks::{HookError, Hooks, WebhookRequest},
        notifier::{Channel, Notice, Notifier},
        traces::Traces,
    },
    trace::Span,
};

/// Records published events, in order.
#[derive(Default)]
pub struct RecordingBus {
    events: Mutex<Vec<Event>>,
}

impl RecordingBus {
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

#[async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend_from_slice(events);
        Ok(())
    }
}

/// Records sent notices.
#[derive(Default)]
pub struct RecordingNotifier {
    notices: Mutex<Vec<Notice>>,
}

impl RecordingNotifier {
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

#[async_trait]
impl Notifier for RecordingNotifier {
    fn channel(&self) -> Channel {
        Channel::Log
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        self.notices.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(notice.clone());
        Ok(())
    }
}

/// A webhook receiver that records its calls and answers as the test configures.
#[derive(Default)]
pub struct RecordingHooks {
    calls: Mutex<Vec<WebhookRequest>>,
    /// How many of the next calls fail.
    failing: AtomicU32,
    /// This address refuses every call.
    refusing: Mutex<Option<String>>,
    /// This address never answers; its callers time out after this duration.
    hanging: Mutex<Option<(String, Duration)>>,
}

impl RecordingHooks {
    pub fn calls(&self) -> Vec<WebhookRequest> {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn fail_next(&self, count: u32) {
        self.failing.store(count, Ordering::Relaxed);
    }

    pub fn hang_at(&self, url: &str, time: Duration) {
        *self.hanging.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some((url.to_owned(), time));
    }

    pub fn refuse_at(&self, url: &str) {
        *self.refusing.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(url.to_owned());
    }

    fn refuses(&self, url: &str) -> bool {
        let refusing = self.refusing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        refusing.as_deref() == Some(url)
    }

    fn hangs_for(&self, url: &str) -> Option<Duration> {
        let hanging = self.hanging.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        hanging.as_ref().filter(|(address, _)| address == url).map(|(_, time)| *time)
    }
}

#[async_trait]
impl Hooks for RecordingHooks {
    fn check(&self, url: &str) -> Result<(), String> {
        if url.starts_with("http") { Ok(()) } else { Err("not an http or https URL".into()) }
    }

    #[expect(clippy::disallowed_methods, reason = "a receiver has its own clock, which tests pause")]
    async fn post(&self, call: &WebhookRequest) -> Result<(), HookError> {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(call.clone());
        if let Some(time) = self.hangs_for(&call.url) {
            tokio::time::sleep(time).await;
            return Err(HookError::Failed("it did not answer in time".into()));
        }
        if self.refuses(&call.url) {
            return Err(HookError::Failed("it answered 500".into()));
        }
        match self
            .failing
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(1))
        {
            Ok(_) => Err(HookError::Failed("it answered 503".into())),
            Err(_) => Ok(()),
        }
    }
}

/// Records every span.
#[derive(Default)]
pub struct RecordingTraces(Mutex<Vec<Span>>);

impl RecordingTraces {
    pub fn spans(&self) -> Vec<Span> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

#[async_trait]
impl Traces for RecordingTraces {
    fn record(&self, span: Span) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(span);
    }
}
