//! What happens in a run, all of it drawn from one number.

use std::{fmt, time::Duration};

use everypage_core::domain::{document::Reason, outcome::MicroUsd};
use everypage_testkit::{
    memory::PaymentBehaviour,
    pdf::{FakeDocument, FakePage},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::trouble::{Failing, Messages, Model, Port, Reader, Trouble, Window, Wish, time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    None,
    /// It has a password, which is given.
    Opened,
    /// It has a password, and nobody gives it.
    Shut,
}

pub const PASSWORD: &str = "open sesame";

/// A document that somebody submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Duration,
    pub pages: u32,
    /// Every second page has text that needs no eyes.
    pub mixed: bool,
    /// There is nothing on the last page.
    pub blank: bool,
    pub lock: Lock,
}

/// What the tenant has to pay with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purse {
    pub granted: u64,
    /// When somebody buys more, and what the payment service is up to then.
    pub buys_at: Duration,
    pub charges: Vec<PaymentBehaviour>,
    pub refunds: Vec<PaymentBehaviour>,
}

/// More than all documents of a plan can use.
pub const PLENTY: u64 = 10_000;
pub const BOUGHT: u64 = 100;
/// Of all that is bought.
pub const PRICE: MicroUsd = MicroUsd(5_000_000);

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub settings: Vec<(&'static str, String)>,
    /// How long a job may take.
    pub timeout: Duration,
    /// Of the processes that take the dead one's leases away, as one machine can; elsewhere those
    /// run out by themselves.
    pub one_machine: bool,
    /// How far the clock of each process is off, in milliseconds.
    pub skews: Vec<i64>,
    pub arrivals: Vec<Arrival>,
    pub troubles: Vec<Trouble>,
    /// As SQS does: the queue itself buries what was delivered too often.
    pub queue_buries: bool,
    /// None where credits are unlimited.
    pub purse: Option<Purse>,
    /// How far the indexes are behind what is written.
    pub lag: Duration,
}

