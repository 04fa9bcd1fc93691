//! The plan of a run, all of it drawn from one seed.

use std::{fmt, time::Duration};

use everypage_core::{document::Reason, money::MicroUsd, settings::Patience};
use everypage_testkit::{
    memory::PaymentBehaviour,
    pdf::{FakeDocument, FakePage},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::faults::{
    MessageFault, ModelFault, PlannedFault, Port, ReaderFault, StorageFault, UserAction, Window, time,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Password {
    None,
    /// The document has a password, and the client sends it.
    Given,
    /// The document has a password, and the client does not send it.
    Missing,
}

pub const PASSWORD: &str = "open sesame";

/// A document that a client submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Duration,
    pub pages: u32,
    /// Every second page is text only.
    pub mixed: bool,
    /// The last page is blank.
    pub blank: bool,
    pub password: Password,
}

/// The credits of a tenant that has to pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditPlan {
    pub granted: u64,
    /// When a user buys more, and how the payment service behaves then.
    pub buys_at: Duration,
    pub charges: Vec<PaymentBehaviour>,
    pub refunds: Vec<PaymentBehaviour>,
}

/// More than all documents of a plan can use.
pub const PLENTY: u64 = 10_000;
pub const BOUGHT: u64 = 100;
/// The price of the bought credits.
pub const PRICE: MicroUsd = MicroUsd(5_000_000);

#[derive(Clone, Debug)]
pub struct RunPlan {
    pub seed: u64,
    pub settings: Vec<(&'static str, String)>,
    /// How long a job may take.
    pub timeout: Duration,
    /// Whether all processes share one machine, where survivors release a killed process's leases.
    /// Elsewhere those leases have to expire.
    pub one_machine: bool,
    /// The clock error of each process, in milliseconds.
    pub skews: Vec<i64>,
    pub arrivals: Vec<Arrival>,
    pub faults: Vec<PlannedFault>,
    /// Like SQS: the queue itself moves messages that were delivered too often to a dead-letter queue.
    pub queue_has_dead_letters: bool,
    /// None where credits are unlimited.
    pub credits: Option<CreditPlan>,
    /// How far the indexes lag behind the records.
    pub lag: Duration,
    pub latency: ModelLatency,
    /// Like Lambda: workers receive a few messages, leave after this time, and no message can be woken.
    pub invocation: Option<Duration>,
}

/// How long calls to a model without a fault take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelLatency {
    /// From 0.1 to 4 s.
    Uniform,
    /// Half of the calls take at most the median, a few several times as long.
    Lognormal { median: Duration },
}

impl ModelLatency {
    /// No call takes longer.
    pub fn max(self) -> Duration {
        match self {
            Self::Uniform => Duration::from_secs(4),
            Self::Lognormal { .. } => Duration::from_secs(10),
        }
    }

    pub fn draw(self, rng: &mut StdRng) -> Duration {
        match self {
            Self::Uniform => Duration::from_millis(rng.random_range(100..4000)),
            Self::Lognormal { median } => {
                // A sum of twelve is close enough to a normal distribution.
                let normal: f64 = (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0;
                median.mul_f64((normal * 0.6).exp()).min(self.max())
            }
        }
    }
}

/// Number of models that a page may be sent to: as many as the failover_order has.
pub const MODELS: usize = 4;

impl RunPlan {
    pub fn from_seed(seed: u64) -> Self {
        let mut plan = Self::from_seed_v7(seed);
        plan.limit_open_jobs(seed);
        plan.add_two_budgets(seed);
        // It draws nothing, so that other seeds keep their meaning.
        plan.invocation = match seed % 16 {
            6 => Some(Duration::from_secs(330)),
            // Shorter than some calls may take: they are cut off.
            14 => Some(Duration::from_secs(12)),
            _ => None,
        };
        plan
    }

    /// An earlier version of [`RunPlan::from_seed`].
    pub fn from_seed_v7(seed: u64) -> Self {
        let mut plan = Self::from_seed_v6(seed);
        plan.add_asked_waits(&mut StdRng::seed_from_u64(seed.rotate_left(15)));
        plan
    }

