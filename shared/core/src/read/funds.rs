//! Money for a call: reserved before it is made, where the job or its tenant has a budget, and settled after it.
//!
//! Near the end of a budget a call is limited to the answer that can still be paid for.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    call::PlannedCall,
    expense::Wanted,
    expenses::{self, Granted, ReserveOutcome},
    flex::FLEX_TIMEOUT,
    outcome::PageOutcome,
    round::{Admitted, Round},
    waiting::WaitReason,
};
use crate::{
    money::MicroUsd,
    ports::{
        Fault,
        vision::{PageRequest, Price, ServiceTier},
    },
    providers::target::Target,
    time::after,
};

/// No page image has more tokens at any provider.
const MAX_IMAGE_TOKENS: u64 = 6_000;
/// For the frame of a request.
const FRAME_TOKENS: u64 = 500;
/// The answer to most pages is shorter: a call with less is not worth its money.
const MIN_OUTPUT_TOKENS: u32 = 1_500;

/// Money that a call may spend.
pub(super) struct Funds {
    pub granted: Granted,
    /// The longest answer that it pays for, in tokens.
    pub max_output_tokens: u32,
}

/// Why a call has no money.
pub(super) enum NoFunds {
    /// Calls in flight have it; the first of them ends by then at the latest.
    Busy(Timestamp),
    UsedUp {
        limit: MicroUsd,
    },
    /// Its price is not known.
    Unpriced,
    Fault(Fault),
}

/// The input tokens of a request, at most.
pub(super) fn input_tokens(request: &PageRequest) -> u64 {
    let bytes = request.system_prompt.len() + request.context_text.len();
    let image = if request.image.is_some() { MAX_IMAGE_TOKENS } else { 0 };
    // A token has a byte at least.
    bytes as u64 + image + FRAME_TOKENS
}

/// The highest price of a call, and that with an answer that is long enough for most pages.
fn wanted(price: Price, request: &PageRequest) -> Wanted {
    let cost = |output: u32| {
        MicroUsd((price.cost_usd(input_tokens(request), u64::from(output), 1) * 1e6).ceil() as u64)
    };
    let most = request.max_output_tokens;
    Wanted { most: cost(most), least: cost(most.min(MIN_OUTPUT_TOKENS)) }
}

/// The longest answer that `amount` pays for.
fn affordable_output(price: Price, request: &PageRequest, amount: MicroUsd) -> u32 {
    if price.output <= 0.0 {
        return request.max_output_tokens;
    }
    let left = amount.0 as f64 - price.cost_usd(input_tokens(request), 0, 1) * 1e6;
    // Less than a millionth is a rounding error.
    let tokens = (left.max(0.0) / price.output + 1e-6).floor();
    request.max_output_tokens.min(tokens as u32)
}

impl Round<'_> {
    /// Reserves what a call to the model may cost; `None` where nothing is limited.
    pub(super) async fn fund(&self, target: &Target) -> Result<Option<Funds>, NoFunds> {
        let reader = self.task.reader;
        let Some(request) = self.request_for(target).filter(|_| !self.budgets.is_empty()) else {
            return Ok(None);
        };
        let price = reader.vision.price(target).ok_or(NoFunds::Unpriced)?;
        let longest = if request.service_tier == ServiceTier::Flex { FLEX_TIMEOUT } else { Duration::ZERO };
        let (wanted, call) = (wanted(price, &request), self.settings.request_timeout.max(longest));
        match expenses::reserve(&reader.store, &self.budgets, wanted, call).await {
            Ok(ReserveOutcome::Granted(granted)) => {
                let max_output_tokens = affordable_output(price, &request, granted.amount);
                Ok(Some(Funds { granted, max_output_tokens }))
            }
            Ok(ReserveOutcome::Busy(until)) => Err(NoFunds::Busy(until)),
            Ok(ReserveOutcome::UsedUp { limit }) => Err(NoFunds::UsedUp { limit }),
            Err(fault) => Err(NoFunds::Fault(fault)),
        }
    }

    /// What follows from a lack of money: the outcome where that ends the round.
    pub(super) fn without_funds(&mut self, target: &Target, lack: NoFunds) -> Option<PageOutcome> {
        let reason = match lack {
            NoFunds::Busy(until) => {
                let soon = after(self.now(), self.slot_pause(target)).min(until);
                return Some(self.wait(soon, WaitReason::NoSlot, target));
            }
            NoFunds::Fault(fault) => {
                return Some(PageOutcome::Faulted(fault, std::mem::take(&mut self.calls)));
            }
            NoFunds::UsedUp { limit } => format!("the budget of {:.2} USD is used up", limit.usd()),
            NoFunds::Unpriced => {
                format!("there is a budget, and the price of {target} is not known: set it in MODEL_PRICES")
            }
        };
        self.unaffordable.push((target.clone(), reason));
        None
    }

    /// Why no model is called for lack of money, if that is so.
    pub(super) fn lack_of_money(&self) -> Option<&str> {
        let reason = self.unaffordable.last().map(|(_, reason)| reason.as_str())?;
        self.steps.iter().all(|step| self.is_refused(step)).then_some(reason)
    }

    /// Gives back what a call that is not made holds.
    pub(super) async fn give_back_with_funds(
        &self,
        target: &Target,
        admitted: Admitted,
        funds: Option<Funds>,
    ) {
        self.give_back(target, admitted).await;
        if let Some(funds) = &funds {
            self.task.settle_funds(&funds.granted, MicroUsd::default()).await;
        }
    }

    /// Gives back what a planned call holds that is not made.
    pub(super) async fn discard(&self, planned: PlannedCall<'_>) {
        self.give_back(&planned.target, planned.admitted).await;
        if let Some(granted) = &planned.granted {
            self.task.settle_funds(granted, MicroUsd::default()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> PageRequest {
        PageRequest {
            system_prompt: "x".repeat(1000),
            context_text: String::new(),
            image: None,
            max_output_tokens: 8000,
            temperature: None,
            service_tier: Default::default(),
        }
    }

    #[test]
    fn a_call_wants_its_longest_answer_and_gets_a_shorter_one_near_the_end() {
        let price = Price::of_tokens(1.0, 10.0);
        // 1,500 tokens of input at most.
        assert_eq!(wanted(price, &request()), Wanted { most: MicroUsd(81_500), least: MicroUsd(16_500) });
        assert_eq!(affordable_output(price, &request(), MicroUsd(81_500)), 8000);
        assert_eq!(affordable_output(price, &request(), MicroUsd(21_500)), 2000);
        let by_page = Price { page: 0.004, ..Price::default() };
        assert_eq!(wanted(by_page, &request()), Wanted { most: MicroUsd(4000), least: MicroUsd(4000) });
        assert_eq!(affordable_output(by_page, &request(), MicroUsd(4000)), 8000);
    }
}
