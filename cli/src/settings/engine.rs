//! The adapters, put together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everypage_core::{
    config::{EngineSettings, Settings},
    domain::target::Provider,
};
use everypage_local::Engine;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_providers::{Prices, ProviderSettings, Providers};

use crate::problem::Problem;

/// The engine over `folder`. Nothing runs yet.
pub async fn open_engine(settings: &Settings, folder: &Path) -> Result<Engine, Problem> {
    let vision = Arc::new(providers(settings)?);
    let pdf = IsolatedPdf::new(ChildCommand::new(own_program()?).arg("pdf-child"), settings.pdf);
    Ok(Engine::open(folder, settings.clone(), Arc::new(pdf), vision).await?)
}

/// What is wrong here is wrong with a setting.
pub fn providers(settings: &Settings) -> Result<Providers, Problem> {
    let engine = |provider| settings.engines.iter().find(|engine| engine.provider == provider);
    let mut adapter = everypage_providers::Settings::new(
        access(Provider::OpenAi, engine(Provider::OpenAi)),
        access(Provider::Anthropic, engine(Provider::Anthropic)),
    );
    adapter.prices = Prices::parse(&settings.model_prices)
        .map_err(|error| Problem::Usage(format!("MODEL_PRICES can't be used: {error}")))?;
    Providers::new(adapter).map_err(|error| Problem::Usage(error.to_string()))
}

fn access(provider: Provider, engine: Option<&EngineSettings>) -> ProviderSettings {
    let key = engine.and_then(|engine| engine.api_key.clone());
    let mut access = ProviderSettings::official(provider, key);
    if let Some(url) = engine.and_then(|engine| engine.base_url.clone()) {
        access.base_url = url;
    }
    access
}

/// This very program, even where its file was replaced by an update since it was started.
fn own_program() -> Result<PathBuf, Problem> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
        .map_err(|error| Problem::Failed(format!("this program's own file can't be found: {error}")))
}
