//! One measurement: one method of reading, one kind of work, one file.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use everypage_core::{
    document::{ImageStyle, Reason},
    ids::{PageNumber, TenantId},
    ports::pdf::{Pdf, PdfLimits, PdfSource, ReadOptions, RenderPages},
};
use everypage_pdf::{ChildCommand, Document, IsolatedPdf, ReadMode};
use serde::{Deserialize, Serialize};

/// More than the file of a benchmark needs to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Pages per read call, as in intake.
const RANGE: usize = 100;

#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub pages: u32,
    pub wall_seconds: f64,
    /// CPU time of this process and its children.
    pub cpu_seconds: f64,
    pub peak_mb: f64,
    /// Characters of text and bytes of images, which show that the work was done.
    pub text_chars: u64,
    pub image_bytes: u64,
    /// Resident megabytes after each tenth of the pages; of the children, if there are any.
    pub memory_mb: Vec<u64>,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

pub fn run(method: &str, work: &str, file: &Path) -> anyhow::Result<Measured> {
    let render = match work {
        "text" => None,
        "classify" => Some(RenderPages::None),
        "render" => Some(RenderPages::All),
        _ => bail!("unknown work {work}"),
    };
    // The start of the process (and imports in Python) is not counted.
    let (started, cpu_before) = (now(), cpu_seconds()?);
    let mut measured = match method {
        "here" => here(file, render)?,
        "isolated" => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(isolated(file, render.context("the port always classifies")?))?,
        _ => bail!("unknown method {method}"),
    };
    measured.wall_seconds = started.elapsed().as_secs_f64();
    measured.cpu_seconds = cpu_seconds()? - cpu_before;
    Ok(measured)
}

fn options(render: RenderPages) -> ReadOptions {
    ReadOptions { render, style: ImageStyle::default() }
}

fn here(file: &Path, render: Option<RenderPages>) -> anyhow::Result<Measured> {
    let document = Document::open(file, None, &PdfLimits::default())?;
    let mut measured = Measured::of(document.page_count());
    for number in 1..=document.page_count() {
        let page = PageNumber::new(number).context("pages count from 1")?;
        match render {
            None => measured.text_chars += document.text(page).map_or(0, |text| text.chars().count()) as u64,
            Some(render) => measured.add(&document.read_page(page, &options(render), ReadMode::Normal)),
        }
        if number % (document.page_count() / 10).max(1) == 0 {
            measured.memory_mb.push(status_mb("self", "VmRSS:")? as u64);
        }
    }
    measured.peak_mb = status_mb("self", "VmHWM:")?;
    Ok(measured)
}

async fn isolated(file: &Path, render: RenderPages) -> anyhow::Result<Measured> {
    let command = ChildCommand::new(std::env::current_exe()?).arg("pdf-child");
    let reader = IsolatedPdf::new(command, PdfLimits::default());
    let tenant = TenantId::new("benchmark");
    let source = PdfSource { file, password: None, tenant: &tenant };
    let count = reader.inspect(source, OPEN_TIMEOUT).await?;
    let pages: Vec<PageNumber> = (1..=count).filter_map(PageNumber::new).collect();
    let mut measured = Measured::of(count);
    let mut children = BTreeMap::new();
    for range in pages.chunks(RANGE) {
        for reading in reader.read(source, range, &options(render)).await? {
            measured.add(&reading);
        }
        let mut resident = 0.0;
        for pid in child_pids()? {
            resident += status_mb(&pid, "VmRSS:").unwrap_or(0.0);
            if let Ok(peak) = status_mb(&pid, "VmHWM:") {
                children.insert(pid, peak);
            }
        }
        measured.memory_mb.push(resident as u64);
    }
    let step = measured.memory_mb.len().div_ceil(10).max(1);
    measured.memory_mb = measured.memory_mb.iter().copied().step_by(step).collect();
    // Replaced children did not run at the same time, so only the largest one per slot counts.
    let mut peaks: Vec<f64> = children.into_values().collect();
    peaks.sort_by(|a, b| b.total_cmp(a));
    peaks.truncate(std::thread::available_parallelism()?.get());
    measured.peak_mb = peaks.iter().sum::<f64>() + status_mb("self", "VmHWM:")?;
    drop(reader);
    // The CPU time of children counts only after they have been waited for.
    for _ in 0..200 {
        if child_pids()?.is_empty() {
            break;
        }
        let _ = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
    }
    Ok(measured)
}

/// Reads every PDF of a folder through the port, and prints how each page was classified.
pub fn corpus(directory: &Path) -> anyhow::Result<()> {
    let command = ChildCommand::new(std::env::current_exe()?).arg("pdf-child");
    let reader = IsolatedPdf::new(command, PdfLimits::default());
    let mut files: Vec<_> =
        std::fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut totals: BTreeMap<String, u32> = BTreeMap::new();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let started = now();
            let answer = async {
                let tenant = TenantId::new("benchmark");
                let source = PdfSource { file: &file, password: None, tenant: &tenant };
                let count = reader.inspect(source, OPEN_TIMEOUT).await?;
                let pages: Vec<PageNumber> = (1..=count.min(50)).filter_map(PageNumber::new).collect();
                reader.read(source, &pages, &options(RenderPages::Graphics)).await
            };
            match answer.await {
                Err(error) => {
                    *totals.entry(format!("refused: {}", error.code())).or_default() += 1;
                    println!("{name}\t-\t{error}");
                }
                Ok(readings) => {
                    for reading in readings {
                        *totals.entry(format!("{:?}", reading.reason)).or_default() += 1;
                        let fault = reading.fault.unwrap_or_default();
                        let chars = reading.text.chars().count();
                        println!("{name}\t{}\t{:?}\t{chars}\t{fault}", reading.number, reading.reason);
                        if reading.reason == Reason::Unreadable {
                            *totals.entry(format!("Unreadable: {fault}")).or_default() += 1;
                        }
                    }
                }
            }
            if started.elapsed() > Duration::from_secs(3) {
                println!("{name}\tslow\t{:.1} s", started.elapsed().as_secs_f64());
            }
        }
    });
    for (what, count) in totals {
        println!("TOTAL\t{count}\t{what}");
    }
    Ok(())
}

impl Measured {
    fn of(pages: u32) -> Self {
        Self {
            pages,
            wall_seconds: 0.0,
            cpu_seconds: 0.0,
            peak_mb: 0.0,
            text_chars: 0,
            image_bytes: 0,
            memory_mb: Vec::new(),
        }
    }

    fn add(&mut self, reading: &everypage_core::document::PageReading) {
        self.text_chars += reading.text.chars().count() as u64;
        self.image_bytes += reading.image.as_ref().map_or(0, |image| image.bytes.len() as u64);
    }
}

/// User and system time of this process and of its children that have ended, in clock ticks of 10 ms.
fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after) = stat.rsplit_once(')').context("unexpected format of /proc/self/stat")?;
    let fields = after.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / 100.0)
}

fn status_mb(pid: &str, field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
    let kilobytes: f64 = line.split_whitespace().next().context("no number")?.parse()?;
    Ok(kilobytes / 1024.0)
}

fn child_pids() -> anyhow::Result<Vec<String>> {
    let mut pids = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let list = std::fs::read_to_string(task?.path().join("children"))?;
        pids.extend(list.split_whitespace().map(str::to_owned));
    }
    Ok(pids)
}
