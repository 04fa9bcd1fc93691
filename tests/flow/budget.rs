//! Budgets of jobs and tenants: never overrun, whatever runs at once or dies, and nothing stays reserved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    events::Store,
    ids::{JobId, TenantId},
    job::Job,
    keys::record,
    money::MicroUsd,
    notices,
    ports::{
        Fault,
        clock::Clock,
        notifier::NoticeKind,
        records::{Batch, Index, Item, Key, Listing, Records, Written},
    },
    read::{
        expense::{Expenses, Wanted},
        expenses::{self, Budgets, ReserveOutcome},
    },
    source::Source,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process},
    invariants,
};
use proptest::prelude::*;
use tokio::runtime::Builder;

use crate::sources;

/// What a call of the fake models costs.
const CALL: u64 = 1_000;

async fn expenses(harness: &Harness, id: &JobId) -> Expenses {
    let found = harness.records.get(&record::job_expenses(id)).await.unwrap().unwrap();
    let mut expenses: Expenses = serde_json::from_str(&found.draft.body).unwrap();
    expenses.expire(harness.clock.now());
    expenses
}

async fn finished(process: &Process, pages: u32) -> Job {
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    process.finish(&id).await
}

#[tokio::test(start_paused = true)]
async fn pages_beyond_the_budget_keep_their_own_text_and_say_why() {
    let harness = Harness::new(&[("BUDGET_USD", "0.05")]);
    let process = harness.start("a");
    let job = finished(&process, 60).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 60).await;
    let document = process.result(&job).await;
    let read = sources(&document).iter().filter(|source| **source == Source::AI).count() as u64;
    assert!((20..60).contains(&read), "{read} pages were read");
    let spent = document.metadata.cost_micro_usd;
    assert!(spent <= MicroUsd(50_000), "{spent:?}");
    let expenses = expenses(&harness, &job.id).await;
    assert_eq!((expenses.spent, expenses.reservations.len()), (spent, 0));
    let given_up = document.pages.iter().filter_map(|page| page.fallback_reason.as_deref());
    let given_up: Vec<&str> = given_up.collect();
    assert_eq!(given_up.len() as u64, 60 - read);
    assert!(given_up.iter().all(|reason| *reason == "the budget of 0.05 USD is used up"), "{given_up:?}");
    let notices = notices::all(&process.app.store, 100).await.unwrap();
    let about: Vec<_> = notices.iter().filter(|notice| notice.kind == NoticeKind::Budget).collect();
    assert_eq!(about.len(), 1, "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tenants_budget_is_shared_by_its_jobs() {
    let harness = Harness::new(&[("TENANT_BUDGET_USD", "0.04")]);
    let process = harness.start("a");
    let (first, second) = futures::future::join(finished(&process, 30), finished(&process, 31)).await;
    let mut spent = MicroUsd::default();
    for job in [&first, &second] {
        spent += process.result(job).await.metadata.cost_micro_usd;
    }
    assert!(spent <= MicroUsd(40_000) && spent >= MicroUsd(20_000), "{spent:?}");
    let tenant = TenantId::new("local");
    let month = harness.clock.now().strftime("%Y-%m").to_string();
    let found = harness.records.get(&record::tenant_expenses(&tenant, &month)).await.unwrap().unwrap();
    let expenses: Expenses = serde_json::from_str(&found.draft.body).unwrap();
    assert_eq!((expenses.spent, expenses.reservations.len()), (spent, 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_moment_leaves_nothing_reserved_and_nothing_overspent() {
    for moment in 1..=12 {
        let harness = Harness::new(&[("BUDGET_USD", "0.70"), ("WORKER_CONCURRENCY", "12")]);
        let clock: Arc<dyn Clock> = harness.clock.clone();
        harness.vision.set_behaviour(|target, page| {
            Reply::AnswerAfter(Duration::from_millis(150 + u64::from(page % 5) * 80), read_by(target, page))
        });
        let first = harness.start("a");
        let id = first.submit(&FakeDocument::graphics(40)).await.unwrap().job.id;
        first.kill_after(&id, Duration::from_millis(90 * moment)).await;
        drop(first);
        let second = harness.start("b");
        let job = second.finish(&id).await;
        invariants::result_is_whole(&second.app, &job, 40).await;
        // Reservations of the killed process end by themselves.
        clock.sleep(Duration::from_secs(600)).await;
        let expenses = expenses(&harness, &job.id).await;
        assert!(expenses.reservations.is_empty(), "{expenses:?}");
        assert!(expenses.spent <= MicroUsd(700_000), "{expenses:?}");
        let recorded = second.result(&job).await.metadata.cost_micro_usd;
        assert!(recorded <= expenses.spent && recorded >= MicroUsd(CALL), "{recorded:?} of {expenses:?}");
    }
}

/// Records at which other tasks come in between any two accesses, and which check after each write that no budget is
/// overrun.
struct Crowded {
    inner: Arc<dyn Records>,
    /// How many other tasks come in between is drawn from it.
    turns: AtomicU64,
    limits: [(Key, MicroUsd); 2],
}

impl Crowded {
    async fn wait_for_others(&self) {
        let turn = self.turns.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        for _ in 0..(turn >> 61) {
            tokio::task::yield_now().await;
        }
    }

    async fn expenses(&self, key: &Key) -> Expenses {
        let item = self.inner.get(key).await.unwrap();
        item.map(|item| serde_json::from_str(&item.draft.body).unwrap()).unwrap_or_default()
    }

    async fn check(&self) {
        for (key, limit) in &self.limits {
            let expenses = self.expenses(key).await;
            let reserved: u64 = expenses.reservations.iter().map(|reservation| reservation.amount.0).sum();
            assert!(expenses.spent.0 + reserved <= limit.0, "{expenses:?} of {limit:?}");
        }
    }
}

#[async_trait]
impl Records for Crowded {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.wait_for_others().await;
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.wait_for_others().await;
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
        self.wait_for_others().await;
        let written = self.inner.write(batch).await;
        self.check().await;
        written
    }
}

/// The longest time that a call may take.
const CALL_TIME: Duration = Duration::from_secs(10);

/// One call of a page, from its reservation on.
#[derive(Clone, Debug)]
struct PaidCall {
    starts_ms: u64,
    takes_ms: u64,
    most: u64,
    least_percent: u64,
    /// Of what was granted; `None` where the worker dies.
    cost_percent: Option<u64>,
}

fn calls() -> impl Strategy<Value = Vec<PaidCall>> {
    let dies_or_costs = prop_oneof![1 => Just(None), 4 => (0..=100u64).prop_map(Some)];
    let call = (0..3000u64, 0..9000u64, 0..500u64, 0..=100u64, dies_or_costs).prop_map(
        |(starts_ms, takes_ms, most, least_percent, cost_percent)| PaidCall {
            starts_ms,
            takes_ms,
            most,
            least_percent,
            cost_percent,
        },
    );
    prop::collection::vec(call, 1..32)
}

/// Makes one call. Returns what it cost, or what it could have cost at most where its worker died.
async fn pay(store: Store, budgets: Budgets, call: PaidCall) -> u64 {
    let wanted = Wanted { most: MicroUsd(call.most), least: MicroUsd(call.most * call.least_percent / 100) };
    store.clock.sleep(Duration::from_millis(call.starts_ms)).await;
    let ReserveOutcome::Granted(granted) =
        expenses::reserve(&store, &budgets, wanted, CALL_TIME).await.unwrap()
    else {
        return 0;
    };
    assert!((wanted.least..=wanted.most).contains(&granted.amount), "{granted:?} for {wanted:?}");
    store.clock.sleep(Duration::from_millis(call.takes_ms)).await;
    let Some(percent) = call.cost_percent else { return granted.amount.0 };
    let cost = granted.amount.0 * percent / 100;
    expenses::settle(&store, &granted, MicroUsd(cost)).await.unwrap();
    cost
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However calls come in between each other, and whatever they cost or leave behind: a job's and a tenant's budget
    /// are never overrun, and in the end they hold what the calls cost, and nothing else.
    #[test]
    fn calls_at_once_never_overrun_a_budget_and_leave_nothing_reserved(
        of_job in 0..4000u64,
        of_month in 0..4000u64,
        turns: u64,
        calls in calls(),
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let harness = Harness::new(&[]);
            let (job, tenant) = (JobId::new("job"), TenantId::new("local"));
            let now = harness.clock.now();
            let month = now.strftime("%Y-%m").to_string();
            let (of_job, of_month) = (MicroUsd(of_job), MicroUsd(of_month));
            let limits =
                [(record::job_expenses(&job), of_job), (record::tenant_expenses(&tenant, &month), of_month)];
            let records = Arc::new(Crowded {
                inner: harness.records.clone(),
                turns: turns.into(),
                limits: limits.clone(),
            });
            let process = harness.start_on("a", records.clone());
            let store = &process.app.store;
            let budgets = Budgets::new((&job, Some(of_job)), (&tenant, Some(of_month)), now);
            let paid: Vec<_> =
                calls.into_iter().map(|call| tokio::spawn(pay(store.clone(), budgets.clone(), call))).collect();
            let mut cost = 0;
            for paid in paid {
                cost += paid.await.unwrap();
            }
            // Reservations of dead workers end by themselves, and the next call finds that.
            harness.advance(Duration::from_secs(120)).await;
            let nothing = Wanted { most: MicroUsd(0), least: MicroUsd(0) };
            match expenses::reserve(store, &budgets, nothing, CALL_TIME).await.unwrap() {
                ReserveOutcome::Granted(granted) => expenses::settle(store, &granted, MicroUsd(0)).await.unwrap(),
                other => panic!("{other:?}"),
            }
            for (key, _) in &limits {
                let expenses = records.expenses(key).await;
                assert!(expenses.reservations.is_empty(), "{expenses:?}");
                assert_eq!(expenses.spent, MicroUsd(cost), "{key:?}");
            }
        });
    }
}
