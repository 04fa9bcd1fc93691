//! When an instance reads its stack's secret again: some minutes after the last time, and at once after a
//! provider has refused a key, which may have been replaced.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ports::vision::{Answer, PageRequest, Price, Vision, VisionError},
    providers::target::Target,
    time::after,
};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Age at which the secret is read again.
pub const MAX_AGE: Duration = Duration::from_secs(300);
/// Shortest time between two readings, however many keys are refused.
const MIN_AGE: Duration = Duration::from_secs(10);

/// The variables of the stack's secret.
pub type Variables = BTreeMap<String, String>;

/// The secret as an instance last read it. It is never shown.
pub struct SecretWatch {
    known: Mutex<(Variables, Timestamp)>,
    key_refused: Arc<AtomicBool>,
}

impl SecretWatch {
    pub fn new(variables: Variables, now: Timestamp, key_refused: Arc<AtomicBool>) -> Self {
        Self { known: Mutex::new((variables, now)), key_refused }
    }

    pub fn is_due(&self, now: Timestamp) -> bool {
        let age = if self.key_refused.load(Ordering::Relaxed) { MIN_AGE } else { MAX_AGE };
        after(self.known.lock().1, age) <= now
    }

    /// Records that the secret was read, or could not be; the next reading is not sooner.
    pub fn mark_read(&self, now: Timestamp) {
        self.known.lock().1 = now;
        self.key_refused.store(false, Ordering::Relaxed);
    }

    pub fn is_known(&self, variables: &Variables) -> bool {
        self.known.lock().0 == *variables
    }

    /// Records what is in use from now on.
    pub fn replace(&self, variables: Variables) {
        self.known.lock().0 = variables;
    }
}

/// The models, with a mark for each refused key.
pub struct WatchedVision {
    pub inner: Arc<dyn Vision>,
    pub key_refused: Arc<AtomicBool>,
}

#[async_trait]
impl Vision for WatchedVision {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        let answer = self.inner.read_page(target, request).await;
        if matches!(answer, Err(VisionError::Configuration { .. })) {
            self.key_refused.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn price(&self, target: &Target) -> Option<Price> {
        self.inner.price(target)
    }

    fn has_flex(&self, target: &Target) -> bool {
        self.inner.has_flex(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_secret_is_read_again_after_five_minutes_or_when_a_key_is_refused() {
        let key_refused = Arc::new(AtomicBool::new(false));
        let watch = SecretWatch::new(Variables::new(), at(0), key_refused.clone());
        assert!(!watch.is_due(at(299)) && watch.is_due(at(300)));
        key_refused.store(true, Ordering::Relaxed);
        assert!(!watch.is_due(at(9)) && watch.is_due(at(10)), "soon, and not for each refused call");
        watch.mark_read(at(10));
        assert!(!watch.is_due(at(300)) && watch.is_due(at(310)));
    }
}
