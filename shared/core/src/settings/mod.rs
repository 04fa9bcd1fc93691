//! Settings: read once, validated together, typed afterwards.
//!
//! The source of variables is an argument, so that this module never reads the process environment
//! and a test can pass any values. After [`Settings::read`] nothing else validates a setting.

mod ai_pages;
mod breaker_policy;
mod cost;
mod definitions;
mod ocr;
mod pacing;
mod reader;
mod strategy;

use std::{collections::BTreeMap, fmt, sync::LazyLock, time::Duration};

pub use ai_pages::AiPages;
pub use breaker_policy::BreakerPolicy;
pub use cost::Cost;
pub use ocr::OcrPages;
pub use pacing::{Hedging, MaxInflight, Patience};
use reader::Reader;
pub(crate) use reader::show_duration;
pub use strategy::Strategy;

use crate::{
    document::ImageStyle,
    ids::{Priority, TenantId},
    ports::pdf::PdfLimits,
    providers::{
        failover::{FailoverList, FailoverOrder},
        target::{Models, Provider, Tier},
    },
    secret::Secret,
};

/// The instructions for the models unless `AI_SYSTEM_PROMPT` is set.
pub const DEFAULT_SYSTEM_PROMPT: &str = "\
You transcribe one page of a document. Answer with the page's complete content as Markdown and nothing else: \
headings, paragraphs, lists and tables in reading order, tables as Markdown tables, formulas as LaTeX. \
Describe each figure, chart or photo in square brackets where it stands, with every number and label that can be read. \
Do not summarise, translate, correct or leave out anything, and do not repeat yourself. \
The text between the marks is what a program read from the page marked current and from its neighbours; \
use it for spelling and context, trust the image where they differ, and transcribe the current page only.";

#[derive(Clone, Debug)]
pub struct ProviderSettings {
    pub provider: Provider,
    pub models: Models,
    pub api_key: Option<Secret>,
    /// Set if calls go to another server than the provider's own.
    pub base_url: Option<String>,
    pub api_version: Option<String>,
    pub region: Option<String>,
}

impl ProviderSettings {
    /// The variables that have to be set before calls can be made.
    pub fn missing(&self) -> Vec<&'static str> {
        let rule = self.provider.profile().access;
        rule.missing(self.provider, self.api_key.is_some(), self.base_url.is_some())
    }

    pub fn is_usable(&self) -> bool {
        self.missing().is_empty()
    }
}

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub level: String,
    pub pretty: bool,
    pub file: Option<String>,
    /// The size at which the file is rotated, and how many earlier ones are kept.
    pub max_size_mb: u64,
    pub max_backups: u32,
    pub export: LogExport,
}

/// Where the log goes besides its file or terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogExport {
    #[default]
    None,
    /// To the collector of the traces.
    Otlp,
}

impl LogSettings {
    /// The log filter: Everypage from `level` on, other crates only errors, because their lower levels
    /// may log whole requests, with a document's text and a caller's key.
    pub fn filter(level: &str) -> String {
        if level == "off" { level.to_owned() } else { format!("error,everypage={level}") }
    }
}

/// How notices reach people on one machine.
#[derive(Clone, Debug, Default)]
pub struct NotifySettings {
    /// A URL that is called with each notice, signed with `secret`.
    pub webhook: Option<NotifyWebhook>,
    pub email: Option<NotifyEmail>,
}

#[derive(Clone, Debug)]
pub struct NotifyWebhook {
    pub url: Secret,
    pub secret: Secret,
}

#[derive(Clone, Debug)]
pub struct NotifyEmail {
    /// The mail server with its credentials: `smtps://user:password@host`.
    pub server: Secret,
    pub from: String,
    /// The recipient of notices of tenants whose responsible person is no e-mail address.
    pub to: String,
}

/// Export of traces; the variables are those of every OpenTelemetry program.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// URL of an OTLP collector over HTTP; nothing is traced if unset.
    pub endpoint: Option<String>,
    /// Sent with each request, for a collector that needs authentication.
    pub headers: Vec<(String, Secret)>,
    /// The service name in traces, if not the program's own.
    pub service: Option<String>,
}

/// Whether a tenant needs credits for the pages that AI reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credits {
    Unlimited,
    /// A job is rejected if the account does not cover its plan.
    Prepaid,
}

/// Settings for buying credits.
#[derive(Clone, Debug)]
pub struct Purchasing {
    /// URL of the payment service.
    pub url: String,
    pub api_key: Option<Secret>,
    /// Price of one credit, which pays for one page that AI reads.
    pub price_usd: f64,
    pub strategy: Strategy,
}

