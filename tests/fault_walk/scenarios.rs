//! What is walked: a job whose pages fail over, and jobs in bad weather, whose pages wait, spill and are called
//! for twice. Each names the steps that it has to take, so that a walk can't miss them unseen.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    document::Reason,
    keys::record,
    ports::{
        Fault,
        records::{Batch, Change, Draft, Index, Item, Key, Listing, Records, Written},
        vision::{Allowance, Quota, VisionError},
    },
    providers::target::Target,
};
use everypage_testkit::{
    clock::VirtualClock,
    faulty::Faults,
    memory::MemoryRecords,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, Process, seconds};
use serde_json::Value;

/// The model that pages are sent to first.
const FIRST: &str = "gpt-5.4";
const SECOND: &str = "gpt-5.4-mini";

pub struct Scenario {
    pub name: &'static str,
    pub pages: u32,
    /// Pages at once, in one process.
    pub workers: u32,
    settings: &'static [(&'static str, &'static str)],
    /// When a worker has to leave.
    leaves_after: Option<Duration>,
    /// What a model does when it is called for a page, so many seconds after the start.
    reply: fn(&Target, u32, f64) -> Reply,
    /// What the run without faults stores and calls, among other things.
    pub reaches: &'static [&'static str],
    /// Answers that a fault may cost where no process is killed: both calls for a page may be answered.
    pub extra_answers: usize,
}

fn answer(target: &Target, page: u32, millis: u64) -> Reply {
    Reply::AnswerAfter(Duration::from_millis(millis), read_by(target, page))
}

fn limited(retry_after: Option<u64>) -> Reply {
    let (detail, retry_after) = ("429".to_owned(), retry_after.map(Duration::from_secs));
    Reply::Fail(VisionError::Exhausted { detail, retry_after, allowance: Box::default() })
}

fn down(retry_after: Option<u64>) -> Reply {
    let retry_after = retry_after.map(Duration::from_secs);
    Reply::Fail(VisionError::Transient { detail: "503".into(), retry_after })
}

/// One page fails over and one is text only, so that the flow takes every kind of step.
pub const FAILOVER: Scenario = Scenario {
    name: "failover",
    pages: 4,
    workers: 2,
    leaves_after: None,
    settings: &[("RANGE_PAGES", "2")],
    reply: |target, page, _| match (target.model.as_str(), page) {
        (FIRST, 4) => Reply::down(),
        _ => answer(target, page, 300),
    },
    reaches: &["slots are taken", "slots are given back", "page is claimed", "page is settled"],
    extra_answers: 0,
};

/// The first calls fail, too few for a breaker.
pub const FLAKY: Scenario = Scenario {
    name: "flaky",
    pages: 3,
    workers: 2,
    leaves_after: None,
    settings: &[("FAILOVER", "openai:gpt-5.4")],
    reply: |target, page, time| match time {
        ..0.2 => down(None),
        _ => answer(target, page, 300),
    },
    reaches: &["page waits: call_failed"],
    extra_answers: 0,
};

/// All models limit their callers, then all are down, then all are well: pages wait for both reasons, breakers open, are probed and close, and the pages that wait are woken.
pub const OUTAGE: Scenario = Scenario {
    name: "outage",
    pages: 3,
    workers: 2,
    leaves_after: None,
    settings: &[],
    reply: |target, page, time| match (target.model.as_str(), time) {
        (FIRST, ..1.5) => limited(Some(1)),
        (_, ..1.5) => limited(None),
        (SECOND, ..7.0) => down(Some(1)),
        (_, ..7.0) => down(None),
        _ => answer(target, page, 300),
    },
    reaches: &["page waits: rate_limited", "model is paused", "breaker is open", "breaker is closed"],
    extra_answers: 0,
};

/// One call at a time to one model, and each takes longer than a page waits for its turn inside a worker.
pub const NO_SLOT: Scenario = Scenario {
    name: "no slot",
    pages: 4,
    workers: 3,
    leaves_after: None,
    settings: &[("MAX_INFLIGHT_PER_MODEL", "1"), ("FAILOVER", "openai:gpt-5.4"), ("HEDGE", "off")],
    reply: |target, page, _| answer(target, page, 6000),
    reaches: &["page waits: no_slot", "slots are taken", "slots are given back"],
    extra_answers: 0,
};

/// A call that hangs is doubled, and the second model reads the page. Each call is paid from a budget.
pub const HEDGE_WINS: Scenario = Scenario {
    name: "hedge wins",
    pages: 4,
    workers: 2,
    leaves_after: None,
    settings: &[("BUDGET_USD", "5")],
    reply: |target, page, _| match (target.model.as_str(), page) {
        (FIRST, 3) => Reply::Hang,
        _ => answer(target, page, 300),
    },
    reaches: &["call is cut off", "expenses", "hedge is taken"],
    extra_answers: 0,
};

/// A slow call is doubled and answers first.
pub const HEDGE_LOSES: Scenario = Scenario {
    name: "hedge loses",
    pages: 4,
    workers: 2,
    leaves_after: None,
    settings: &[("BUDGET_USD", "5")],
    reply: |target, page, _| match (target.model.as_str(), page) {
        (FIRST, 3) => answer(target, page, 8000),
        (_, 3) => answer(target, page, 9000),
        _ => answer(target, page, 300),
    },
    reaches: &["call is cut off", "expenses", "hedge is taken"],
    extra_answers: 0,
};

