//! Settings: read once, checked together, typed afterwards.
//!
//! The reader is an argument, so that nothing here touches the process's environment and a test
//! can hand in any. After [`Settings::read`] succeeded nothing else can be misconfigured.

mod ai_pages;
mod breaker_policy;
mod reader;
mod strategy;

use std::{collections::BTreeMap, fmt, sync::LazyLock, time::Duration};

pub use ai_pages::AiPages;
pub use breaker_policy::BreakerPolicy;
use reader::Reader;
pub use strategy::Strategy;

use crate::{
    document::ImageStyle,
    ids::{Priority, TenantId},
    ports::pdf::PdfLimits,
    providers::{
        failover::FailoverOrder,
        target::{Models, Provider, Tier},
    },
    secret::Secret,
};

/// What the models are told unless `AI_SYSTEM_PROMPT` says otherwise.
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
    /// Set when the calls go to another server than the provider's own.
    pub base_url: Option<String>,
}

impl ProviderSettings {
    /// Whether calls can be made with the key and the base URL that are set.
    pub fn is_usable(&self) -> bool {
        self.provider.profile().api_key.allows_calls(self.api_key.is_some(), self.base_url.is_some())
    }
}

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub level: String,
    pub pretty: bool,
    pub file: Option<String>,
}

impl LogSettings {
    /// Whose lines are logged: ours from `level` on. Of other crates only errors, because what they say
    /// in passing may be a whole request, with a document's text and a caller's key in it.
    pub fn filter(level: &str) -> String {
        if level == "off" { level.to_owned() } else { format!("error,everypage={level}") }
    }
}

/// Where traces go; named as every OpenTelemetry program names them.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// Of an OTLP collector that is spoken to in HTTP; nothing is traced when unset.
    pub endpoint: Option<String>,
    /// Sent along, for a collector that wants to know who sends.
    pub headers: Vec<(String, Secret)>,
    /// What this program is called there, if not by its own name.
    pub service: Option<String>,
}

/// Whether a tenant has to have credits for the pages that an AI reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credits {
    Unlimited,
    /// A job whose plan the account does not cover is rejected.
    Prepaid,
}

/// How credits are bought.
#[derive(Clone, Debug)]
pub struct Purchasing {
    /// Of the payment service.
    pub url: String,
    pub api_key: Option<Secret>,
    /// Of one credit, which is one page read by AI.
    pub price_usd: f64,
    pub strategy: Strategy,
}

/// The variables that a tenant may have values of its own for; see `store::tenants`.
pub static TENANT_VARIABLES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let models = Provider::ALL.iter().flat_map(|provider| provider.profile().variables.of_models());
    ["REQUEST_TIMEOUT", "STEP_TIMEOUT", "JOB_TIMEOUT", "PRIMARY_ENGINE", "SECONDARY_ENGINE"]
        .into_iter()
        .chain(models)
        .chain([
            "MODEL_TIER",
            "AI_PAGES",
            "IMAGE_SEND_ALL_PAGES",
            "AI_SYSTEM_PROMPT",
            "APPROVAL_THRESHOLD_USD",
            "CREDITS",
            "CREDIT_PRICE_USD",
            "MAX_FILE_BYTES",
            "MAX_PAGES",
            "PRIORITY",
            "DEFAULT_RESPONSIBLE",
        ])
        .collect()
});

/// The variables as they were given, secrets among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variables({} set)", self.0.len())
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// What these settings were read from.
    pub variables: Variables,
    pub request_timeout: Duration,
    pub job_timeout: Duration,
    /// For one step of our own, such as opening the document.
    pub step_timeout: Duration,
    /// In order of preference.
    pub providers: Vec<ProviderSettings>,
    pub tier: Tier,
    pub ai_pages: AiPages,
    pub image: ImageStyle,
    pub image_for_all: bool,
    pub context_radius: u32,
    pub max_context_bytes: usize,
    pub max_output_tokens: u32,
    pub system_prompt: String,
    pub model_prices: String,
    pub worker_concurrency: usize,
    pub max_inflight_per_model: usize,
    pub breaker: BreakerPolicy,
    pub retry_intervals: Vec<Duration>,
    /// How long a worker that fell silent keeps its page.
    pub page_visibility: Duration,
    pub max_receive_count: u32,
    /// Plans dearer than this wait for a person; none waits when unset.
    pub approval_threshold_usd: Option<f64>,
    pub credits: Credits,
    /// Unset where no credits can be bought.
    pub purchasing: Option<Purchasing>,
    pub pdf: PdfLimits,
    pub range_pages: u32,
    pub tenant: String,
    /// Besides that one; none where everybody is welcome.
    pub tenants: Vec<String>,
    pub responsible: Option<String>,
    /// Of jobs that do not say.
    pub priority: Priority,
    pub environment: String,
    pub data_dir: Option<String>,
    pub log: LogSettings,
    pub traces: TraceSettings,
    pub port: u16,
    /// Webhooks may go to addresses of this machine and of private networks.
    pub webhook_allow_private: bool,
    /// Requests a second that one caller may make of the API, over a while; none is counted when 0.
    pub rate_limit: u32,
}

/// One variable as it was understood; for `everypage config check`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: &'static str,
    /// Hidden for secrets.
    pub value: String,
    pub from_environment: bool,
    pub about: &'static str,
}

/// Settings and what there is to say about them.
#[derive(Clone, Debug)]
pub struct Reading {
    pub settings: Settings,
    pub entries: Vec<Entry>,
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads every variable through `var`; answers all mistakes together, each naming the
    /// variable, the value and what is accepted.
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

    /// These settings with some variables set otherwise.
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
        // The reader of PDFs is shared by all: a tenant can have less of it, not more.
        let mut raised = Vec::new();
        if settings.pdf.max_pages > self.pdf.max_pages {
            raised.push(format!(
                "MAX_PAGES is {}; accepted: up to {}",
                settings.pdf.max_pages, self.pdf.max_pages
            ));
        }
        if settings.pdf.max_file_bytes > self.pdf.max_file_bytes {
            let (asked, most) = (settings.pdf.max_file_bytes, self.pdf.max_file_bytes);
            raised.push(format!("MAX_FILE_BYTES is {asked}; accepted: up to {most}"));
        }
        if raised.is_empty() { Ok(settings) } else { Err(raised) }
    }

    /// Is it one of the tenants that were named, where any were?
    pub fn knows(&self, tenant: &TenantId) -> bool {
        let names = self.tenants.iter().chain([&self.tenant]);
        self.tenants.is_empty() || names.into_iter().any(|name| name == tenant.as_str())
    }

    /// Who can be asked, the preferred engine first; those without a key are left out.
    pub fn failover_order(&self) -> FailoverOrder {
        let usable = self.providers.iter().filter(|provider| provider.is_usable());
        FailoverOrder {
            providers: usable.map(|provider| (provider.provider, provider.models.clone())).collect(),
        }
    }
}

/// `5m`, `120s`, `1h30m`, `250ms`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wanted = "a time with its unit such as 250ms, 30s, 5m or 1h30m";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| wanted.to_owned())?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{wanted}, more than zero")),
    }
}

#[cfg(test)]
mod tests;
