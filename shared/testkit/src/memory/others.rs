use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        event::{Event, sha256_hex},
        secret::Secret,
        trace::Span,
    },
    ports::{
        Fault,
        bus::Bus,
        hooks::{Call, HookError, Hooks},
        notifier::{Notice, Notifier},
        traces::Traces,
        vault::Vault,
    },
};

/// Keeps what was published, in order.
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

/// Keeps what people were told.
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
    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        self.notices.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(notice.clone());
        Ok(())
    }
}

/// A receiver that keeps what it was sent, and answers as it is told.
#[derive(Default)]
pub struct RecordingHooks {
    calls: Mutex<Vec<Call>>,
    /// So many calls fail from now on.
    failing: AtomicU32,
    /// This address never answers; who calls it gives up after so long.
    hanging: Mutex<Option<(String, Duration)>>,
}

impl RecordingHooks {
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn fail_next(&self, count: u32) {
        self.failing.store(count, Ordering::Relaxed);
    }

    pub fn hang_at(&self, url: &str, time: Duration) {
        *self.hanging.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some((url.to_owned(), time));
    }

    fn hangs_for(&self, url: &str) -> Option<Duration> {
        let hanging = self.hanging.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        hanging.as_ref().filter(|(address, _)| address == url).map(|(_, time)| *time)
    }
}

#[async_trait]
impl Hooks for RecordingHooks {
    fn check(&self, url: &str) -> Result<(), String> {
        if url.starts_with("http") { Ok(()) } else { Err("it is not an address".into()) }
    }

    #[expect(clippy::disallowed_methods, reason = "a receiver has a clock of its own, which tests pause")]
    async fn post(&self, call: &Call) -> Result<(), HookError> {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(call.clone());
        if let Some(time) = self.hangs_for(&call.url) {
            tokio::time::sleep(time).await;
            return Err(HookError::Failed("it did not answer in time".into()));
        }
        match self.failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(HookError::Failed("it answered 503".into())),
            Err(_) => Ok(()),
        }
    }
}

/// Keeps every span.
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

/// Hides little, but shows who forgot to seal: what it holds is readable only as `sealed:…`. It keeps
/// nothing, so all that have one key are one vault.
#[derive(Default)]
pub struct PlainVault {
    key: String,
}

impl PlainVault {
    pub fn with_key(key: impl Into<String>) -> Self {
        Self { key: key.into() }
    }

    /// Tells what was sealed with this key from all else.
    fn mark(&self, reversed: &str) -> String {
        sha256_hex(format!("{}:{reversed}", self.key).as_bytes())
    }
}

#[async_trait]
impl Vault for PlainVault {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        let reversed: String = secret.expose().chars().rev().collect();
        Ok(format!("sealed:{}:{reversed}", self.mark(&reversed)))
    }

    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        let parts = sealed.strip_prefix("sealed:").and_then(|rest| rest.split_once(':'));
        match parts {
            Some((mark, reversed)) if mark == self.mark(reversed) => {
                Ok(Secret::new(reversed.chars().rev().collect::<String>()))
            }
            _ => Err(Fault::broken("vault", "not sealed here")),
        }
    }
}