/// Models that a page may be sent to: as many as the roster has.
pub const MODELS: usize = 4;

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut plan = Self::third_of(seed);
        let mut dice = StdRng::seed_from_u64(seed.rotate_left(10));
        plan.add_lag(&mut dice);
        plan.move_deadlines(&mut dice);
        plan
    }

    /// Without what was thought of later: seeds that failed once still mean what they meant then.
    pub fn third_of(seed: u64) -> Self {
        let mut plan = Self::second_of(seed);
        plan.add_purse(&mut StdRng::seed_from_u64(seed.rotate_left(20)));
        plan
    }

    /// The same, of what was thought of before that.
    pub fn second_of(seed: u64) -> Self {
        let mut plan = Self::first_of(seed);
        plan.add(&mut StdRng::seed_from_u64(seed.rotate_left(40)));
        plan
    }

    /// The same, of what was thought of at first.
    pub fn first_of(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let timeout = Duration::from_secs(*pick(&mut dice, &[20, 30, 60, 120]));
        let processes = dice.random_range(1..=3);
        let skewed = dice.random_ratio(1, 3);
        let skews =
            (0..processes).map(|_| if skewed { dice.random_range(-5000..=5000) } else { 0 }).collect();
        let approval = dice.random_ratio(1, 8);
        let mut settings = vec![
            ("JOB_TIMEOUT", format!("{}s", timeout.as_secs())),
            ("REQUEST_TIMEOUT", pick(&mut dice, &["4s", "10s", "30s"]).to_string()),
            ("PAGE_VISIBILITY", pick(&mut dice, &["30s", "60s"]).to_string()),
            ("BREAKER_BASE_BACKOFF", pick(&mut dice, &["5s", "15s", "30s"]).to_string()),
            ("BREAKER_FAILURE_THRESHOLD", pick(&mut dice, &["1", "1", "2"]).to_string()),
            ("WORKER_CONCURRENCY", dice.random_range(1..=4).to_string()),
            ("MAX_INFLIGHT_PER_MODEL", dice.random_range(1..=3).to_string()),
            ("RANGE_PAGES", dice.random_range(1..=4).to_string()),
        ];
        if approval {
            settings.push(("APPROVAL_THRESHOLD_USD", "0.000001".into()));
        }
        let arrivals: Vec<Arrival> = (0..dice.random_range(1..=3)).map(|_| arrival(&mut dice)).collect();
        let mut plan = Self {
            seed,
            settings,
            timeout,
            one_machine: dice.random_bool(0.5),
            skews,
            arrivals,
            troubles: vec![],
            queue_buries: false,
            purse: None,
            lag: Duration::ZERO,
        };
        // Most runs have a few troubles, some have many, a few have none; half of them have all sorts.
        let count = *pick(&mut dice, &[0, 1, 2, 3, 4, 6, 9]);
        let theme = dice.random_bool(0.5).then(|| *pick(&mut dice, &Theme::ALL));
        for _ in 0..count {
            let theme = theme.unwrap_or_else(|| *pick(&mut dice, &Theme::ALL));
            let trouble = trouble(&plan, theme, &mut dice);
            plan.troubles.push(trouble);
        }
        if approval {
            for document in 0..plan.arrivals.len() {
                let at = plan.arrivals[document].at + seconds(&mut dice, 1, timeout.as_secs());
                let wish = *pick(&mut dice, &[Wish::Approve, Wish::Approve, Wish::Reject]);
                plan.troubles.push(Trouble::Person { at, document, wish });
            }
        }
        plan
    }

    fn add(&mut self, dice: &mut StdRng) {
        self.queue_buries = dice.random_ratio(1, 3);
        for arrival in &mut self.arrivals {
            arrival.blank = dice.random_ratio(1, 6);
        }
        let from = seconds(dice, 0, self.timeout.as_secs() + 15);
        let more = match dice.random_range(0..16) {
            // Too long for the tries after 1 s, 4 s and 16 s.
            0 | 1 => {
                let mut outage = storage(from, dice);
                if let Trouble::Storage { window, .. } = &mut outage {
                    window.until = from + seconds(dice, 30, 90);
                }
                outage
            }
            2 => {
                let does = if dice.random_bool(0.5) {
                    Reader::IsGone
                } else {
                    Reader::Dawdles(seconds(dice, 0, 10))
                };
                let from = if dice.random_bool(0.5) { Duration::ZERO } else { from };
                Trouble::Reader { window: Window { from, until: from + seconds(dice, 1, 40) }, does }
            }
            3 => {
                let window = Window { from: Duration::ZERO, until: seconds(dice, 1, 60) };
                Trouble::Model { model: dice.random_range(0..MODELS), window, does: Model::IsStrange }
            }
            _ => return,
        };
        self.troubles.push(more);
    }

    /// Of three tenants one has to pay, and of those every second has little.
    fn add_purse(&mut self, dice: &mut StdRng) {
        if !dice.random_ratio(1, 3) {
            return;
        }
        let moods = |dice: &mut StdRng, most: usize| {
            let all = [
                PaymentBehaviour::Succeeds,
                PaymentBehaviour::Unavailable,
                PaymentBehaviour::LosesReply,
                PaymentBehaviour::Declines,
            ];
            (0..dice.random_range(0..=most)).map(|_| *pick(dice, &all)).collect()
        };
        let granted = if dice.random_bool(0.5) { PLENTY } else { dice.random_range(0..=12) };
        let buys_at = seconds(dice, 0, self.timeout.as_secs());
        let charges = moods(dice, 5);
        // Of more a person would have to know.
        let refunds: Vec<PaymentBehaviour> = moods(dice, 2);
        self.purse = Some(Purse { granted, buys_at, charges, refunds });
        self.settings.extend([
            ("CREDITS", "prepaid".into()),
            ("PAYMENT_URL", "http://pay.example".into()),
            ("CREDIT_PRICE_USD", "0.05".into()),
        ]);
    }

    /// On one machine an index is part of the same file.
    fn add_lag(&mut self, dice: &mut StdRng) {
        if !self.one_machine {
            let longest = *pick(dice, &[0, 1, 5]);
            self.lag = seconds(dice, 0, longest);
        }
    }

    /// Of those who approve a plan, every second one gives it more time, or less.
    fn move_deadlines(&mut self, dice: &mut StdRng) {
        for trouble in &mut self.troubles {
            if let Trouble::Person { wish: wish @ Wish::Approve, .. } = trouble
                && dice.random_bool(0.5)
            {
                *wish = Wish::Modify(seconds(dice, 5, 150));
            }
        }
    }

    /// May a job be rejected because its tenant can't pay?
    pub fn credits_are_scarce(&self) -> bool {
        self.purse.as_ref().is_some_and(|purse| purse.granted < PLENTY)
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
        document.password = (arrival.lock != Lock::None).then(|| PASSWORD.into());
        document
    }

    /// When the last trouble is over.
    pub fn calm(&self) -> Duration {
        let arrived = self.arrivals.iter().map(|arrival| arrival.at);
        let bought = self.purse.iter().map(|purse| purse.buys_at);
        self.troubles.iter().map(Trouble::over).chain(arrived).chain(bought).max().unwrap_or_default()
    }

    pub fn storage_fails(&self) -> bool {
        self.troubles.iter().any(|trouble| matches!(trouble, Trouble::Storage { .. }))
    }

    /// Does nothing keep a process from writing down what it knows?
    pub fn writes_hold(&self) -> bool {
        let deaf = |trouble: &Trouble| {
            matches!(trouble, Trouble::Storage { .. } | Trouble::Kill { .. } | Trouble::KillAtCall { .. })
        };
        !self.troubles.iter().any(deaf)
    }

    /// Does nothing keep breakers from hearing of each failure?
    pub fn breakers_know(&self) -> bool {
        self.writes_hold() && self.spread().is_zero()
    }

    /// The most that two clocks disagree.
    pub fn spread(&self) -> Duration {
        let most = self.skews.iter().max().copied().unwrap_or(0).max(0);
        let least = self.skews.iter().min().copied().unwrap_or(0).min(0);
        Duration::from_millis(most.abs_diff(least))
    }
}

