//! A script in use: what it decides about each call, and what it has counted so far.

use std::{sync::Arc, time::Duration};

use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{Behaviour, Rule, Script, When, limit::Limiter, random::Stream, request::ModelRequest};

#[derive(Debug, Default)]
pub(super) struct RunningScript {
    script: Script,
    rules: Vec<RuleState>,
    first_call: Option<Instant>,
    /// How many latencies were drawn.
    draws: u64,
}

#[derive(Debug)]
struct RuleState {
    /// Calls that reached the rule.
    reached: u64,
    limiter: Option<Arc<Limiter>>,
}

/// The script's decision about a call.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) behaviour: Behaviour,
    /// Before the response.
    pub(super) pause: Duration,
    /// The limits that the response announces.
    pub(super) announced: Vec<Arc<Limiter>>,
    /// The limits that count the tokens of the answer.
    pub(super) limits: Vec<Arc<Limiter>>,
    /// Held while the call is in flight.
    pub(super) slots: Vec<OwnedSemaphorePermit>,
}

impl RunningScript {
    pub(super) fn new(script: Script) -> Self {
        let rules = script.rules.iter().map(RuleState::new).collect();
        Self { script, rules, ..Self::default() }
    }

    /// Restarts the script.
    pub(super) fn rewind(&mut self) {
        *self = Self::new(std::mem::take(&mut self.script));
    }

    pub(super) fn next(&mut self, request: &ModelRequest, now: Instant) -> Decision {
        let since = now.saturating_duration_since(*self.first_call.get_or_insert(now));
        let mut decision = Decision::default();
        for (index, (rule, state)) in self.script.rules.iter().zip(&mut self.rules).enumerate() {
            if !rule.when.matches(request, since) || !state.takes(&rule.when, index) {
                continue;
            }
            let (pause, behaviour) = rule.then.sampled(|| {
                self.draws += 1;
                Stream::Latency.normal(self.draws)
            });
            decision.pause = decision.pause.saturating_add(pause);
            match (behaviour, &state.limiter) {
                (Behaviour::Next, _) | (Behaviour::Limit(_), None) => {}
                (Behaviour::Limit(limit), Some(limiter)) => {
                    if limit.headers {
                        decision.announced.push(Arc::clone(limiter));
                    }
                    if limit.output_tokens.is_some() {
                        decision.limits.push(Arc::clone(limiter));
                    }
                    match limiter.admit(request.input_tokens, now) {
                        Ok(slot) => decision.slots.extend(slot),
                        Err(retry_after) => {
                            let of_tokens = limiter.lacks_tokens(request.input_tokens, now);
                            decision.behaviour = Behaviour::RateLimited { retry_after, of_tokens };
                            return decision;
                        }
                    }
                }
                (behaviour, _) => {
                    decision.behaviour = behaviour.clone();
                    return decision;
                }
            }
        }
        decision
    }
}

impl RuleState {
    fn new(rule: &Rule) -> Self {
        let limiter = match rule.then.sampled(|| 0.0).1 {
            Behaviour::Limit(limit) => Some(Arc::new(Limiter::new(limit))),
            _ => None,
        };
        Self { reached: 0, limiter }
    }

