//! The cost of dispatching a page to a model that answers immediately, compared with the limits of the disk.

mod backend;
mod disk;

use std::{path::PathBuf, sync::Arc, time::Instant};

use anyhow::Context;
use everypage_core::{ports::vision::Vision, providers::target::Provider, secret::Secret};
use everypage_system::SystemClock;
use everypage_testkit::{
    provider::{Behaviour, Script, ScriptedProvider},
    vision::FakeVision,
};
use everypage_vision::{HttpVision, ProviderAccess, VisionSettings};

use backend::{Limits, Measured, measure};

const PAGES: u32 = 2_000;
/// Durable operations that are timed for the comparison.
const DURABLE_OPERATIONS: u32 = 1_000;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let pages = args.next().map_or(Ok(PAGES), |text| text.parse()).context("PAGES is a number")?;
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);

    let commits = disk::commits_per_second(&folder, DURABLE_OPERATIONS)?;
    let writes = disk::writes_per_second(&folder, DURABLE_OPERATIONS)?;
    println!("This disk, sequentially: {commits:.0} SQLite commits/s (WAL, synchronous=FULL, one row each)");
    println!("                         {writes:.0} writes of 1 kB with fsync/s\n");
    println!(
        "{pages} pages{:22} pages/s  ms/page  CPU ms/page  commits/page  pages per disk commit  per fsync",
        ""
    );

    let immediate: Arc<dyn Vision> = Arc::new(FakeVision::healthy(Arc::new(SystemClock)));
    let provider = ScriptedProvider::start(Script::always(Behaviour::Answer)).await?;
    let base_url = provider.openai_base_url();
    let access = ProviderAccess::at(base_url, Some(Secret::new("key")));
    let http: Arc<dyn Vision> = Arc::new(HttpVision::new(VisionSettings::new([(Provider::OpenAi, access)]))?);
    for (name, limits, vision) in [
        ("in process, 8 workers, 8 calls", Limits { workers: 8, calls: 8 }, &immediate),
        ("in process, 8 workers, 2 calls", Limits { workers: 8, calls: 2 }, &immediate),
        // The provider runs in this process too, so the CPU time includes its share.
        ("HTTP, 8 workers, 8 calls", Limits { workers: 8, calls: 8 }, &http),
    ] {
        let Measured { wall, cpu, commits: used } = measure(&folder, limits, pages, vision.clone()).await?;
        let (count, rate) = (f64::from(pages), f64::from(pages) / wall.as_secs_f64());
        println!(
            "{name:31} {rate:8.0} {:8.2} {:12.2} {:13.2} {:22.3} {:10.3}",
            wall.as_secs_f64() * 1e3 / count,
            cpu.as_secs_f64() * 1e3 / count,
            used as f64 / count,
            rate / commits,
            rate / writes,
        );
    }
    Ok(())
}
