//! The models of a run, with the faults that its plan injects.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    plan::context,
    ports::{
        clock::Clock,
        vision::{Allowance, Answer, Finish, PageRequest, Price, Quota, Scope, Usage, Vision, VisionError},
    },
    providers::target::Target,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    faults::{ModelFault, PlannedFault, name},
    observer::Observer,
    run_plan::RunPlan,
};

pub struct Models {
    plan: Arc<RunPlan>,
    observer: Arc<Observer>,
    failover_order: Vec<Target>,
    rng: Mutex<StdRng>,
    /// What is used of each model's quota, and when that was so.
    used: Mutex<HashMap<Target, (f64, Duration)>>,
}

impl Models {
    pub fn new(plan: &Arc<RunPlan>, observer: &Arc<Observer>, failover_order: Vec<Target>) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(!plan.seed));
        Self { plan: plan.clone(), observer: observer.clone(), failover_order, rng, used: Mutex::default() }
    }

    fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn draw(&self, from: u64, to: u64) -> u64 {
        self.rng().random_range(from..to)
    }

    fn active_faults(&self, target: &Target) -> impl Iterator<Item = ModelFault> {
        let index = self.failover_order.iter().position(|known| known == target);
        let now = self.observer.now();
        self.plan.faults.iter().filter_map(move |fault| match fault {
            PlannedFault::Model { model, window, kind } if Some(*model) == index && window.covers(now) => {
                Some(*kind)
            }
            _ => None,
        })
    }

    fn active_fault(&self, target: &Target) -> Option<ModelFault> {
        self.active_faults(target).find(|fault| !matches!(fault, ModelFault::HasQuota { .. }))
    }

    /// Takes a call from the model's quota; otherwise how long the caller should wait. With what is left.
    fn take_from_quota(&self, target: &Target) -> (Result<(), Duration>, Allowance) {
        let quota = self.active_faults(target).find_map(|fault| match fault {
            ModelFault::HasQuota { calls, per } => Some((calls, per)),
            _ => None,
        });
        let Some((calls, per)) = quota else { return (Ok(()), Allowance::default()) };
        // In milliseconds, as headers have it.
        let milliseconds = |seconds: f64| Duration::from_millis((seconds * 1000.0).ceil() as u64);
        let now = self.observer.now();
        let one = per.as_secs_f64() / calls as f64;
        let mut all = self.used.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (used, at) = all.entry(target.clone()).or_insert((0.0, now));
        *used = (*used - now.saturating_sub(*at).as_secs_f64() / one).max(0.0);
        *at = now;
        let over = *used + 1.0 - calls as f64;
        let taken = if over > 0.0 { Err(milliseconds(over * one)) } else { Ok(()) };
        if taken.is_ok() {
            *used += 1.0;
        }
        let left = Quota {
            left: (calls as f64 - *used).max(0.0) as u64,
            limit: Some(calls),
            resets_in: milliseconds(*used * one),
        };
        (taken, Allowance { requests: Some(left), ..Allowance::default() })
    }

    /// The fault of one call: a model that only sometimes has it may have none.
    fn fault_of_call(&self, target: &Target) -> Option<ModelFault> {
        match self.active_fault(target)? {
            ModelFault::FailsSometimes(one_in) => (self.draw(0, one_in) == 0).then_some(ModelFault::IsDown),
            fault @ ModelFault::FailsAndAsksToWait { one_in, .. } => {
                (self.draw(0, one_in) == 0).then_some(fault)
            }
            ModelFault::HangsSometimes(one_in) => (self.draw(0, one_in) == 0).then_some(ModelFault::Hangs),
            ModelFault::RefusesMoreThan { calls, retry_after } => (self.observer.in_flight(target) > calls)
                .then_some(match retry_after {
                    Some(wait) => ModelFault::IsRateLimited(wait),
                    None => ModelFault::IsRateLimitedSilently,
                }),
            fault => Some(fault),
        }
    }
}

