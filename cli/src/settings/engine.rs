//! The adapters, put together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everypage_core::{
    app::Outside,
    config::Settings,
    ports::traces::{NoTraces, Traces},
};
use everypage_local::LocalBackend;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_providers::{HttpHooks, HttpPayments, OtlpTraces, Providers, SettingsError};

use crate::problem::Problem;

/// The engine over `folder`. Nothing runs yet.
pub async fn open_engine(
    settings: &Settings,
    folder: &Path,
    traces: Arc<dyn Traces>,
) -> Result<LocalBackend, Problem> {
    Ok(LocalBackend::open(folder, settings.clone(), outside(settings, traces)?).await?)
}

/// Whoever reads, and whom this program speaks to.
pub fn outside(settings: &Settings, traces: Arc<dyn Traces>) -> Result<Outside, Problem> {
    let failed = |error: SettingsError| Problem::Failed(error.to_string());
    Ok(Outside {
        pdf: Arc::new(pdf(settings)?),
        vision: Arc::new(providers(settings)?),
        hooks: Arc::new(HttpHooks::new(settings.webhook_allow_private).map_err(failed)?),
        payments: Arc::new(HttpPayments::of(settings).map_err(failed)?),
        traces,
    })
}

pub fn traces(settings: &Settings) -> Result<Arc<dyn Traces>, Problem> {
    let otlp = OtlpTraces::of(settings, "everypage").map_err(|error| Problem::Usage(error.to_string()))?;
    Ok(otlp.map_or_else(|| Arc::new(NoTraces) as Arc<dyn Traces>, |otlp| Arc::new(otlp)))
}

/// PDFs are read by children of this program.
pub fn pdf(settings: &Settings) -> Result<IsolatedPdf, Problem> {
    Ok(IsolatedPdf::new(ChildCommand::new(own_program()?).arg("pdf-child"), settings.pdf))
}

/// What is wrong here is wrong with a setting.
pub fn providers(settings: &Settings) -> Result<Providers, Problem> {
    let adapter = everypage_providers::Settings::of(settings)
        .map_err(|error| Problem::Usage(format!("MODEL_PRICES can't be used: {error}")))?;
    Providers::new(adapter).map_err(|error| Problem::Usage(error.to_string()))
}

/// This very program, even where its file was replaced by an update since it was started.
pub fn own_program() -> Result<PathBuf, Problem> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
        .map_err(|error| Problem::Failed(format!("this program's own file can't be found: {error}")))
}
