//! One run of the real engine over a folder of its own.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use everypage_core::{
    app::Outside,
    event::{Aggregate, Event},
    events::trail,
    ids::TenantId,
    intake::submit::{Submission, submit},
    job::JobOptions,
    ports::{traces::NoTraces, vision::Vision},
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_testkit::{
    memory::{MemoryPayments, RecordingHooks},
    pdf::{FakeDocument, FakePdf},
};

#[derive(Clone, Copy)]
pub struct Caps {
    pub workers: u32,
    pub calls: u32,
}

/// From the approved plan to the last page settled.
pub struct Measured {
    pub wall: Duration,
    /// Of the whole process, over the same stretch.
    pub cpu: Duration,
    pub commits: u64,
}

/// What this process has used so far: at one point of a run, and of the wall clock at another.
struct Used {
    cpu: Duration,
    commits: u64,
}

impl Used {
    fn now(engine: &LocalBackend) -> anyhow::Result<Self> {
        // In hundredths of a second, fields 14 and 15, counted after the name in parentheses.
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat")?;
        let ticks: u64 =
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Self { cpu: Duration::from_millis(ticks * 10), commits: engine.commits() })
    }
}

fn settings(caps: Caps) -> anyhow::Result<Settings> {
    let read = Settings::read(|name| {
        Some(match name {
            "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => "key".into(),
            "WORKER_CONCURRENCY" => caps.workers.to_string(),
            "MAX_INFLIGHT_PER_MODEL" => caps.calls.to_string(),
            "JOB_TIMEOUT" => "1h".into(),
            _ => return None,
        })
    });
    match read {
        Ok(reading) => Ok(reading.settings),
        Err(faults) => bail!("{}", faults.join("; ")),
    }
}

pub async fn measure(
    folder: &Path,
    caps: Caps,
    pages: u32,
    vision: Arc<dyn Vision>,
) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir_in(folder)?;
    let engine = LocalBackend::open(
        &folder.path().join("data"),
        settings(caps)?,
        Outside {
            pdf: Arc::new(FakePdf::default()),
            vision,
            hooks: Arc::new(RecordingHooks::default()),
            payments: Arc::new(MemoryPayments::default()),
            traces: Arc::new(NoTraces),
        },
    )
    .await?;
    let file = folder.path().join("document");
    std::fs::write(&file, FakeDocument::graphics(pages).bytes())?;
    let submission = Submission {
        tenant: TenantId::new("local"),
        user: None,
        source: "bench".into(),
        name: "document".into(),
        file,
        password: None,
        options: JobOptions::from_settings(&engine.app.settings),
        traceparent: None,
        idempotency_key: None,
    };
    let mut events = engine.bus.subscribe();
    let work = async {
        let id = submit(&engine.app.intake, submission).await?.job.id;
        // Published a moment after it was stored: what is used in between is not counted.
        while events.recv().await?.kind != "job.approved" {}
        let before = Used::now(&engine)?;
        let job = engine.wait_for(&id).await?;
        let after = Used::now(&engine)?;
        let read = job.result.map_or(0, |result| result.metadata.final_ai_pages);
        anyhow::ensure!(read == pages, "{read} pages of {pages} were read");
        let trail = trail::read(&engine.app.store, &Aggregate::Job(id.clone())).await?;
        let approved = trail.iter().find(|event| event.kind == "job.approved").context("approved")?;
        let settled = trail::read_pages(&engine.app.store, &id).await?;
        let last = settled.iter().map(|event: &Event| event.timestamp).max().context("settled")?;
        let wall = Duration::try_from(last.duration_since(approved.timestamp))?;
        Ok(Measured {
            wall,
            cpu: after.cpu.saturating_sub(before.cpu),
            commits: after.commits - before.commits,
        })
    };
    tokio::select! {
        measured = work => measured,
        ended = engine.run() => bail!("the engine stopped: {ended:?}"),
    }
}