    /// Counts a call that reaches the rule; do the conditions on calls hold for it?
    fn takes(&mut self, when: &When, index: usize) -> bool {
        let earlier = self.reached;
        self.reached += 1;
        let after = when.after_calls.unwrap_or(0);
        earlier >= after
            && when.first_calls.is_none_or(|first| earlier < after.saturating_add(first))
            && when.share.is_none_or(|share| share.contains(index, earlier))
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::providers::target::Provider;

    use super::*;

    fn request(provider: Provider, model: &str, page: u32) -> ModelRequest {
        let page = (page > 0).then_some(page);
        ModelRequest { provider, model: model.to_owned(), page, input_tokens: 100, ..ModelRequest::default() }
    }

    /// What each call gets; the third value is its page.
    fn play(rules: &[&str], calls: &[(Provider, &str, u32)]) -> Vec<String> {
        let mut script = RunningScript::new(Script::parse(rules).unwrap());
        let mut next = |&(provider, model, page): &(Provider, &str, u32)| {
            script.next(&request(provider, model, page), Instant::now()).behaviour.to_string()
        };
        calls.iter().map(&mut next).collect()
    }

    /// What calls at these seconds get, with the pause in milliseconds. Calls stay in flight.
    fn play_at(rules: &[&str], seconds: &[f64]) -> Vec<(String, u64)> {
        let mut script = RunningScript::new(Script::parse(rules).unwrap());
        let start = Instant::now();
        let mut open = Vec::new();
        let mut next = |second: &f64| {
            let call = request(Provider::OpenAi, "m", 1);
            let decision = script.next(&call, start + Duration::from_secs_f64(*second));
            let shown = (decision.behaviour.to_string(), decision.pause.as_millis() as u64);
            open.push(decision);
            shown
        };
        seconds.iter().map(&mut next).collect()
    }

    fn names(played: Vec<(String, u64)>) -> Vec<String> {
        played.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Provider::{Anthropic, OpenAi};
        let rules = ["openai:gpt-4*=hang", "page=2=500", "anthropic:*=html"];
        let calls = [(OpenAi, "gpt-4.1", 2), (OpenAi, "gpt-5", 2), (Anthropic, "c", 3), (OpenAi, "gpt-5", 0)];
        assert_eq!(play(&rules, &calls), ["hang", "500", "html", "answer"]);
    }

    #[test]
    fn first_and_after_count_the_calls_that_reach_the_rule() {
        let calls = [(Provider::OpenAi, "m", 1); 6];
        assert_eq!(play(&["first=2=529", "first=1=500"], &calls[..4]), ["529", "529", "500", "answer"]);
        assert_eq!(play(&["after=2=hang"], &calls[..4]), ["answer", "answer", "hang", "hang"]);
        let between = play(&["after=1;first=2=reset"], &calls[..5]);
        assert_eq!(between, ["answer", "reset", "reset", "answer", "answer"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_has_a_beginning_and_an_end_since_the_first_call() {
        let rules = ["from=5s;to=25s=503"];
        let played = names(play_at(&rules, &[100.0, 104.9, 105.0, 124.9, 125.0]));
        assert_eq!(played, ["answer", "answer", "503", "503", "answer"]);
    }

    #[tokio::test(start_paused = true)]
    async fn next_adds_its_delay_and_leaves_the_rest_to_later_rules() {
        let rules = ["from=10s=next;delay=20s", "next;delay=500ms", "model=m=text=x;delay=1ms"];
        let played = play_at(&rules, &[0.0, 10.0]);
        assert_eq!(played, [("text=\"x\"".to_owned(), 501), ("text=\"x\"".to_owned(), 20_501)]);
    }

    #[tokio::test(start_paused = true)]
    async fn latencies_differ_between_calls_and_not_between_runs() {
        let rules = ["next;delay=500ms~0.6", "page=1=text=x"];
        let first = play_at(&rules, &[0.0; 20]);
        let pauses: std::collections::BTreeSet<u64> = first.iter().map(|(_, pause)| *pause).collect();
        assert!(pauses.len() > 15, "{pauses:?}");
        assert_eq!(first, play_at(&rules, &[0.0; 20]));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_above_a_limit_are_refused_and_the_others_go_on() {
        let at_once = ["limit;at-once=2;retry-after=1", "next;delay=1s", "500"];
        let played = play_at(&at_once, &[0.0; 3]);
        let refused = ("429;retry-after=1".to_owned(), 0);
        assert_eq!(played, [("500".to_owned(), 1000), ("500".to_owned(), 1000), refused]);

        let requests = ["limit;requests=2/10s;retry-after=auto"];
        let played = names(play_at(&requests, &[0.0, 0.0, 0.0, 4.0, 5.0, 5.0]));
        assert_eq!(
            played,
            ["answer", "answer", "429;retry-after=5", "429;retry-after=1", "answer", "429;retry-after=5"]
        );

        let tokens = names(play_at(&["limit;tokens=250/10s"], &[0.0, 0.0, 0.0, 2.0]));
        assert_eq!(tokens, ["answer", "answer", "429", "answer"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_of_calls_gets_the_behaviour() {
        let played = names(play_at(&["share=10%=500"], &[0.0; 400]));
        let failed = played.iter().filter(|name| *name == "500").count();
        assert!((25..=60).contains(&failed), "{failed} of 400");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_script_counts_from_the_start() {
        let mut script = RunningScript::new(Script::parse(["limit;requests=1/60s", "to=5s=503"]).unwrap());
        let call = request(Provider::OpenAi, "m", 1);
        let later = Instant::now() + Duration::from_secs(10);
        for now in [Instant::now(), later] {
            assert_eq!(script.next(&call, now).behaviour, Behaviour::Status(503));
            assert_eq!(
                script.next(&call, now).behaviour,
                Behaviour::RateLimited { retry_after: None, of_tokens: false }
            );
            script.rewind();
        }
    }
}
