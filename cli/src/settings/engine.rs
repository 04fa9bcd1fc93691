//! The adapters, put together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everypage_core::{
    config::Settings,
    ports::traces::{NoTraces, Traces},
};
use everypage_local::Engine;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_providers::{HttpHooks, OtlpTraces, Providers};

use crate::problem::Problem;

/// The engine over `folder`. Nothing runs yet.
pub async fn open_engine(
    settings: &Settings,
    folder: &Path,
    traces: Arc<dyn Traces>,
) -> Result<Engine, Problem> {
    let vision = Arc::new(providers(settings)?);
    let hooks = Arc::new(hooks(settings)?);
    Ok(Engine::open(folder, settings.clone(), Arc::new(pdf(settings)?), vision, hooks, traces).await?)
}

pub fn traces(settings: &Settings) -> Result<Arc<dyn Traces>, Problem> {
    let otlp = OtlpTraces::of(settings, "everypage").map_err(|error| Problem::Usage(error.to_string()))?;
    Ok(otlp.map_or_else(|| Arc::new(NoTraces) as Arc<dyn Traces>, |otlp| Arc::new(otlp)))
}

/// PDFs are read by children of this program.
pub fn pdf(settings: &Settings) -> Result<IsolatedPdf, Problem> {
    Ok(IsolatedPdf::new(ChildCommand::new(own_program()?).arg("pdf-child"), settings.pdf))
}

pub fn hooks(settings: &Settings) -> Result<HttpHooks, Problem> {
    HttpHooks::new(settings.webhook_allow_private).map_err(|error| Problem::Failed(error.to_string()))
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