fn pick<'a, T>(dice: &mut StdRng, from: &'a [T]) -> &'a T {
    from.choose(dice).unwrap_or(&from[0])
}

fn seconds(dice: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(dice.random_range(from * 1000..=to * 1000))
}

fn arrival(dice: &mut StdRng) -> Arrival {
    Arrival {
        at: seconds(dice, 0, 10),
        pages: if dice.random_ratio(1, 6) { dice.random_range(7..=20) } else { dice.random_range(1..=6) },
        mixed: dice.random_ratio(1, 4),
        blank: false,
        lock: match dice.random_range(0..20) {
            0 => Lock::Shut,
            1..3 => Lock::Opened,
            _ => Lock::None,
        },
    }
}

/// What sort of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Storage,
    Deaths,
    Models,
    Messages,
    People,
}

impl Theme {
    const ALL: [Self; 5] = [Self::Storage, Self::Deaths, Self::Models, Self::Messages, Self::People];
}

fn trouble(plan: &Plan, theme: Theme, dice: &mut StdRng) -> Trouble {
    // Around the deadline is where it hurts most.
    let from = seconds(dice, 0, plan.timeout.as_secs() + 15);
    let process = dice.random_range(0..plan.skews.len());
    let document = dice.random_range(0..plan.arrivals.len());
    match theme {
        Theme::Storage => storage(from, dice),
        Theme::Deaths => {
            let back_after = dice.random_ratio(4, 5).then(|| seconds(dice, 0, 20));
            match dice.random_range(0..4) {
                0 => Trouble::Kill { process, at: from, back_after },
                // While there is most to do.
                1 => Trouble::Kill { process, at: seconds(dice, 0, 15), back_after },
                _ => Trouble::KillAtCall { process, call: dice.random_range(0..400), back_after },
            }
        }
        Theme::Models => model(from, dice),
        Theme::Messages => {
            let messages = match dice.random_range(0..3) {
                0 => Messages::ComeTwice,
                1 => Messages::ComeLate(seconds(dice, 0, 30)),
                _ => Messages::ComeBackAfter(seconds(dice, 0, 5)),
            };
            let window = Window { from: Duration::ZERO, until: from + Duration::from_secs(5) };
            Trouble::Messages { window, one_in: *pick(dice, &[1, 2, 4]), messages }
        }
        Theme::People => {
            let wish = match dice.random_range(0..6) {
                0..2 => {
                    let at = seconds(dice, 0, 20);
                    return Trouble::SecondDriver { document, process, at };
                }
                2 => Wish::Cancel,
                3 => Wish::Heal,
                4 => Wish::Redrive,
                _ => Wish::SubmitAgain,
            };
            // Also after the end.
            Trouble::Person { at: from + seconds(dice, 0, 20), document, wish }
        }
    }
}