/// The variables that a tenant may override; see [`crate::tenants`].
pub static TENANT_VARIABLES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let models = Provider::ALL.iter().flat_map(|provider| provider.profile().variables.of_models());
    [
        "REQUEST_TIMEOUT",
        "STEP_TIMEOUT",
        "JOB_TIMEOUT",
        "PATIENCE",
        "PRIMARY_ENGINE",
        "SECONDARY_ENGINE",
        "FAILOVER",
    ]
    .into_iter()
    .chain(models)
    .chain([
        "MODEL_TIER",
        "AI_PAGES",
        "IMAGE_SEND_ALL_PAGES",
        "AI_SYSTEM_PROMPT",
        "CHECK_ANSWERS",
        "OCR",
        "OCR_LANGUAGES",
        "APPROVAL_THRESHOLD_USD",
        "BUDGET_USD",
        "COST",
        "TENANT_BUDGET_USD",
        "CREDITS",
        "CREDIT_PRICE_USD",
        "MAX_FILE_BYTES",
        "MAX_PAGES",
        "PRIORITY",
        "DEFAULT_RESPONSIBLE",
    ])
    .collect()
});

/// The variables as they were set, including secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variables({} set)", self.0.len())
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The variables that these settings were read from.
    pub variables: Variables,
    pub request_timeout: Duration,
    pub job_timeout: Duration,
    /// The longest time to the deadline that a caller may ask for.
    pub max_deadline: Duration,
    /// For one processing step, such as opening the document.
    pub step_timeout: Duration,
    /// All of them, those of `PRIMARY_ENGINE` and `SECONDARY_ENGINE` first.
    pub providers: Vec<ProviderSettings>,
    /// How many of them those two settings name: one if both are the same.
    pub preferred_providers: usize,
    /// Models in the order in which they are called; if empty, those of the first providers, by tier.
    pub failover: FailoverList,
    /// What jobs prefer that do not choose.
    pub cost: Cost,
    pub tier: Tier,
    pub ai_pages: AiPages,
    /// Whether answers are checked against the page's own text.
    pub check_answers: bool,
    /// Which pages are recognized by OCR, and in which languages.
    pub ocr: OcrPages,
    pub ocr_languages: Vec<String>,
    pub image: ImageStyle,
    pub image_for_all: bool,
    pub context_radius: u32,
    pub max_context_bytes: usize,
    pub max_output_tokens: u32,
    pub system_prompt: String,
    pub model_prices: String,
    /// Follows the in-flight limits if unset.
    pub worker_concurrency: Option<usize>,
    pub max_inflight_per_model: MaxInflight,
    /// Documents that are worked on at a time; see [`Settings::max_open_jobs`].
    pub open_jobs: Option<usize>,
    pub patience: Patience,
    pub hedging: Hedging,
    pub breaker: BreakerPolicy,
    pub retry_intervals: Vec<Duration>,
    /// How long an unresponsive worker keeps its page.
    pub page_visibility: Duration,
    pub max_receive_count: u32,
    /// Plans above this cost need approval; none does if unset.
    pub approval_threshold_usd: Option<f64>,
    /// What the model calls of one job may cost; unlimited if unset.
    pub budget_usd: Option<f64>,
    /// What the model calls of one tenant may cost in a month; unlimited if unset.
    pub tenant_budget_usd: Option<f64>,
    pub credits: Credits,
    /// Unset if credits can't be bought.
    pub purchasing: Option<Purchasing>,
    pub pdf: PdfLimits,
    pub range_pages: u32,
    pub tenant: String,
    /// Tenants that are allowed besides `tenant`; if empty, every tenant is.
    pub tenants: Vec<String>,
    pub responsible: Option<String>,
    pub notify: NotifySettings,
    /// The priority of jobs that set none.
    pub priority: Priority,
    pub environment: String,
    pub data_dir: Option<String>,
    /// How long the content of ended jobs is kept; without it, until it is deleted.
    pub data_retention: Option<Duration>,
    /// Whether this process drives jobs, or serves API and console only.
    pub run_dispatcher: bool,
    /// Whether `WEB_PASSWORD` is set, which protects nothing here.
    pub has_web_password: bool,
    /// Credits that a tenant gets when its account is first used.
    pub welcome_credits: u64,
    pub log: LogSettings,
    pub traces: TraceSettings,
    pub port: u16,
    /// Allows webhooks to addresses of this machine and of private networks.
    pub webhook_allow_private: bool,
    /// API requests per second that one caller may make on average; 0 for no limit.
    pub rate_limit: u32,
    /// Web pages of these origins may use the API of `serve`.
    pub cors_origins: Vec<String>,
}

