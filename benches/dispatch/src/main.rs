//! What dispatching a page costs when the model answers at once, beside what the disk can do.

mod disk;
mod engine;

use std::{path::PathBuf, sync::Arc, time::Instant};

use anyhow::Context;
use everypage_core::{ports::vision::Vision, providers::target::Provider, secret::Secret};
use everypage_system::SystemClock;
use everypage_testkit::{
    provider::{Behaviour, Script, ScriptedProvider},
    vision::FakeVision,
};
use everypage_vision::{HttpVision, ProviderAccess, VisionSettings};

use engine::{Caps, Measured, measure};

const PAGES: u32 = 2_000;
/// Durable operations that are timed for the comparison.
const DURABLE: u32 = 1_000;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let pages = args.next().map_or(Ok(PAGES), |text| text.parse()).context("PAGES is a number")?;
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);

    let commits = disk::commits_per_second(&folder, DURABLE)?;
    let writes = disk::writes_per_second(&folder, DURABLE)?;
    println!(
        "This disk, one after the other: {commits:.0} SQLite commits/s (WAL, synchronous=FULL, one row each)"
    );
    println!("                                {writes:.0} writes of 1 kB with fsync/s\n");
    println!(
        "{pages} pages{:19} pages/s  ms/page  CPU ms/page  commits/page  pages per disk commit  per fsync",
        ""
    );

    let at_once: Arc<dyn Vision> = Arc::new(FakeVision::healthy(Arc::new(SystemClock)));
    let provider = ScriptedProvider::start(Script::always(Behaviour::Answer)).await?;
    let base_url = provider.openai_base_url();
    let access = ProviderAccess { base_url, api_key: Some(Secret::new("key")) };
    let http: Arc<dyn Vision> = Arc::new(HttpVision::new(VisionSettings::new([(Provider::OpenAi, access)]))?);
    for (name, caps, vision) in [
        ("at once, 8 workers, 8 calls", Caps { workers: 8, calls: 8 }, &at_once),
        ("at once, 8 workers, 2 calls", Caps { workers: 8, calls: 2 }, &at_once),
        // The provider runs in this process too: its share of the CPU is in the figure.
        ("HTTP, 8 workers, 8 calls", Caps { workers: 8, calls: 8 }, &http),
    ] {
        let Measured { wall, cpu, commits: made } = measure(&folder, caps, pages, vision.clone()).await?;
        let (count, rate) = (f64::from(pages), f64::from(pages) / wall.as_secs_f64());
        println!(
            "{name:28} {rate:8.0} {:8.2} {:12.2} {:13.2} {:22.3} {:10.3}",
            wall.as_secs_f64() * 1e3 / count,
            cpu.as_secs_f64() * 1e3 / count,
            made as f64 / count,
            rate / commits,
            rate / writes,
        );
    }
    Ok(())
}