    /// An earlier version of [`RunPlan::from_seed_v7`].
    pub fn from_seed_v6(seed: u64) -> Self {
        let mut plan = Self::from_seed_v5(seed);
        plan.add_quotas(&mut StdRng::seed_from_u64(seed.rotate_left(30)));
        plan.add_budget(seed);
        plan
    }

    /// An earlier version of [`RunPlan::from_seed_v6`].
    pub fn from_seed_v5(seed: u64) -> Self {
        let mut plan = Self::from_seed_v4(seed);
        plan.add_pace(&mut StdRng::seed_from_u64(seed.rotate_left(50)));
        plan
    }

    /// Room for fewer documents than arrive, in some runs. It draws nothing, so that other seeds keep their meaning.
    fn limit_open_jobs(&mut self, seed: u64) {
        match seed % 8 {
            2 | 5 => self.set("MAX_OPEN_JOBS", "1"),
            7 => self.set("MAX_OPEN_JOBS", "2"),
            _ => {}
        }
    }

    /// A budget of each job or of the tenant for some runs, of a few calls at once and some tens in all. It draws
    /// nothing, so that other seeds keep their meaning.
    fn add_budget(&mut self, seed: u64) {
        let budget = format!("0.{:03}", 30 + seed / 16 % 90);
        match seed % 16 {
            9 => self.set("TENANT_BUDGET_USD", budget),
            11 => self.set("BUDGET_USD", budget),
            _ => {}
        }
    }

    /// Both budgets for some runs: either may be the one that ends first. It draws nothing either.
    fn add_two_budgets(&mut self, seed: u64) {
        if seed % 16 == 14 {
            self.set("TENANT_BUDGET_USD", format!("0.{:03}", 30 + seed / 16 % 90));
            self.set("BUDGET_USD", format!("0.{:03}", 20 + seed / 64 % 60));
        }
    }

    /// An earlier version of [`RunPlan::from_seed_v5`].
    pub fn from_seed_v4(seed: u64) -> Self {
        let mut plan = Self::from_seed_v3(seed);
        let mut rng = StdRng::seed_from_u64(seed.rotate_left(10));
        plan.add_lag(&mut rng);
        plan.move_deadlines(&mut rng);
        plan
    }

    /// The plan without faults that were added later: old failing seeds keep their meaning.
    pub fn from_seed_v3(seed: u64) -> Self {
        let mut plan = Self::from_seed_v2(seed);
        plan.add_credits(&mut StdRng::seed_from_u64(seed.rotate_left(20)));
        plan
    }

    /// An earlier version of [`RunPlan::from_seed_v3`].
    pub fn from_seed_v2(seed: u64) -> Self {
        let mut plan = Self::from_seed_v1(seed);
        plan.add_longer_faults(&mut StdRng::seed_from_u64(seed.rotate_left(40)));
        plan
    }

