//! The definition of a saga, as data.

use std::{fmt::Debug, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

/// The steps of one kind of saga, stored by name.
pub trait SagaStep: Copy + Eq + Debug + Send + Sync + Serialize + DeserializeOwned + 'static {
    fn definition() -> &'static Definition<Self>;

    fn name(self) -> &'static str;

    fn spec(self) -> &'static StepSpec<Self> {
        let specs = Self::definition().steps;
        specs.iter().find(|spec| spec.step == self).unwrap_or(&specs[0])
    }
}

pub struct Definition<S: 'static> {
    /// Its name in metrics and logs.
    pub kind: &'static str,
    /// Its name in a sentence, with an article.
    pub noun: &'static str,
    /// In the order in which they run; they are undone in reverse. At least one.
    pub steps: &'static [StepSpec<S>],
    /// Time for one try of a step; after that the process that ran it is considered dead.
    pub step_timeout: Duration,
    pub forward: Forward,
    /// Why an operator is needed after a compensation that kept steps.
    pub kept: &'static str,
}

/// How a step that must succeed is tried after the configured retries.
pub struct Forward {
    /// All tries of a step, the configured retries included.
    pub max_tries: u32,
    pub pause: Duration,
}

pub struct StepSpec<S> {
    pub step: S,
    /// What the step's effect is after it was undone, such as "refunded"; `None` if it can't be undone.
    pub undone: Option<&'static str>,
    /// Whether [`Strategy::Partial`](crate::settings::Strategy::Partial) keeps it; only if all such steps are
    /// done.
    pub is_kept: bool,
    /// Whether its effect is outside of the store. Then a try without a response may have taken effect, and
    /// a later refusal does not prove the contrary; it is undone even if a later step can't be; and it is
    /// not run again once undoing it began.
    pub is_external: bool,
}