/// The document and page of a request, by the text layer that it contains.
fn requested_page(request: &PageRequest) -> Option<(usize, u32)> {
    let current = request.context_text.split(context::CURRENT).nth(1)?;
    let mut words = current.split_whitespace();
    let page = words.by_ref().skip_while(|word| *word != "page").nth(1)?.parse().ok()?;
    let document = words.nth(1)?.strip_prefix('d')?.parse().ok()?;
    Some((document, page))
}

/// The text that a model without a fault returns for a page.
pub fn page_text(target: &Target, document: usize, page: u32) -> String {
    format!("page {page} of d{document} read by {target}")
}

/// The models as one process calls them.
pub struct ProcessModels {
    pub models: Arc<Models>,
    /// The name of the process.
    pub node: String,
}

#[async_trait]
impl Vision for ProcessModels {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        let (models, observer) = (&self.models, &self.models.observer);
        let Some((document, page)) = requested_page(request) else {
            return Err(VisionError::Request { detail: "the request contains no page".into() });
        };
        let call = observer.called(&self.node, target, document, page);
        let (taken, allowance) = models.take_from_quota(target);
        if let Err(wait) = taken {
            observer.count_fault("model: has quota");
            observer.clock.sleep(Duration::from_millis(models.draw(1, 500))).await;
            let retry_after = Some(wait).filter(|_| models.draw(0, 2) == 0);
            return Err(VisionError::Exhausted {
                detail: "429".into(),
                retry_after,
                allowance: allowance.into(),
            });
        }
        let (fault, started) = (models.fault_of_call(target), observer.now());
        if let Some(fault) = fault {
            observer.count_fault(&format!("model: {}", name(&fault)));
        }
        let pause = match fault {
            Some(ModelFault::Hangs) => std::future::pending().await,
            Some(ModelFault::IsSlow(by)) => by,
            Some(_) => Duration::from_millis(models.draw(1, 500)),
            None => models.plan.latency.draw(&mut models.rng()),
        };
        observer.clock.sleep(pause).await;
        let text = page_text(target, document, page);
        let (finish, text) = match fault {
            Some(ModelFault::AnswersEmpty) => (Finish::Complete, String::new()),
            Some(ModelFault::AnswersTruncated) => (Finish::Length, text),
            Some(ModelFault::RepeatsItself) => (Finish::Complete, "again and ".repeat(500)),
            Some(ModelFault::IsDown) => {
                observer.failed(target, started);
                return Err(VisionError::Transient { detail: "503".into(), retry_after: None });
            }
            Some(ModelFault::FailsAndAsksToWait { wait, .. }) => {
                observer.failed(target, started);
                return Err(VisionError::Transient { detail: "503".into(), retry_after: Some(wait) });
            }
            Some(ModelFault::IsRateLimited(wait)) => {
                return Err(VisionError::Exhausted {
                    detail: "429".into(),
                    retry_after: Some(wait),
                    allowance: allowance.into(),
                });
            }
            Some(ModelFault::IsRateLimitedSilently) => {
                return Err(VisionError::Exhausted {
                    detail: "429".into(),
                    retry_after: None,
                    allowance: allowance.into(),
                });
            }
            Some(ModelFault::RejectsTheKey) => {
                return Err(VisionError::Configuration { detail: "401".into(), scope: Scope::Provider });
            }
            Some(ModelFault::FailsUnknown) => {
                observer.failed(target, started);
                return Err(VisionError::Unknown { detail: "418".into() });
            }
            Some(ModelFault::RejectsThePage) => return Err(VisionError::Request { detail: "400".into() }),
            None | Some(_) => {
                call.read_the_page();
                (Finish::Complete, text)
            }
        };
        // Each call has tokens and a cost of its own, by which it is found in the results.
        let input_tokens = call.answered();
        let usage = Usage { input_tokens, output_tokens: 100, cost_usd: input_tokens as f64 / 1e6 };
        Ok(Answer { text, finish, usage, allowance })
    }

    fn price(&self, _target: &Target) -> Option<Price> {
        Some(Price::of_tokens(1.0, 4.0))
    }
}
