//! Puts the adapters together.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "aws")]
use everypage_core::providers::target::Provider;
use everypage_core::{
    app::Outside,
    ports::traces::{NoTraces, Traces},
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_outbound::{HttpPayments, HttpWebhooks, OtlpLogs, OtlpTraces, SetupError, notifiers};
use everypage_pdf::{ChildCommand, IsolatedPdf, OcrProgram, TesseractOcr};
use everypage_system::SystemClock;
use everypage_vision::HttpVision;

use super::terminal::TerminalNotifier;
use crate::{problem::Problem, screen::Screen};

/// Opens the local backend over `folder`, without running it.
pub async fn open_local(
    settings: &Settings,
    folder: &Path,
    traces: Arc<dyn Traces>,
) -> Result<LocalBackend, Problem> {
    Ok(LocalBackend::open(folder, settings.clone(), outside(settings, traces).await?).await?)
}

/// Like [`open_local`], and shows notices on `screen`, if it is a terminal.
pub async fn open_to_serve(
    settings: &Settings,
    folder: &Path,
    traces: Arc<dyn Traces>,
    screen: &Screen,
) -> Result<LocalBackend, Problem> {
    let mut outside = outside(settings, traces).await?;
    if std::io::stderr().is_terminal() {
        outside.notifiers.push(Arc::new(TerminalNotifier(screen.clone())));
    }
    Ok(LocalBackend::open(folder, settings.clone(), outside).await?)
}

/// The PDF parser, and the clients of everything outside of the backend.
pub async fn outside(settings: &Settings, traces: Arc<dyn Traces>) -> Result<Outside, Problem> {
    let failed = |error: SetupError| Problem::Failed(error.to_string());
    Ok(Outside {
        pdf: Arc::new(pdf(settings)?),
        ocr: Arc::new(ocr()?),
        vision: Arc::new(vision(settings).await?),
        hooks: Arc::new(HttpWebhooks::new(settings.webhook_allow_private).map_err(failed)?),
        payments: Arc::new(HttpPayments::from_settings(settings).map_err(failed)?),
        traces,
        notifiers: notifiers(&settings.notify, Arc::new(SystemClock)).map_err(failed)?,
    })
}

pub fn logs(settings: &Settings) -> Result<Option<OtlpLogs>, Problem> {
    OtlpLogs::from_settings(settings, "everypage").map_err(|error| Problem::Usage(error.to_string()))
}

pub fn traces(settings: &Settings) -> Result<Arc<dyn Traces>, Problem> {
    let otlp = OtlpTraces::from_settings(settings, "everypage")
        .map_err(|error| Problem::Usage(error.to_string()))?;
    Ok(otlp.map_or_else(|| Arc::new(NoTraces) as Arc<dyn Traces>, |otlp| Arc::new(otlp)))
}

/// Parses PDFs in child processes of this program.
pub fn pdf(settings: &Settings) -> Result<IsolatedPdf, Problem> {
    Ok(IsolatedPdf::new(ChildCommand::new(own_program()?).arg("pdf-child"), settings.pdf))
}

/// Recognizes pages with the program `everypage-ocr`, which is next to this one, or is built when it is first needed.
pub fn ocr() -> Result<TesseractOcr, Problem> {
    let own = std::env::current_exe()
        .map_err(|error| Problem::Failed(format!("this program's own file can't be found: {error}")))?;
    let mut program = OcrProgram::new(own.with_file_name("everypage-ocr"));
    if let Some(data) = variable("TESSDATA_PREFIX") {
        program = program.with_data(data);
    }
    // Set by the launcher of a checkout.
    if let Some(builder) = variable("EVERYPAGE_OCR_BUILDER") {
        program = program.built_by(builder);
    }
    Ok(TesseractOcr::new(program))
}

/// Fails when a setting of a provider is wrong.
pub async fn vision(settings: &Settings) -> Result<HttpVision, Problem> {
    let vision = HttpVision::from_settings(settings).map_err(|error| Problem::Usage(error.to_string()))?;
    // To look for credentials takes time: only where Bedrock is used.
    #[cfg(feature = "aws")]
    if settings.failover_order().providers().contains(&Provider::Bedrock)
        && let Some(signer) = everypage_aws::Clients::connect(None, None).await.signer()
    {
        return Ok(vision.with_signer(Arc::new(signer)));
    }
    Ok(vision)
}

#[expect(clippy::disallowed_methods, reason = "the folder of Tesseract and the launcher's are no settings")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The file of this program, even after an update replaced it.
pub fn own_program() -> Result<PathBuf, Problem> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
        .map_err(|error| Problem::Failed(format!("this program's own file can't be found: {error}")))
}
