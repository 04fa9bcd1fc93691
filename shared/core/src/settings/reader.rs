//! Reads every variable once, notes what it found and collects every mistake.

use std::{fmt::Display, str::FromStr, time::Duration};

use percent_encoding::percent_decode_str;

use crate::{
    document::{ImageColor, ImageFormat, ImageStyle},
    ids::Priority,
    ports::pdf::PdfLimits,
    providers::target::{Models, Provider, ProviderProfile, Tier},
    secret::Secret,
    settings::{
        AiPages, BreakerPolicy, Credits, DEFAULT_SYSTEM_PROMPT, Entry, LogSettings, ProviderSettings,
        Purchasing, Settings, Strategy, TraceSettings, Variables, parse_duration,
    },
};

/// Of one credit, in US dollars.
const LEAST_CREDIT_PRICE: f64 = 0.000_001;
const MOST_CREDIT_PRICE: f64 = 1000.0;

fn show_duration(time: &Duration) -> String {
    match time.as_millis() {
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

pub struct Reader<'a> {
    var: &'a dyn Fn(&str) -> Option<String>,
    pub given: Variables,
    pub entries: Vec<Entry>,
    pub warnings: Vec<String>,
    pub faults: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(var: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { var, given: Variables::default(), entries: vec![], warnings: vec![], faults: vec![] }
    }

    pub fn settings(&mut self) -> Settings {
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
        let names = Provider::NAMES.join(" or ");
        let primary = self.parsed("PRIMARY_ENGINE", Provider::default(), &names, "asked first");
        let other = Provider::ALL.iter().copied().find(|provider| *provider != primary);
        let other = other.unwrap_or(primary);
        let secondary = self.parsed("SECONDARY_ENGINE", other, &names, "asked when the first fails");
        let mut providers: Vec<ProviderSettings> =
            Provider::ALL.iter().map(|provider| self.provider(*provider)).collect();
        for (name, chosen) in [("PRIMARY_ENGINE", primary), ("SECONDARY_ENGINE", secondary)] {
            let is_usable = providers.iter().any(|one| one.provider == chosen && one.is_usable());
            if self.raw(name).is_some() && !is_usable {
                let key = chosen.profile().variables.api_key;
                self.warnings.push(format!("{name} is {chosen}, which is left out: {key} is not set"));
            }
        }
        providers.sort_by_key(|one| one.provider != primary);
        providers.retain(|one| one.provider == primary || one.provider == secondary);

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
        let breaker = BreakerPolicy {
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
            base_cooldown: self.duration(
                "BREAKER_BASE_BACKOFF",
                None,
                30_000,
                "first rest of an open breaker",
            ),
            max_cooldown: self.duration("BREAKER_MAX_BACKOFF", None, 300_000, "longest rest"),
            ..BreakerPolicy::default()
        };
        let breaker = breaker.for_calls_of(request_timeout);
        if breaker.base_cooldown > breaker.max_cooldown {
            self.faults.push(format!(
                "BREAKER_BASE_BACKOFF is {} and BREAKER_MAX_BACKOFF is {}; accepted: a longest rest that is no shorter than the first",
                show_duration(&breaker.base_cooldown),
                show_duration(&breaker.max_cooldown)
            ));
        }
        let limits = PdfLimits::default();
        Settings {
            variables: Variables::default(),
            request_timeout,
            job_timeout,
            step_timeout,
            providers,
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
            credits: self.choice(
                "CREDITS",
                &[("unlimited", Credits::Unlimited), ("prepaid", Credits::Prepaid)],
                "whether jobs need credits",
            ),
            purchasing: self.purchasing(),
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
            tenants: self.tenants(),
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
            traces: TraceSettings {
                endpoint: self.trace_endpoint(),
                headers: self.trace_headers(),
                service: self.text("OTEL_SERVICE_NAME", "what traces call this program"),
            },
            port: self.bounded("PORT", 8080, 1, 65_535, "of the HTTP server"),
            webhook_allow_private: self
                .flag("WEBHOOK_ALLOW_PRIVATE", "webhooks may go to this machine and private networks"),
            rate_limit: self.bounded("RATE_LIMIT", 100, 0, 1_000_000, "requests a second of one caller"),
        }
    }

    fn provider(&mut self, provider: Provider) -> ProviderSettings {
        let ProviderProfile { variables, primary_model, secondary_model, fast_model, .. } =
            provider.profile();
        let mut model = |variable, default: &str, about| {
            self.parsed(variable, default.to_owned(), "a model's name", about)
        };
        let models = Models {
            primary: model(variables.primary_model, primary_model, "model of the primary tier"),
            secondary: model(variables.secondary_model, secondary_model, "model asked when that fails"),
            fast: model(variables.fast_model, fast_model, "model of the fast tier"),
        };
        let api_key = self.secret(variables.api_key, "key of the API");
        let base_url = self.address(variables.base_url, "(the provider's)", "address of the API");
        ProviderSettings { provider, models, api_key, base_url }
    }

    /// Credits are bought where both the service and a price are known.
    fn purchasing(&mut self) -> Option<Purchasing> {
        let url = self.address(
            "PAYMENT_URL",
            "(not set)",
            "of the payment service that credits are bought through",
        );
        let api_key = self.secret("PAYMENT_API_KEY", "key of the payment service");
        let price = self.credit_price();
        let strategy = self.parsed(
            "PURCHASE_STRATEGY",
            Strategy::Rollback,
            "rollback, partial, forward or manual",
            "what becomes of a purchase that can't go on",
        );
        match (url, price) {
            (Some(url), Some(price_usd)) => Some(Purchasing { url, api_key, price_usd, strategy }),
            (Some(_), None) => {
                self.faults.push("PAYMENT_URL is set and CREDIT_PRICE_USD is not: both or none".into());
                None
            }
            (None, _) => None,
        }
    }

    fn credit_price(&mut self) -> Option<f64> {
        let name = "CREDIT_PRICE_USD";
        let price = self.optional_usd(name, "of one credit, which is one page read by AI")?;
        if !(LEAST_CREDIT_PRICE..=MOST_CREDIT_PRICE).contains(&price) {
            self.fault(name, &price.to_string(), "an amount from 0.000001 to 1000 US dollars");
            return None;
        }
        Some(price)
    }

    fn secret(&mut self, name: &'static str, about: &'static str) -> Option<Secret> {
        let secret = self.raw(name).map(Secret::new);
        let shown = if secret.is_some() { "(set)" } else { "(not set)" };
        self.note(name, shown.into(), secret.is_some(), about);
        secret
    }

    fn address(&mut self, name: &'static str, unset: &str, about: &'static str) -> Option<String> {
        let url = self.raw(name);
        if let Some(url) = &url
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            self.fault(name, url, "an address that starts with http:// or https://");
        }
        self.note(name, url.clone().unwrap_or_else(|| unset.into()), url.is_some(), about);
        url
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

    fn tenants(&mut self) -> Vec<String> {
        let text = self.text("TENANTS", "all that there are, with commas (default: any)").unwrap_or_default();
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if text.is_empty() {
            return vec![];
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if names.iter().any(|name| name.is_empty() || !name.chars().all(plain)) {
            self.fault(
                "TENANTS",
                &text,
                "names of letters, digits, . _ and -, with commas, such as acme,globex",
            );
        }
        names
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

    fn trace_endpoint(&mut self) -> Option<String> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let endpoint = self.text(NAME, "collector of traces, for OTLP over HTTP");
        if let Some(url) = &endpoint
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            self.fault(NAME, url, "an address such as http://localhost:4318");
        }
        endpoint
    }

    /// Values are percent-encoded, as OpenTelemetry has it, and may be keys: they are never shown.
    fn trace_headers(&mut self) -> Vec<(String, Secret)> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        let raw = self.raw(NAME);
        let shown = if raw.is_some() { "(set)" } else { "(not set)" };
        self.note(NAME, shown.into(), raw.is_some(), "sent to that collector: name=value,…");
        let mut headers = Vec::new();
        for entry in raw.iter().flat_map(|raw| raw.split(',')).filter(|entry| !entry.trim().is_empty()) {
            let parts = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let decoded = parts.and_then(|(name, value)| {
                let value = percent_decode_str(value).decode_utf8().ok()?;
                (!name.is_empty()).then(|| (name.to_owned(), Secret::new(value)))
            });
            match decoded {
                Some(header) => headers.push(header),
                None => self.fault(NAME, "(hidden)", "name=value,name=value, the values percent-encoded"),
            }
        }
        headers
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
