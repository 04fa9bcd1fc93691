//! Settings: read once, checked together, typed afterwards.
//!
//! The reader is an argument, so that nothing here touches the process's environment and a test
//! can hand in any. After [`Settings::read`] succeeded nothing else can be misconfigured.

use std::{collections::BTreeMap, fmt, fmt::Display, str::FromStr, time::Duration};

use crate::{
    domain::{
        breaker,
        document::{ImageColor, ImageFormat, ImageStyle},
        failover::Roster,
        ids::Priority,
        job::JobOptions,
        plan::AiPages,
        secret::Secret,
        selection::PageSelection,
        target::{Models, Provider, Tier},
    },
    ports::pdf::PdfLimits,
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
pub struct EngineSettings {
    pub provider: Provider,
    pub models: Models,
    pub api_key: Option<Secret>,
    /// Set when the calls go elsewhere than to the vendor.
    pub base_url: Option<String>,
}

impl EngineSettings {
    /// Many servers that speak OpenAI's API need no key; everything else does.
    pub fn is_usable(&self) -> bool {
        self.api_key.is_some() || (self.provider == Provider::OpenAi && self.base_url.is_some())
    }
}

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub level: String,
    pub pretty: bool,
    pub file: Option<String>,
}

/// The variables that a tenant may have values of its own for; see `store::tenants`.
pub const TENANT_VARIABLES: [&str; 20] = [
    "REQUEST_TIMEOUT",
    "STEP_TIMEOUT",
    "JOB_TIMEOUT",
    "PRIMARY_ENGINE",
    "SECONDARY_ENGINE",
    "OPENAI_PRIMARY_MODEL",
    "OPENAI_SECONDARY_MODEL",
    "OPENAI_FAST_MODEL",
    "ANTHROPIC_PRIMARY_MODEL",
    "ANTHROPIC_SECONDARY_MODEL",
    "ANTHROPIC_FAST_MODEL",
    "MODEL_TIER",
    "AI_PAGES",
    "IMAGE_SEND_ALL_PAGES",
    "AI_SYSTEM_PROMPT",
    "APPROVAL_THRESHOLD_USD",
    "MAX_FILE_BYTES",
    "MAX_PAGES",
    "PRIORITY",
    "DEFAULT_RESPONSIBLE",
];

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
    pub engines: Vec<EngineSettings>,
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
    pub breaker: breaker::Policy,
    pub retry_intervals: Vec<Duration>,
    /// How long a worker that fell silent keeps its page.
    pub page_visibility: Duration,
    pub max_receive_count: u32,
    /// Plans dearer than this wait for a person; none waits when unset.
    pub approval_threshold_usd: Option<f64>,
    pub pdf: PdfLimits,
    pub range_pages: u32,
    pub tenant: String,
    pub responsible: Option<String>,
    /// Of jobs that do not say.
    pub priority: Priority,
    pub environment: String,
    pub data_dir: Option<String>,
    pub log: LogSettings,
    pub port: u16,
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
        let mut reader = Reader {
            var: &var,
            given: Variables::default(),
            entries: vec![],
            warnings: vec![],
            faults: vec![],
        };
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
        read.map(|reading| reading.settings)
    }

    /// Who can be asked, the preferred engine first; those without a key are left out.
    pub fn roster(&self) -> Roster {
        let usable = self.engines.iter().filter(|engine| engine.is_usable());
        Roster { engines: usable.map(|engine| (engine.provider, engine.models.clone())).collect() }
    }

    /// What a job does when its caller says nothing.
    pub fn default_options(&self) -> JobOptions {
        JobOptions {
            pages: PageSelection::all(),
            ai_pages: self.ai_pages,
            image_for_all: self.image_for_all,
            tier: self.tier,
            engine: self.engines.first().map_or(Provider::OpenAi, |engine| engine.provider),
            image: self.image,
            job_timeout_ms: self.job_timeout.as_millis() as u64,
            priority: self.priority,
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

fn show_duration(time: &Duration) -> String {
    match time.as_millis() {
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

struct Reader<'a> {
    var: &'a dyn Fn(&str) -> Option<String>,
    given: Variables,
    entries: Vec<Entry>,
    warnings: Vec<String>,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn settings(&mut self) -> Settings {
        let request_timeout =
            self.duration("REQUEST_TIMEOUT", Some("PAGE_TOTAL_TIMEOUT"), 120_000, "longest AI call");
        let job_timeout = self.duration(
            "JOB_TIMEOUT",
            Some("DOCUMENT_PROCESSING_TIMEOUT"),
            300_000,
            "from acceptance to the published result",
        );
        let step_timeout =
            self.duration("STEP_TIMEOUT", None, 60_000, "one step of our own, such as opening the file");
        let primary = self.parsed("PRIMARY_ENGINE", Provider::OpenAi, "openai or anthropic", "asked first");
        let other = if primary == Provider::OpenAi { Provider::Anthropic } else { Provider::OpenAi };
        let secondary =
            self.parsed("SECONDARY_ENGINE", other, "openai or anthropic", "asked when the first fails");
        let openai = self.engine(
            Provider::OpenAi,
            ["OPENAI_PRIMARY_MODEL", "OPENAI_SECONDARY_MODEL", "OPENAI_FAST_MODEL"],
            ["gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"],
            ["OPENAI_API_KEY", "OPENAI_BASE_URL"],
        );
        let anthropic = self.engine(
            Provider::Anthropic,
            ["ANTHROPIC_PRIMARY_MODEL", "ANTHROPIC_SECONDARY_MODEL", "ANTHROPIC_FAST_MODEL"],
            ["claude-sonnet-4-6", "claude-opus-4-6", "claude-haiku-4-5"],
            ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"],
        );
        let mut engines = vec![openai, anthropic];
        engines.sort_by_key(|engine| engine.provider != primary);
        engines.retain(|engine| engine.provider == primary || engine.provider == secondary);

        let image = ImageStyle {
            dpi: self.bounded("IMAGE_DPI", 100, 20, 600, "resolution of page images"),
            color: self.choice(
                "IMAGE_COLOR",
                &[("rgb", ImageColor::Rgb), ("gray", ImageColor::Gray)],
                "colours of page images",
            ),
            format: self.choice(
                "IMAGE_FORMAT",
                &[("jpeg", ImageFormat::Jpeg), ("png", ImageFormat::Png)],
                "format of page images",
            ),
            jpeg_quality: self.bounded("IMAGE_JPEG_QUALITY", 70, 1, 100, "JPEG quality of page images"),
        };
        let breaker = breaker::Policy {
            failure_threshold: self.bounded(
                "BREAKER_FAILURE_THRESHOLD",
                1,
                1,
                1000,
                "failures in a row that open a breaker",
            ),
            half_open_successes: self.bounded(
                "BREAKER_HALF_OPEN_SUCCESSES",
                1,
                1,
                1000,
                "good probes that close it",
            ),
            base_rest: self.duration("BREAKER_BASE_BACKOFF", None, 30_000, "first rest of an open breaker"),
            max_rest: self.duration("BREAKER_MAX_BACKOFF", None, 300_000, "longest rest"),
            // A probe that has not reported by then never will: its call has timed out.
            probe_lease: request_timeout + Duration::from_secs(15),
            ..breaker::Policy::default()
        };
        if breaker.base_rest > breaker.max_rest {
            self.faults.push(format!(
                "BREAKER_BASE_BACKOFF is {} and BREAKER_MAX_BACKOFF is {}: the first must not be the longer one",
                show_duration(&breaker.base_rest),
                show_duration(&breaker.max_rest)
            ));
        }
        let limits = PdfLimits::default();
        Settings {
            variables: Variables::default(),
            request_timeout,
            job_timeout,
            step_timeout,
            engines,
            tier: self.parsed(
                "MODEL_TIER",
                Tier::Primary,
                "primary, fast or secondary",
                "model that reads at first",
            ),
            ai_pages: self.choice(
                "AI_PAGES",
                &[("graphics", AiPages::Graphics), ("all", AiPages::All)],
                "pages that go to AI",
            ),
            image,
            image_for_all: self.flag("IMAGE_SEND_ALL_PAGES", "send every page with its image"),
            context_radius: self.bounded(
                "IMAGE_CONTEXT_RADIUS",
                1,
                0,
                20,
                "neighbour pages whose text is sent along",
            ),
            max_context_bytes: self.bounded(
                "IMAGE_MAX_CONTEXT_BYTES",
                3000,
                0,
                100_000,
                "most bytes of that text",
            ),
            max_output_tokens: self.bounded(
                "AI_MAX_OUTPUT_TOKENS",
                8192,
                256,
                200_000,
                "longest answer for a page",
            ),
            system_prompt: self
                .text("AI_SYSTEM_PROMPT", "what the models are told (default: built in)")
                .unwrap_or_else(|| DEFAULT_SYSTEM_PROMPT.to_owned()),
            model_prices: self
                .text("MODEL_PRICES", "USD per million tokens: model=in/out,…")
                .unwrap_or_default(),
            worker_concurrency: self.bounded("WORKER_CONCURRENCY", 8, 1, 1000, "pages worked on at once"),
            max_inflight_per_model: self.bounded(
                "MAX_INFLIGHT_PER_MODEL",
                2,
                1,
                1000,
                "calls to one model at once, all workers together",
            ),
            breaker,
            retry_intervals: self.intervals(),
            page_visibility: self.duration(
                "PAGE_VISIBILITY",
                None,
                60_000,
                "after this a silent worker's page goes to another",
            ),
            max_receive_count: self.bounded(
                "MAX_RECEIVE_COUNT",
                3,
                1,
                100,
                "deliveries of a page before it is a dead letter",
            ),
            approval_threshold_usd: self
                .optional_usd("APPROVAL_THRESHOLD_USD", "plans dearer than this wait for a person"),
            pdf: PdfLimits {
                max_file_bytes: self.bounded(
                    "MAX_FILE_BYTES",
                    limits.max_file_bytes,
                    1,
                    u64::MAX,
                    "largest file",
                ),
                max_pages: self.bounded(
                    "MAX_PAGES",
                    limits.max_pages,
                    1,
                    1_000_000,
                    "most pages of a document",
                ),
                max_page_points: self.bounded(
                    "MAX_PAGE_POINTS",
                    limits.max_page_points,
                    72,
                    1_000_000,
                    "longest side of a page, in 1/72 inch",
                ),
                page_timeout: self.duration(
                    "PAGE_TIMEOUT",
                    None,
                    limits.page_timeout.as_millis() as u64,
                    "reading one page with MuPDF",
                ),
                max_memory_bytes: self.bounded(
                    "PDF_MAX_MEMORY_BYTES",
                    limits.max_memory_bytes,
                    64 << 20,
                    1 << 40,
                    "memory of the process that parses",
                ),
            },
            range_pages: self.bounded("RANGE_PAGES", 32, 1, 1000, "pages prepared together"),
            tenant: self
                .text("TENANT", "whose jobs these are (default: local)")
                .unwrap_or_else(|| "local".into()),
            priority: self.choice(
                "PRIORITY",
                &[
                    ("normal", Priority::Normal),
                    ("low", Priority::Low),
                    ("high", Priority::High),
                    ("critical", Priority::Critical),
                    ("urgent", Priority::Urgent),
                ],
                "of jobs that do not say",
            ),
            responsible: self.text("DEFAULT_RESPONSIBLE", "who is told of dead letters"),
            environment: self
                .text("ENVIRONMENT", "name of this installation, in events (default: local)")
                .unwrap_or_else(|| "local".into()),
            data_dir: self
                .text("EVERYPAGE_DATA", "folder of jobs and results (default: ~/.local/share/everypage)"),
            log: LogSettings {
                level: self.log_level(),
                pretty: self.flag("LOG_PRETTY", "logs for people instead of JSON"),
                file: self.text("LOG_FILE", "logs go here instead of to standard error"),
            },
            port: self.bounded("PORT", 8080, 1, 65_535, "of the HTTP server"),
        }
    }

    fn engine(
        &mut self,
        provider: Provider,
        models: [&'static str; 3],
        defaults: [&str; 3],
        access: [&'static str; 2],
    ) -> EngineSettings {
        let mut model = |index: usize, about| {
            let default = defaults[index].to_owned();
            self.parsed(models[index], default, "a model's name", about)
        };
        let models = Models {
            primary: model(0, "model of the primary tier"),
            secondary: model(1, "model asked when that fails"),
            fast: model(2, "model of the fast tier"),
        };
        let api_key = self.raw(access[0]).map(Secret::new);
        let shown = if api_key.is_some() { "(set)" } else { "(not set)" };
        self.note(access[0], shown.into(), api_key.is_some(), "key of the API");
        let base_url = self.raw(access[1]);
        if let Some(url) = &base_url
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            self.fault(access[1], url, "an address that starts with http:// or https://");
        }
        let shown = base_url.clone().unwrap_or_else(|| "(the vendor's)".into());
        self.note(access[1], shown, base_url.is_some(), "address of the API");
        EngineSettings { provider, models, api_key, base_url }
    }

    /// An empty value counts as not set.
    fn raw(&mut self, name: &str) -> Option<String> {
        let value =
            (self.var)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())?;
        self.given.0.insert(name.to_owned(), value.clone());
        Some(value)
    }

    fn note(&mut self, name: &'static str, value: String, from_environment: bool, about: &'static str) {
        self.entries.push(Entry { name, value, from_environment, about });
    }

    fn fault(&mut self, name: &str, value: &str, accepted: &str) {
        self.faults.push(format!("{name} is {value:?}; accepted: {accepted}"));
    }

    fn text(&mut self, name: &'static str, about: &'static str) -> Option<String> {
        let value = self.raw(name);
        self.note(name, value.clone().unwrap_or_else(|| "(not set)".into()), value.is_some(), about);
        value
    }

    fn parsed<T: FromStr + Display + Clone>(
        &mut self,
        name: &'static str,
        default: T,
        accepted: &str,
        about: &'static str,
    ) -> T {
        let raw = self.raw(name);
        let value = match raw.as_deref().map(str::parse) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(_)) => {
                self.fault(name, raw.as_deref().unwrap_or_default(), accepted);
                default
            }
        };
        self.note(name, value.to_string(), raw.is_some(), about);
        value
    }

    fn bounded<T: FromStr + Display + Clone + PartialOrd>(
        &mut self,
        name: &'static str,
        default: T,
        least: T,
        most: T,
        about: &'static str,
    ) -> T {
        let accepted = format!("a whole number from {least} to {most}");
        let value = self.parsed(name, default.clone(), &accepted, about);
        if value < least || value > most {
            self.fault(name, &value.to_string(), &accepted);
            return default;
        }
        value
    }

    fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&'static str, T)],
        about: &'static str,
    ) -> T {
        let raw = self.raw(name);
        let wanted = raw.as_deref().unwrap_or(choices[0].0).to_ascii_lowercase();
        let found = choices.iter().find(|(word, _)| *word == wanted);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.fault(name, &wanted, &words.join(" or "));
        }
        let (word, value) = found.copied().unwrap_or(choices[0]);
        self.note(name, word.to_owned(), raw.is_some(), about);
        value
    }

    fn flag(&mut self, name: &'static str, about: &'static str) -> bool {
        self.choice(
            name,
            &[("false", false), ("true", true), ("0", false), ("1", true), ("no", false), ("yes", true)],
            about,
        )
    }

    fn duration(
        &mut self,
        name: &'static str,
        legacy: Option<&'static str>,
        default_ms: u64,
        about: &'static str,
    ) -> Duration {
        let mut from = name;
        let mut raw = self.raw(name);
        if let Some(old) = legacy
            && let Some(value) = self.raw(old)
        {
            self.warnings.push(match raw {
                None => format!("{old} is an old name; use {name}"),
                Some(_) => format!("{old} is an old name and ignored because {name} is set"),
            });
            if raw.is_none() {
                raw = Some(value);
                from = old;
            }
        }
        let default = Duration::from_millis(default_ms);
        let time = match raw.as_deref().map(parse_duration) {
            None => default,
            Some(Ok(time)) => time,
            Some(Err(accepted)) => {
                self.fault(from, raw.as_deref().unwrap_or_default(), &accepted);
                default
            }
        };
        self.note(name, show_duration(&time), raw.is_some(), about);
        time
    }

    fn intervals(&mut self) -> Vec<Duration> {
        let raw = self.raw("RETRY_INTERVALS");
        let text = raw.clone().unwrap_or_else(|| "1s,4s,16s".into());
        let mut intervals = Vec::new();
        for part in text.split(',').map(str::trim) {
            match parse_duration(part) {
                Ok(time) => intervals.push(time),
                Err(accepted) => self.fault("RETRY_INTERVALS", &text, &format!("a list, each {accepted}")),
            }
        }
        self.note("RETRY_INTERVALS", text, raw.is_some(), "pauses before our own calls are tried again");
        let most: usize = self.bounded("MAX_RETRIES", 3, 0, 20, "tries after the first");
        if let Some(last) = intervals.last().copied() {
            intervals.resize(most, last);
        }
        intervals
    }

    fn optional_usd(&mut self, name: &'static str, about: &'static str) -> Option<f64> {
        let raw = self.text(name, about)?;
        match raw.parse::<f64>() {
            Ok(usd) if usd.is_finite() && usd >= 0.0 => Some(usd),
            _ => {
                self.fault(name, &raw, "an amount in US dollars such as 2.50");
                None
            }
        }
    }

    fn log_level(&mut self) -> String {
        self.choice(
            "LOG_LEVEL",
            &[
                ("warn", "warn"),
                ("error", "error"),
                ("info", "info"),
                ("debug", "debug"),
                ("trace", "trace"),
                ("off", "off"),
            ],
            "how much is logged",
        )
        .to_owned()
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