fn storage(from: Duration, dice: &mut StdRng) -> Trouble {
    const PORTS: [Port; 7] =
        [Port::Everything, Port::Records, Port::Records, Port::Blobs, Port::Queue, Port::Flow, Port::Bus];
    let failing = match dice.random_range(0..4) {
        0 => Failing::Refuses,
        1 => Failing::LosesReplies,
        2 => Failing::Throttles,
        _ => Failing::Dawdles(seconds(dice, 0, 20)),
    };
    // Short enough for the tries after 1 s, 4 s and 16 s.
    let until = from + seconds(dice, 0, 12);
    let (port, one_in) = (*pick(dice, &PORTS), *pick(dice, &[1, 2, 5, 20]));
    Trouble::Storage { port, window: Window { from, until }, one_in, failing }
}

fn model(from: Duration, dice: &mut StdRng) -> Trouble {
    let does = match dice.random_range(0..10) {
        0 | 9 => Model::IsDown,
        1 => Model::Hangs,
        2 => Model::Dawdles(seconds(dice, 1, 40)),
        3 => Model::IsExhausted(seconds(dice, 0, 60)),
        4 => Model::SaysNothing,
        5 => Model::SaysHalf,
        6 => Model::Raves,
        7 => Model::RefusesTheKey,
        _ => Model::RefusesThePage,
    };
    let from = if dice.random_bool(0.5) { Duration::ZERO } else { from };
    let until = from + seconds(dice, 1, 120);
    Trouble::Model { model: dice.random_range(0..MODELS), window: Window { from, until }, does }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "  settings: {}", settings.join(" "))?;
        let place = if self.one_machine { "one machine" } else { "many machines" };
        writeln!(f, "  processes: {} on {place}, clocks off by {:?} ms", self.skews.len(), self.skews)?;
        for (index, arrival) in self.arrivals.iter().enumerate() {
            let Arrival { at, pages, mixed, blank, lock } = arrival;
            let mixed = if *mixed { ", half of them text" } else { "" };
            let blank = if *blank { ", the last one blank" } else { "" };
            let lock = match lock {
                Lock::None => "",
                Lock::Opened => ", with its password",
                Lock::Shut => ", without its password",
            };
            writeln!(f, "  document {index}: {pages} pages{mixed}{blank}{lock}, at {}", time(*at))?;
        }
        if !self.lag.is_zero() {
            writeln!(f, "  indexes are {} behind", time(self.lag))?;
        }
        if self.queue_buries {
            writeln!(f, "  the queue itself buries what is delivered too often")?;
        }
        if let Some(Purse { granted, buys_at, charges, refunds }) = &self.purse {
            let at = time(*buys_at);
            writeln!(f, "  credits: {granted}; {BOUGHT} are bought at {at}, {charges:?}, {refunds:?}")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "  trouble: {trouble}")?;
        }
        Ok(())
    }
}
