//! The models of a run, with the faults that its plan injects.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    plan::context,
    ports::{
        clock::Clock,
        vision::{Allowance, Answer, Finish, PageRequest, Price, Scope, Usage, Vision, VisionError},
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
}

impl Models {
    pub fn new(plan: &Arc<RunPlan>, observer: &Arc<Observer>, failover_order: Vec<Target>) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(!plan.seed));
        Self { plan: plan.clone(), observer: observer.clone(), failover_order, rng }
    }

    fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn draw(&self, from: u64, to: u64) -> u64 {
        self.rng().random_range(from..to)
    }

    fn active_fault(&self, target: &Target) -> Option<ModelFault> {
        let index = self.failover_order.iter().position(|known| known == target)?;
        let now = self.observer.now();
        self.plan.faults.iter().find_map(|fault| match fault {
            PlannedFault::Model { model, window, kind } if *model == index && window.covers(now) => {
                Some(*kind)
            }
            _ => None,
        })
    }

    /// The fault of one call: a model that only sometimes has it may have none.
    fn fault_of_call(&self, target: &Target) -> Option<ModelFault> {
        match self.active_fault(target)? {
            ModelFault::FailsSometimes(one_in) => (self.draw(0, one_in) == 0).then_some(ModelFault::IsDown),
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
            Some(ModelFault::IsRateLimited(wait)) => {
                return Err(VisionError::Exhausted {
                    detail: "429".into(),
                    retry_after: Some(wait),
                    allowance: Allowance::default(),
                });
            }
            Some(ModelFault::IsRateLimitedSilently) => {
                return Err(VisionError::Exhausted {
                    detail: "429".into(),
                    retry_after: None,
                    allowance: Allowance::default(),
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
        Ok(Answer { text, finish, usage, allowance: Allowance::default() })
    }

    fn price(&self, _target: &Target) -> Option<Price> {
        Some(Price::of_tokens(1.0, 4.0))
    }
}
