//! One run of the real local backend over its own folder.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use everypage_core::{
    app::Outside,
    event::{Aggregate, Event},
    events::trail,
    ids::TenantId,
    intake::submit::{Submission, submit},
    job::{JobOptions, RequestSource},
    ports::{ocr::NoOcr, traces::NoTraces, vision::Vision},
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_testkit::{
    memory::{MemoryPayments, RecordingHooks},
    pdf::{FakeDocument, FakePdf},
};

#[derive(Clone, Copy)]
pub struct Limits {
    pub workers: u32,
    pub calls: u32,
}

/// The work from the approved plan to the last settled page.
pub struct Measured {
    pub wall: Duration,
    /// CPU time of the whole process.
    pub cpu: Duration,
    pub commits: u64,
}

/// Processor time and memory of this process so far.
struct Usage {
    cpu: Duration,
    commits: u64,
}

impl Usage {
    fn now(backend: &LocalBackend) -> anyhow::Result<Self> {
        // Fields 14 and 15, in hundredths of a second, counted from after the name in parentheses.
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat")?;
        let ticks: u64 =
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Self { cpu: Duration::from_millis(ticks * 10), commits: backend.commits() })
    }
}

fn settings(limits: Limits) -> anyhow::Result<Settings> {
    let read = Settings::read(|name| {
        Some(match name {
            "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => "key".into(),
            "WORKER_CONCURRENCY" => limits.workers.to_string(),
            "MAX_INFLIGHT_PER_MODEL" => limits.calls.to_string(),
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
    limits: Limits,
    pages: u32,
    vision: Arc<dyn Vision>,
) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir_in(folder)?;
    let backend = LocalBackend::open(
        &folder.path().join("data"),
        settings(limits)?,
        Outside {
            pdf: Arc::new(FakePdf::default()),
            ocr: Arc::new(NoOcr),
            vision,
            hooks: Arc::new(RecordingHooks::default()),
            payments: Arc::new(MemoryPayments::default()),
            notifiers: vec![],
            traces: Arc::new(NoTraces),
        },
    )
    .await?;
    let file = folder.path().join("document");
    std::fs::write(&file, FakeDocument::graphics(pages).bytes())?;
    let submission = Submission {
        tenant: TenantId::new("local"),
        user: None,
        source: RequestSource::Cli,
        name: "document".into(),
        file,
        password: None,
        options: JobOptions::from_settings(&backend.app.settings),
        traceparent: None,
        idempotency_key: None,
    };
    let mut events = backend.bus.subscribe();
    let work = async {
        let id = submit(&backend.app.intake, submission).await?.job.id;
        // The event is published a moment after it was stored; usage in between is not counted.
        while events.recv().await?.kind != "job.approved" {}
        let before = Usage::now(&backend)?;
        let job = backend.wait_for(&id).await?;
        let after = Usage::now(&backend)?;
        let read = job.result.map_or(0, |result| result.metadata.final_ai_pages);
        anyhow::ensure!(read == pages, "{read} pages of {pages} were read");
        let trail = trail::read(&backend.app.store, &Aggregate::Job(id.clone())).await?;
        let approved = trail.iter().find(|event| event.kind == "job.approved").context("approved")?;
        let settled = trail::read_pages(&backend.app.store, &id).await?;
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
        ended = backend.run() => bail!("the backend stopped: {ended:?}"),
    }
}