/// One variable with its effective value; for `everypage config check`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: &'static str,
    /// Hidden for secrets.
    pub value: String,
    pub from_environment: bool,
    /// What it sets, in a few words; also the text in docs/settings.md.
    pub about: &'static str,
}

/// Settings, with their entries and warnings.
#[derive(Clone, Debug)]
pub struct Reading {
    pub settings: Settings,
    pub entries: Vec<Entry>,
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads every variable through `var`; returns all errors together, each with the variable, the
    /// value and what is accepted.
    pub fn read(var: impl Fn(&str) -> Option<String>) -> Result<Reading, Vec<String>> {
        let mut reader = Reader::new(&var);
        let mut settings = reader.settings();
        settings.variables = reader.given;
        if reader.faults.is_empty() {
            Ok(Reading { settings, entries: reader.entries, warnings: reader.warnings })
        } else {
            Err(reader.faults)
        }
    }

    /// Returns these settings with some variables overridden; fails like [`Settings::read`], and if a
    /// tenant may not override a variable or raises a limit.
    pub fn overridden(&self, by: &BTreeMap<String, String>) -> Result<Settings, Vec<String>> {
        let faults: Vec<String> = by
            .keys()
            .filter(|name| !TENANT_VARIABLES.contains(&name.as_str()))
            .map(|name| {
                format!("{name} can't be set for a tenant; these can: {}", TENANT_VARIABLES.join(", "))
            })
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let read = Self::read(|name| by.get(name).or_else(|| self.variables.0.get(name)).cloned());
        let settings = read?.settings;
        // All tenants share the PDF parser: a tenant can lower its limits, not raise them.
        let mut raised = Vec::new();
        if settings.pdf.max_pages > self.pdf.max_pages {
            raised.push(format!(
                "MAX_PAGES is {}; accepted: up to {}",
                settings.pdf.max_pages, self.pdf.max_pages
            ));
        }
        if settings.pdf.max_file_bytes > self.pdf.max_file_bytes {
            let (value, limit) = (settings.pdf.max_file_bytes, self.pdf.max_file_bytes);
            raised.push(format!("MAX_FILE_BYTES is {value}; accepted: up to {limit}"));
        }
        if raised.is_empty() { Ok(settings) } else { Err(raised) }
    }

    /// How many documents are admitted and have not ended; the others wait.
    pub fn max_open_jobs(&self) -> usize {
        /// On one machine: more would only share its cores and in-flight limits among them.
        const AUTO: usize = 64;
        self.open_jobs.unwrap_or(AUTO)
    }

    /// Whether `TENANTS` lists the tenant, or is not set.
    pub fn allows_tenant(&self, tenant: &TenantId) -> bool {
        let names = self.tenants.iter().chain([&self.tenant]);
        self.tenants.is_empty() || names.into_iter().any(|name| name == tenant.as_str())
    }

    /// The provider whose models are called first unless a job chooses another.
    pub fn first_provider(&self) -> Provider {
        let listed = self.failover_order().providers().first().copied().filter(|_| !self.failover.is_empty());
        let engine = || self.providers.first().map(|one| one.provider);
        listed.or_else(engine).unwrap_or_default()
    }

    /// The models that can be called, in order; without those of providers that have no key.
    pub fn failover_order(&self) -> FailoverOrder {
        self.failover_order_of(&self.failover)
    }

    /// The order of a job with a list of its own, if that is not empty.
    pub fn failover_order_of(&self, list: &FailoverList) -> FailoverOrder {
        let is_usable =
            |provider: Provider| self.providers.iter().any(|one| one.provider == provider && one.is_usable());
        let list = if list.is_empty() { &self.failover } else { list };
        if !list.is_empty() {
            let usable = list.0.iter().filter(|target| is_usable(target.provider));
            return FailoverOrder::List(usable.cloned().collect());
        }
        // `PRIMARY_ENGINE` and `SECONDARY_ENGINE`.
        let chosen = self.providers.iter().take(self.preferred_providers).filter(|one| one.is_usable());
        FailoverOrder::ByTier(chosen.map(|one| (one.provider, one.models.clone())).collect())
    }
}

/// Parses a duration such as `5m`, `120s`, `1h30m` or `250ms`; on failure returns what is accepted.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let accepted = "a time with its unit such as 250ms, 30s, 5m or 1h30m";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| accepted.to_owned())?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{accepted}, more than zero")),
    }
}

#[cfg(test)]
mod tests;
