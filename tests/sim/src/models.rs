//! The models of a run, as bad as its plan wants them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{context, target::Target},
    ports::{
        clock::Clock,
        vision::{Answer, Finish, PageRequest, Price, Scope, Usage, Vision, VisionError},
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    plan::Plan,
    trouble::{Model, Trouble, name},
    witness::Witness,
};

pub struct Models {
    plan: Arc<Plan>,
    witness: Arc<Witness>,
    roster: Vec<Target>,
    dice: Mutex<StdRng>,
}

impl Models {
    pub fn new(plan: &Arc<Plan>, witness: &Arc<Witness>, roster: Vec<Target>) -> Self {
        let dice = Mutex::new(StdRng::seed_from_u64(!plan.seed));
        Self { plan: plan.clone(), witness: witness.clone(), roster, dice }
    }

    fn roll(&self, from: u64, to: u64) -> u64 {
        self.dice.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).random_range(from..to)
    }

    fn mood(&self, target: &Target) -> Option<Model> {
        let index = self.roster.iter().position(|known| known == target)?;
        let now = self.witness.now();
        self.plan.troubles.iter().find_map(|trouble| match trouble {
            Trouble::Model { model, window, does } if *model == index && window.covers(now) => Some(*does),
            _ => None,
        })
    }
}

/// What the model reads: the text layer says which page of which document it is.
fn shown(request: &PageRequest) -> Option<(usize, u32)> {
    let current = request.context_text.split(context::CURRENT).nth(1)?;
    let mut words = current.split_whitespace();
    let page = words.by_ref().skip_while(|word| *word != "page").nth(1)?.parse().ok()?;
    let document = words.nth(1)?.strip_prefix('d')?.parse().ok()?;
    Some((document, page))
}

/// What is read from a page by a model that reads it.
pub fn reading(target: &Target, document: usize, page: u32) -> String {
    format!("page {page} of d{document} read by {target}")
}

#[async_trait]
impl Vision for Models {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        let Some((document, page)) = shown(request) else {
            return Err(VisionError::Request { detail: "no page to be seen".into() });
        };
        let _calling = self.witness.called(target, document, page);
        let (mood, started) = (self.mood(target), self.witness.now());
        if let Some(mood) = mood {
            self.witness.struck(&format!("model: {}", name(&mood)));
        }
        let pause = match mood {
            Some(Model::Hangs) => std::future::pending().await,
            Some(Model::Dawdles(by)) => by,
            Some(_) => Duration::from_millis(self.roll(1, 500)),
            None => Duration::from_millis(self.roll(100, 4000)),
        };
        self.witness.clock.sleep(pause).await;
        let text = reading(target, document, page);
        let (finish, text) = match mood {
            None | Some(Model::Dawdles(_) | Model::Hangs) => {
                self.witness.answered(document, page);
                (Finish::Complete, text)
            }
            Some(Model::SaysNothing) => (Finish::Complete, String::new()),
            Some(Model::SaysHalf) => (Finish::Length, text),
            Some(Model::Raves) => (Finish::Complete, "again and ".repeat(500)),
            Some(Model::IsDown) => {
                self.witness.failed(target, started);
                return Err(VisionError::Transient { detail: "503".into() });
            }
            Some(Model::IsExhausted(rest)) => {
                return Err(VisionError::Exhausted { detail: "429".into(), retry_after: Some(rest) });
            }
            Some(Model::RefusesTheKey) => {
                return Err(VisionError::Configuration { detail: "401".into(), scope: Scope::Provider });
            }
            Some(Model::IsStrange) => {
                self.witness.failed(target, started);
                return Err(VisionError::Unknown { detail: "418".into() });
            }
            Some(Model::RefusesThePage) => return Err(VisionError::Request { detail: "400".into() }),
        };
        let usage = Usage { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 };
        Ok(Answer { text, finish, usage })
    }

    fn price(&self, _target: &Target) -> Price {
        Price { input: 1.0, output: 4.0 }
    }
}