    /// The first version of [`RunPlan::from_seed_v3`].
    pub fn from_seed_v1(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let timeout = Duration::from_secs(*pick(&mut rng, &[20, 30, 60, 120]));
        let processes = rng.random_range(1..=3);
        let skewed = rng.random_ratio(1, 3);
        let skews = (0..processes).map(|_| if skewed { rng.random_range(-5000..=5000) } else { 0 }).collect();
        let approval = rng.random_ratio(1, 8);
        let mut settings = vec![
            ("JOB_TIMEOUT", format!("{}s", timeout.as_secs())),
            ("REQUEST_TIMEOUT", pick(&mut rng, &["4s", "10s", "30s"]).to_string()),
            ("PAGE_VISIBILITY", pick(&mut rng, &["30s", "60s"]).to_string()),
            ("BREAKER_BASE_BACKOFF", pick(&mut rng, &["5s", "15s", "30s"]).to_string()),
            ("BREAKER_FAILURE_THRESHOLD", pick(&mut rng, &["1", "1", "2"]).to_string()),
            ("WORKER_CONCURRENCY", rng.random_range(1..=4).to_string()),
            ("MAX_INFLIGHT_PER_MODEL", rng.random_range(1..=3).to_string()),
            ("RANGE_PAGES", rng.random_range(1..=4).to_string()),
        ];
        if approval {
            settings.push(("APPROVAL_THRESHOLD_USD", "0.000001".into()));
        }
        let arrivals: Vec<Arrival> = (0..rng.random_range(1..=3)).map(|_| arrival(&mut rng)).collect();
        let mut plan = Self {
            seed,
            settings,
            timeout,
            one_machine: rng.random_bool(0.5),
            skews,
            arrivals,
            faults: vec![],
            queue_has_dead_letters: false,
            credits: None,
            lag: Duration::ZERO,
            latency: ModelLatency::Uniform,
            invocation: None,
        };
        // Most runs have a few faults, some have many, a few have none; half of them mix all kinds.
        let count = *pick(&mut rng, &[0, 1, 2, 3, 4, 6, 9]);
        let theme = rng.random_bool(0.5).then(|| *pick(&mut rng, &Theme::ALL));
        for _ in 0..count {
            let theme = theme.unwrap_or_else(|| *pick(&mut rng, &Theme::ALL));
            let fault = fault(&plan, theme, &mut rng);
            plan.faults.push(fault);
        }
        if approval {
            for document in 0..plan.arrivals.len() {
                let at = plan.arrivals[document].at + seconds(&mut rng, 1, timeout.as_secs());
                let action = *pick(&mut rng, &[UserAction::Approve, UserAction::Approve, UserAction::Reject]);
                plan.faults.push(PlannedFault::User { at, document, action });
            }
        }
        plan
    }

    fn add_longer_faults(&mut self, rng: &mut StdRng) {
        self.queue_has_dead_letters = rng.random_ratio(1, 3);
        for arrival in &mut self.arrivals {
            arrival.blank = rng.random_ratio(1, 6);
        }
        let from = seconds(rng, 0, self.timeout.as_secs() + 15);
        let added = match rng.random_range(0..16) {
            // Too long for the retries after 1 s, 4 s and 16 s.
            0 | 1 => {
                let mut outage = storage(from, rng);
                if let PlannedFault::Storage { window, .. } = &mut outage {
                    window.until = from + seconds(rng, 30, 90);
                }
                outage
            }
            2 => {
                let kind = if rng.random_bool(0.5) {
                    ReaderFault::IsUnavailable
                } else {
                    ReaderFault::IsSlow(seconds(rng, 0, 10))
                };
                let from = if rng.random_bool(0.5) { Duration::ZERO } else { from };
                PlannedFault::Reader { window: Window { from, until: from + seconds(rng, 1, 40) }, kind }
            }
            3 => {
                let window = Window { from: Duration::ZERO, until: seconds(rng, 1, 60) };
                PlannedFault::Model {
                    model: rng.random_range(0..MODELS),
                    window,
                    kind: ModelFault::FailsUnknown,
                }
            }
            _ => return,
        };
        self.faults.push(added);
    }

    /// One tenant in three has to pay, and half of those have few credits.
    fn add_credits(&mut self, rng: &mut StdRng) {
        if !rng.random_ratio(1, 3) {
            return;
        }
        let behaviours = |rng: &mut StdRng, max: usize| {
            let all = [
                PaymentBehaviour::Succeeds,
                PaymentBehaviour::Unavailable,
                PaymentBehaviour::LosesReply,
                PaymentBehaviour::Declines,
            ];
            (0..rng.random_range(0..=max)).map(|_| *pick(rng, &all)).collect()
        };
        let granted = if rng.random_bool(0.5) { PLENTY } else { rng.random_range(0..=12) };
        let buys_at = seconds(rng, 0, self.timeout.as_secs());
        let charges = behaviours(rng, 5);
        // More failing refunds would leave the purchase to a person.
        let refunds: Vec<PaymentBehaviour> = behaviours(rng, 2);
        self.credits = Some(CreditPlan { granted, buys_at, charges, refunds });
        self.settings.extend([
            ("CREDITS", "prepaid".into()),
            ("PAYMENT_URL", "http://pay.example".into()),
            ("CREDIT_PRICE_USD", "0.05".into()),
        ]);
    }

