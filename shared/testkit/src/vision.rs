//! A fake model: a function from target and page to a reply, and a record of the calls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ports::{
        clock::Clock,
        vision::{Allowance, Answer, Finish, PageRequest, Price, ServiceTier, Usage, Vision, VisionError},
    },
    providers::target::Target,
};

/// What a model does when it is called.
#[derive(Clone, Debug)]
pub enum Reply {
    Answer(String),
    AnswerAfter(Duration, String),
    /// As `AnswerAfter`, with what is left of the provider's limits.
    Announce(Duration, String, Allowance),
    Finish(Finish, String),
    Fail(VisionError),
    Hang,
}

impl Reply {
    pub fn down() -> Self {
        Self::Fail(VisionError::Transient { detail: "503".into(), retry_after: None })
    }
}

type Behaviour = dyn Fn(&Target, u32) -> Reply + Send + Sync;

#[derive(Default)]
struct Counts {
    calls: Vec<(Target, u32)>,
    in_flight: HashMap<Target, usize>,
    max_in_flight: HashMap<Target, usize>,
    flex: Vec<(Target, u32)>,
    answers: Vec<(Target, u32)>,
}

pub struct FakeVision {
    clock: Arc<dyn Clock>,
    behaviour: Mutex<Arc<Behaviour>>,
    counts: Arc<Mutex<Counts>>,
    has_flex: AtomicBool,
}

impl FakeVision {
    pub fn new(
        clock: Arc<dyn Clock>,
        behaviour: impl Fn(&Target, u32) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock,
            behaviour: Mutex::new(Arc::new(behaviour)),
            counts: Arc::default(),
            has_flex: AtomicBool::new(false),
        }
    }

    /// Gives every model a flex tier.
    pub fn add_flex(&self) {
        self.has_flex.store(true, Ordering::Relaxed);
    }

    /// The calls in the flex tier.
    pub fn flex_calls(&self) -> Vec<(Target, u32)> {
        lock(&self.counts).flex.clone()
    }

    /// Every model reads every page.
    pub fn healthy(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, |target, page| Reply::Answer(read_by(target, page)))
    }

    pub fn set_behaviour(&self, behaviour: impl Fn(&Target, u32) -> Reply + Send + Sync + 'static) {
        *lock(&self.behaviour) = Arc::new(behaviour);
    }

    /// Every call so far: which model for which page.
    pub fn calls(&self) -> Vec<(Target, u32)> {
        lock(&self.counts).calls.clone()
    }

    /// The calls that were answered, good or bad.
    pub fn answers(&self) -> Vec<(Target, u32)> {
        lock(&self.counts).answers.clone()
    }

    pub fn calls_to(&self, model: &str) -> usize {
        self.calls().iter().filter(|(target, _)| target.model == model).count()
    }

    pub fn max_in_flight(&self, model: &str) -> usize {
        let counts = lock(&self.counts);
        counts.max_in_flight.iter().filter(|(target, _)| target.model == model).map(|(_, max)| *max).sum()
    }
}

pub fn read_by(target: &Target, page: u32) -> String {
    format!("page {page} read by {target}")
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Counts a call as in flight until it is dropped, even when it is cancelled.
struct InFlight(Arc<Mutex<Counts>>, Target);

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.0).in_flight.get_mut(&self.1) {
            *count -= 1;
        }
    }
}

fn page_of(request: &PageRequest) -> u32 {
    let words: Vec<&str> = request.context_text.split_whitespace().take(2).collect();
    words.get(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[async_trait]
impl Vision for FakeVision {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        let page = page_of(request);
        let _in_flight = {
            let mut counts = lock(&self.counts);
            counts.calls.push((target.clone(), page));
            if request.service_tier == ServiceTier::Flex {
                counts.flex.push((target.clone(), page));
            }
            let now = counts.in_flight.entry(target.clone()).or_default();
            *now += 1;
            let now = *now;
            let max = counts.max_in_flight.entry(target.clone()).or_default();
            *max = (*max).max(now);
            InFlight(self.counts.clone(), target.clone())
        };
        let behaviour = lock(&self.behaviour).clone();
        // Even the fastest model answers only after its caller has yielded the thread.
        tokio::task::yield_now().await;
        let answer = |finish, text| {
            lock(&self.counts).answers.push((target.clone(), page));
            let usage = Usage { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 };
            Answer { text, finish, usage, allowance: Allowance::default() }
        };
        match behaviour(target, page) {
            Reply::Announce(time, text, allowance) => {
                self.clock.sleep(time).await;
                Ok(Answer { allowance, ..answer(Finish::Complete, text) })
            }
            Reply::Answer(text) => Ok(answer(Finish::Complete, text)),
            Reply::AnswerAfter(time, text) => {
                self.clock.sleep(time).await;
                Ok(answer(Finish::Complete, text))
            }
            Reply::Finish(finish, text) => Ok(answer(finish, text)),
            Reply::Fail(error) => Err(error),
            Reply::Hang => std::future::pending().await,
        }
    }

    fn has_flex(&self, _target: &Target) -> bool {
        self.has_flex.load(Ordering::Relaxed)
    }

    fn price(&self, _target: &Target) -> Option<Price> {
        Some(Price::of_tokens(1.0, 4.0))
    }
}
