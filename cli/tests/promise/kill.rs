//! `kill -9` at random moments, repeatedly: every accepted job still ends with every page.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use everypage_core::{ports::records::Records, read::pages::Page};
use everypage_local::{Database, SqliteRecords};
use everypage_testkit::sample_pdf;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, bounded};

const PAGES: u32 = 40;

/// A seeded random number generator, so that a failing run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Pages whose AI text is stored by now.
async fn stored(bench: &Bench) -> BTreeSet<u32> {
    let path = bench.folder.path().join("data/everypage.db");
    if !path.exists() {
        return BTreeSet::new();
    }
    let Ok(database) = Database::open(&path) else { return BTreeSet::new() };
    let records = SqliteRecords::new(database);
    let jobs = records.list_index(everypage_core::ports::records::Index::Tenant, "jobs#local", None, true, 1);
    let Some(job) = jobs.await.unwrap().items.into_iter().next() else { return BTreeSet::new() };
    let listing = records.list(&job.draft.key.partition, "page#", None, 1000).await.unwrap();
    listing
        .items
        .iter()
        .map(|item| serde_json::from_str::<Page>(&item.draft.body).unwrap())
        .filter(|page| page.outcome.as_ref().is_some_and(|outcome| outcome.is_ai()))
        .map(|page| page.page.get())
        .collect()
}

/// Kills the program a few times, at moments that the seed decides, then lets it finish.
async fn killed_and_restarted(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let bench = Bench::new(&["answer;delay=60ms"])
        .await
        .with("MAX_INFLIGHT_PER_MODEL", "4")
        .with("JOB_TIMEOUT", "60s")
        .with("IMAGE_DPI", "30")
        .with("RANGE_PAGES", "8");
    let file = bench.path("report.pdf");
    std::fs::write(&file, sample_pdf::with_pictures(PAGES)).unwrap();
    let args = ["process", &file, "-o", &bench.path("out"), "--format", "json", "--quiet"];
    let mut calls_before = 0;
    let mut paid: BTreeSet<u32> = BTreeSet::new();
    for _ in 0..1 + random.below(6) {
        let mut child = bench.start(&args);
        let after = Duration::from_millis(random.below(700));
        // Either the time passes or the program ends by itself.
        if tokio::time::timeout(after, child.wait()).await.is_err() {
            let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            bounded(child.wait()).await.unwrap();
        }
        check_not_paid_again(&bench, seed, &paid, &mut calls_before);
        paid = stored(&bench).await;
    }
    let ran = bench.run(&args).await;
    assert_eq!(ran.code, 0, "seed {seed}: {}", ran.stderr);
    check_not_paid_again(&bench, seed, &paid, &mut calls_before);

    let result: serde_json::Value = serde_json::from_str(&bench.read("out/report.json")).unwrap();
    let pages: Vec<u64> =
        result["pages"].as_array().unwrap().iter().map(|page| page["page"].as_u64().unwrap()).collect();
    assert_eq!(pages, (1..=u64::from(PAGES)).collect::<Vec<_>>(), "seed {seed}: each page once, in order");
    for page in result["pages"].as_array().unwrap() {
        assert_eq!(page["source"], "ai", "seed {seed}: {page}");
        let chapter = format!("Chapter {}", page["page"]);
        assert!(
            page["text"].as_str().unwrap().contains(&chapter),
            "seed {seed}: {chapter} has another page's text"
        );
    }
    let job = bench.job().await;
    let shown = bench.run(&["jobs", "show", &job, "--json"]).await.json();
    let time = |field: &str| shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time("finished_at") <= time("deadline"), "seed {seed}: over its deadline");
    let verified = bench.run(&["events", "verify", &job]).await;
    assert_eq!(verified.code, 0, "seed {seed}: {}{}", verified.stdout, verified.stderr);
}

/// No call after `calls_before` is for a page whose text was stored by then.
fn check_not_paid_again(bench: &Bench, seed: u64, paid: &BTreeSet<u32>, calls_before: &mut usize) {
    let calls = bench.provider.calls();
    let mut again: HashMap<u32, usize> = HashMap::new();
    for page in calls[*calls_before..].iter().filter_map(|call| call.page) {
        if paid.contains(&page) {
            *again.entry(page).or_default() += 1;
        }
    }
    assert!(again.is_empty(), "seed {seed}: stored pages were sent to a model again: {again:?}");
    *calls_before = calls.len();
}

macro_rules! seeds {
    ($($name:ident: $seeds:expr;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                for seed in $seeds {
                    killed_and_restarted(seed).await;
                }
            }
        )+
    };
}

seeds! {
    killed_at_random_seeds_0_to_4: 0..5;
    killed_at_random_seeds_5_to_9: 5..10;
    killed_at_random_seeds_10_to_14: 10..15;
    killed_at_random_seeds_15_to_19: 15..20;
    killed_at_random_seeds_20_to_24: 20..25;
}