    /// On one machine an index is part of the same database and never lags.
    fn add_lag(&mut self, rng: &mut StdRng) {
        if !self.one_machine {
            let max = *pick(rng, &[0, 1, 5]);
            self.lag = seconds(rng, 0, max);
        }
    }

    /// Half of the approvals also set a later or an earlier deadline.
    fn move_deadlines(&mut self, rng: &mut StdRng) {
        for fault in &mut self.faults {
            if let PlannedFault::User { action: action @ UserAction::Approve, .. } = fault
                && rng.random_bool(0.5)
            {
                *action = UserAction::Modify(seconds(rng, 5, 150));
            }
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.into()));
    }

    /// `PATIENCE` as the plan sets it.
    pub fn patience(&self) -> Patience {
        self.setting("PATIENCE").map_or(Patience::Deadline, |text| text.parse().unwrap_or_default())
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// What pace, patience and hedging depend on: limits that are found out, many calls at once, models that
    /// limit their callers, fail or hang now and then, and answer with a long tail.
    fn add_pace(&mut self, rng: &mut StdRng) {
        if rng.random_bool(0.5) {
            self.set("MAX_INFLIGHT_PER_MODEL", "auto");
            self.set("WORKER_CONCURRENCY", rng.random_range(2..=24).to_string());
            let largest = rng.random_range(0..self.arrivals.len());
            if rng.random_bool(0.5) {
                self.arrivals[largest].pages = rng.random_range(10..=40);
            }
        }
        if rng.random_ratio(1, 3) {
            self.set("BREAKER_FAILURE_THRESHOLD", "3");
        }
        match rng.random_range(0..8) {
            0 => self.set("PATIENCE", "0"),
            1 => self.set("PATIENCE", format!("{}s", rng.random_range(2..=40))),
            _ => {}
        }
        if rng.random_ratio(1, 8) {
            self.set("HEDGE", "off");
        }
        if rng.random_ratio(1, 3) {
            let median = Duration::from_millis(*pick(rng, &[200, 600, 1500]));
            self.latency = ModelLatency::Lognormal { median };
        }
        match rng.random_range(0..16) {
            0..3 => return self.add_outage(rng),
            3 => return self.add_lost_pages(rng),
            _ => {}
        }
        let count = *pick(rng, &[0, 0, 1, 2, 4]);
        let theme = rng.random_bool(0.5).then(|| rng.random_range(0..5));
        for model in 0..count {
            let retry_after = rng.random_bool(0.5).then(|| seconds(rng, 0, 8));
            let kind = match theme.unwrap_or_else(|| rng.random_range(0..5)) {
                0 => ModelFault::RefusesMoreThan { calls: rng.random_range(1..=8), retry_after },
                1 => ModelFault::FailsSometimes(*pick(rng, &[2, 4, 10, 30])),
                2 => ModelFault::HangsSometimes(*pick(rng, &[1, 4, 10, 30])),
                3 => ModelFault::IsRateLimitedSilently,
                // All of them at once, as when a connection is down.
                _ => ModelFault::IsDown,
            };
            let from = if rng.random_bool(0.5) { Duration::ZERO } else { seconds(rng, 0, 20) };
            let window = Window { from, until: from + seconds(rng, 1, self.timeout.as_secs()) };
            self.faults.push(PlannedFault::Model { model, window, kind });
        }
    }

    /// Models that take so many calls per time and announce what is left, in some runs.
    fn add_quotas(&mut self, rng: &mut StdRng) {
        if !rng.random_ratio(1, 5) {
            return;
        }
        let (calls, per) = (rng.random_range(1..=12), seconds(rng, 1, 10));
        for model in 0..rng.random_range(1..=MODELS) {
            let window = Window { from: Duration::ZERO, until: self.timeout };
            let kind = ModelFault::HasQuota { calls, per };
            self.faults.push(PlannedFault::Model { model, window, kind });
        }
    }

    /// Models of which some calls fail and ask for a pause, in some runs.
    fn add_asked_waits(&mut self, rng: &mut StdRng) {
        if !rng.random_ratio(1, 8) {
            return;
        }
        for model in 0..rng.random_range(1..=MODELS) {
            let window = Window { from: Duration::ZERO, until: seconds(rng, 1, self.timeout.as_secs()) };
            let (one_in, wait) = (*pick(rng, &[3, 10, 30]), seconds(rng, 1, 40));
            let kind = ModelFault::FailsAndAsksToWait { one_in, wait };
            self.faults.push(PlannedFault::Model { model, window, kind });
        }
    }

    /// Nothing but an outage of most models, or of all, some of which answered before with anything but the
    /// page.
    fn add_outage(&mut self, rng: &mut StdRng) {
        self.faults.retain(|fault| matches!(fault, PlannedFault::User { .. }));
        self.skews.fill(0);
        let (from, models) = (seconds(rng, 0, 8), rng.random_range(2..=MODELS));
        let longest = *pick(rng, &[25, 120]);
        let until = from + seconds(rng, 2, longest);
        let kind = match rng.random_range(0..5) {
            0 | 1 => ModelFault::IsDown,
            2 => ModelFault::IsRateLimited(seconds(rng, 1, 20)),
            3 => ModelFault::IsRateLimitedSilently,
            _ => ModelFault::Hangs,
        };
        let useless = *pick(rng, &[ModelFault::AnswersTruncated, ModelFault::RepeatsItself, kind, kind]);
        for model in 0..models {
            let kind = if model == 0 { useless } else { kind };
            self.faults.push(PlannedFault::Model { model, window: Window { from, until }, kind });
        }
    }

    /// Records so slow that leases expire, and messages that come back meanwhile: workers lose their pages.
    fn add_lost_pages(&mut self, rng: &mut StdRng) {
        self.faults.retain(|fault| matches!(fault, PlannedFault::User { .. } | PlannedFault::Model { .. }));
        self.skews.fill(0);
        self.set("PAGE_VISIBILITY", "30s");
        self.set("REQUEST_TIMEOUT", "30s");
        let from = seconds(rng, 4, 15);
        let window = Window { from, until: from + seconds(rng, 20, 60) };
        let (port, kind) = (Port::Records, StorageFault::IsSlow(seconds(rng, 10, 20)));
        self.faults.push(PlannedFault::Storage { port, window, one_in: *pick(rng, &[1, 2, 5]), kind });
        let window = Window { from: Duration::ZERO, until: window.until };
        let kind = MessageFault::RedeliveredAfter(seconds(rng, 0, 5));
        self.faults.push(PlannedFault::Messages { window, one_in: *pick(rng, &[1, 2]), kind });
        for model in 0..rng.random_range(0..=MODELS) {
            let kind = ModelFault::IsSlow(seconds(rng, 5, 28));
            self.faults.push(PlannedFault::Model { model, window, kind });
        }
    }

    /// Whether a job may be rejected because its tenant has too few credits.
    pub fn credits_are_scarce(&self) -> bool {
        self.credits.as_ref().is_some_and(|credits| credits.granted < PLENTY)
    }

    pub fn document(&self, index: usize) -> FakeDocument {
        let arrival = &self.arrivals[index];
        let mut document = if arrival.mixed {
            FakeDocument::mixed(arrival.pages)
        } else {
            FakeDocument::graphics(arrival.pages)
        };
        for (number, page) in (1..).zip(&mut document.pages) {
            page.text = format!("layer of page {number} of d{index}");
        }
        if arrival.blank
            && let Some(page) = document.pages.last_mut()
        {
            *page = FakePage { text: String::new(), reason: Reason::Blank };
        }
        document.password = (arrival.password != Password::None).then(|| PASSWORD.into());
        document
    }

    /// When the last fault is over.
    pub fn faults_end(&self) -> Duration {
        let arrived = self.arrivals.iter().map(|arrival| arrival.at);
        let bought = self.credits.iter().map(|credits| credits.buys_at);
        self.faults.iter().map(PlannedFault::end).chain(arrived).chain(bought).max().unwrap_or_default()
    }

    pub fn storage_fails(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, PlannedFault::Storage { .. }))
    }

    /// Whether no fault keeps a process from storing what it knows.
    pub fn writes_succeed(&self) -> bool {
        let prevents_writes = |fault: &PlannedFault| {
            matches!(
                fault,
                PlannedFault::Storage { .. } | PlannedFault::Kill { .. } | PlannedFault::KillAtCall { .. }
            )
        };
        !self.faults.iter().any(prevents_writes)
    }

    /// Whether nothing explains a second delivery of a message.
    pub fn delivers_once(&self) -> bool {
        let explains = |fault: &PlannedFault| {
            matches!(
                fault,
                PlannedFault::Messages { .. } | PlannedFault::SecondDriver { .. } | PlannedFault::User { .. }
            )
        };
        self.breakers_see_every_failure() && !self.faults.iter().any(explains)
    }

    /// Whether no fault keeps breakers from recording each failure.
    pub fn breakers_see_every_failure(&self) -> bool {
        self.writes_succeed() && self.max_clock_difference().is_zero()
    }

    /// The maximum difference between two clocks.
    pub fn max_clock_difference(&self) -> Duration {
        let fastest = self.skews.iter().max().copied().unwrap_or(0).max(0);
        let slowest = self.skews.iter().min().copied().unwrap_or(0).min(0);
        Duration::from_millis(fastest.abs_diff(slowest))
    }
}