/// Every answer announces that nothing is left of a limit, and how soon one more call has room: pages wait for that
/// before any is refused.
pub const ANNOUNCED: Scenario = Scenario {
    name: "announced",
    pages: 4,
    workers: 2,
    leaves_after: None,
    settings: &[("FAILOVER", "openai:gpt-5.4")],
    reply: |target, page, _| {
        let (limit, resets_in) = (Some(2), Duration::from_secs(6));
        let allowance =
            Allowance { requests: Some(Quota { left: 0, limit, resets_in }), ..Allowance::default() };
        Reply::Announce(Duration::from_millis(300), read_by(target, page), allowance)
    },
    reaches: &["page waits: rate_limited", "model is paused"],
    extra_answers: 0,
};

/// The first model hangs for every page: some calls are doubled, the others time out, its limit is halved and its
/// breaker opens.
pub const HANGS: Scenario = Scenario {
    name: "hangs",
    pages: 8,
    workers: 8,
    leaves_after: None,
    settings: &[("REQUEST_TIMEOUT", "12s")],
    reply: |target, page, _| match target.model.as_str() {
        FIRST => Reply::Hang,
        _ => answer(target, page, 300),
    },
    reaches: &["call is cut off", "limit is lowered", "breaker is open"],
    extra_answers: 0,
};

/// The workers have to leave before every page of theirs has had its turn: they pass those on.
pub const LEAVES: Scenario = Scenario {
    name: "leaves",
    pages: 4,
    workers: 3,
    leaves_after: Some(Duration::from_secs(10)),
    settings: &[
        ("MAX_INFLIGHT_PER_MODEL", "1"),
        ("FAILOVER", "openai:gpt-5.4"),
        ("HEDGE", "off"),
        ("REQUEST_TIMEOUT", "8s"),
    ],
    reply: |target, page, _| answer(target, page, 5000),
    reaches: &["page is passed on", "slots are taken", "slots are given back"],
    extra_answers: 0,
};

/// The storage of a run, and what was stored.
pub struct Watched {
    inner: Arc<MemoryRecords>,
    stored: Mutex<BTreeSet<String>>,
}

impl Watched {
    fn note(&self, what: impl Into<String>) {
        self.stored.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(what.into());
    }

    pub fn stored(&self) -> BTreeSet<String> {
        self.stored.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn watch(&self, before: Option<&Item>, draft: &Draft) {
        let body = |draft: &Draft| serde_json::from_str::<Value>(&draft.body).unwrap_or_default();
        let (was, is) = (before.map(|item| body(&item.draft)).unwrap_or_default(), body(draft));
        let key = &draft.key;
        if key.sort.starts_with(record::PAGES) {
            if let Some(reason) = is["waiting"]["reason"].as_str() {
                self.note(format!("page waits: {reason}"));
            }
            let calls =
                [&is["earlier_calls"], &is["outcome"]["calls"]].into_iter().filter_map(Value::as_array);
            if calls.flatten().any(|call| call["result"] == "cut_off") {
                self.note("call is cut off");
            }
            let is_released = was["lease"].is_object() && !is["lease"].is_object();
            if is_released && !is["outcome"].is_object() && !is["waiting"].is_object() {
                self.note("page is passed on");
            }
            self.note(if is["outcome"].is_object() { "page is settled" } else { "page is claimed" });
        } else if key.partition == record::PACES {
            if is["paused_until"].is_string() || is["used_up_until"].is_string() {
                self.note("model is paused");
            }
            if is["limit"].as_u64() < was["limit"].as_u64() || is["generation"].as_u64() > Some(0) {
                self.note("limit is lowered");
            }
        } else if key.partition == record::BREAKERS {
            self.note(format!("breaker is {}", is["breaker"]["state"].as_str().unwrap_or("closed")));
        } else if key.partition.starts_with(record::SLOTS) {
            let is_taken = is["shares"].as_array().is_some_and(|shares| !shares.is_empty());
            self.note(if is_taken { "slots are taken" } else { "slots are given back" });
        } else if key.partition == record::HEDGES {
            self.note("hedge is taken");
        } else if key.sort == "expenses" {
            self.note("expenses");
        }
    }
}

#[async_trait]
impl Records for Watched {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.inner.get(key).await
    }
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.inner.get_many(keys).await
    }
    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.inner.list(partition, prefix, after, limit).await
    }
    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.inner.list_index(index, partition, after, descending, limit).await
    }
    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut before = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            before.push(self.inner.get(change.key()).await?);
        }
        let written = self.inner.write(batch).await?;
        for (before, change) in before.iter().zip(&batch.changes) {
            if let (Written::Applied, Change::Put { draft, .. }) = (&written, change) {
                self.watch(before.as_ref(), draft);
            }
        }
        Ok(written)
    }
}

/// One run of a scenario.
pub struct Run {
    pub scenario: &'static Scenario,
    pub harness: Harness,
    pub records: Arc<Watched>,
}

impl Run {
    pub fn new(scenario: &'static Scenario, faults: Arc<Faults>, twice: bool) -> Self {
        let workers = scenario.workers.to_string();
        let settings: Vec<(&str, &str)> =
            scenario.settings.iter().copied().chain([("WORKER_CONCURRENCY", workers.as_str())]).collect();
        let harness = Harness::with_faults(&settings, faults, twice);
        let clock: Arc<VirtualClock> = harness.clock.clone();
        let reply = scenario.reply;
        harness.vision.set_behaviour(move |target, page| reply(target, page, seconds(clock.as_ref())));
        let records = Arc::new(Watched { inner: harness.records.clone(), stored: Mutex::default() });
        Self { scenario, harness, records }
    }

    pub fn start(&self, node: &str) -> Process {
        let process = self.harness.start_on(node, self.records.clone());
        Process { leaves_after: self.scenario.leaves_after, ..process }
    }

    /// The first page is text only.
    pub fn document(&self) -> FakeDocument {
        let mut document = FakeDocument::graphics(self.scenario.pages);
        document.pages[0].reason = Reason::Text;
        document.password = Some("secret word".into());
        document
    }
}