fn pick<'a, T>(rng: &mut StdRng, from: &'a [T]) -> &'a T {
    from.choose(rng).unwrap_or(&from[0])
}

fn seconds(rng: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from * 1000..=to * 1000))
}

fn arrival(rng: &mut StdRng) -> Arrival {
    Arrival {
        at: seconds(rng, 0, 10),
        pages: if rng.random_ratio(1, 6) { rng.random_range(7..=20) } else { rng.random_range(1..=6) },
        mixed: rng.random_ratio(1, 4),
        blank: false,
        password: match rng.random_range(0..20) {
            0 => Password::Missing,
            1..3 => Password::Given,
            _ => Password::None,
        },
    }
}

/// A group of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Storage,
    Kills,
    Models,
    Messages,
    Users,
}

impl Theme {
    const ALL: [Self; 5] = [Self::Storage, Self::Kills, Self::Models, Self::Messages, Self::Users];
}

fn fault(plan: &RunPlan, theme: Theme, rng: &mut StdRng) -> PlannedFault {
    // Faults around the deadline do the most harm.
    let from = seconds(rng, 0, plan.timeout.as_secs() + 15);
    let process = rng.random_range(0..plan.skews.len());
    let document = rng.random_range(0..plan.arrivals.len());
    match theme {
        Theme::Storage => storage(from, rng),
        Theme::Kills => {
            let back_after = rng.random_ratio(4, 5).then(|| seconds(rng, 0, 20));
            match rng.random_range(0..4) {
                0 => PlannedFault::Kill { process, at: from, back_after },
                // While most of the work is done.
                1 => PlannedFault::Kill { process, at: seconds(rng, 0, 15), back_after },
                _ => PlannedFault::KillAtCall { process, call: rng.random_range(0..400), back_after },
            }
        }
        Theme::Models => model(from, rng),
        Theme::Messages => {
            let kind = match rng.random_range(0..3) {
                0 => MessageFault::DeliveredTwice,
                1 => MessageFault::DeliveredLate(seconds(rng, 0, 30)),
                _ => MessageFault::RedeliveredAfter(seconds(rng, 0, 5)),
            };
            let window = Window { from: Duration::ZERO, until: from + Duration::from_secs(5) };
            PlannedFault::Messages { window, one_in: *pick(rng, &[1, 2, 4]), kind }
        }
        Theme::Users => {
            let action = match rng.random_range(0..6) {
                0..2 => {
                    let at = seconds(rng, 0, 20);
                    return PlannedFault::SecondDriver { document, process, at };
                }
                2 => UserAction::Cancel,
                3 => UserAction::Heal,
                4 => UserAction::Redrive,
                _ => UserAction::SubmitAgain,
            };
            // Also after the job has ended.
            PlannedFault::User { at: from + seconds(rng, 0, 20), document, action }
        }
    }
}

fn storage(from: Duration, rng: &mut StdRng) -> PlannedFault {
    const PORTS: [Port; 7] =
        [Port::Everything, Port::Records, Port::Records, Port::Blobs, Port::Queue, Port::Flow, Port::Bus];
    let kind = match rng.random_range(0..4) {
        0 => StorageFault::Refuses,
        1 => StorageFault::LosesReplies,
        2 => StorageFault::Throttles,
        _ => StorageFault::IsSlow(seconds(rng, 0, 20)),
    };
    // Short enough for the retries after 1 s, 4 s and 16 s.
    let until = from + seconds(rng, 0, 12);
    let (port, one_in) = (*pick(rng, &PORTS), *pick(rng, &[1, 2, 5, 20]));
    PlannedFault::Storage { port, window: Window { from, until }, one_in, kind }
}

fn model(from: Duration, rng: &mut StdRng) -> PlannedFault {
    let kind = match rng.random_range(0..10) {
        0 | 9 => ModelFault::IsDown,
        1 => ModelFault::Hangs,
        2 => ModelFault::IsSlow(seconds(rng, 1, 40)),
        3 => ModelFault::IsRateLimited(seconds(rng, 0, 60)),
        4 => ModelFault::AnswersEmpty,
        5 => ModelFault::AnswersTruncated,
        6 => ModelFault::RepeatsItself,
        7 => ModelFault::RejectsTheKey,
        _ => ModelFault::RejectsThePage,
    };
    let from = if rng.random_bool(0.5) { Duration::ZERO } else { from };
    let until = from + seconds(rng, 1, 120);
    PlannedFault::Model { model: rng.random_range(0..MODELS), window: Window { from, until }, kind }
}

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "  settings: {}", settings.join(" "))?;
        let place = if self.one_machine { "one machine" } else { "many machines" };
        writeln!(f, "  processes: {} on {place}, clocks off by {:?} ms", self.skews.len(), self.skews)?;
        for (index, arrival) in self.arrivals.iter().enumerate() {
            let Arrival { at, pages, mixed, blank, password } = arrival;
            let mixed = if *mixed { ", half of them text" } else { "" };
            let blank = if *blank { ", the last one blank" } else { "" };
            let password = match password {
                Password::None => "",
                Password::Given => ", with its password",
                Password::Missing => ", without its password",
            };
            writeln!(f, "  document {index}: {pages} pages{mixed}{blank}{password}, at {}", time(*at))?;
        }
        if self.latency != ModelLatency::Uniform {
            writeln!(f, "  latency: {:?}", self.latency)?;
        }
        if let Some(time) = self.invocation {
            writeln!(f, "  workers leave after {} s", time.as_secs())?;
        }
        if !self.lag.is_zero() {
            writeln!(f, "  indexes lag by {}", time(self.lag))?;
        }
        if self.queue_has_dead_letters {
            writeln!(f, "  the queue has a dead-letter queue")?;
        }
        if let Some(CreditPlan { granted, buys_at, charges, refunds }) = &self.credits {
            let at = time(*buys_at);
            writeln!(f, "  credits: {granted}; {BOUGHT} are bought at {at}, {charges:?}, {refunds:?}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  fault: {fault}")?;
        }
        Ok(())
    }
}
