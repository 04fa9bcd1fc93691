//! Every setting: its variable, default, limits and description.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::reader::{Reader, show_duration};
use crate::{
    document::{ImageColor, ImageFormat, ImageStyle},
    ids::Priority,
    ports::pdf::PdfLimits,
    providers::{
        failover::{FailoverList, FailoverOrder},
        target::{AccessRule, Models, Provider, ProviderProfile, Tier},
    },
    secret::Secret,
    settings::{
        AiPages, BreakerPolicy, Cost, Credits, DEFAULT_SYSTEM_PROMPT, Hedging, LogExport, LogSettings,
        MaxInflight, NotifyEmail, NotifySettings, NotifyWebhook, OcrPages, Patience, ProviderSettings,
        Purchasing, Settings, Strategy, TraceSettings, Variables, parse_duration,
    },
};

/// Limits of `CREDIT_PRICE_USD`.
const MIN_CREDIT_PRICE: f64 = 0.000_001;
const MAX_CREDIT_PRICE: f64 = 1000.0;

/// Variables that have another name or no meaning here, and what to use instead.
const REPLACED_VARIABLES: [(&str, &str); 14] = [
    ("REDIS_URL", "jobs, pages and queues are in the data folder (EVERYPAGE_DATA), or on AWS"),
    ("QUEUE_STREAM", "the queue needs no settings"),
    ("QUEUE_GROUP", "the queue needs no settings"),
    ("QUEUE_POLL_INTERVAL", "the queue needs no settings"),
    ("WEB_USERNAME", "callers are identified by API keys: everypage keys create"),
    ("WEB_PASSWORD", "access is protected by API keys: everypage keys create"),
    ("IMAGE_INCLUDE_BASE64", "images are stored apart from the queue and sent by the worker"),
    ("UPLOAD_DIR", "documents are in the data folder (EVERYPAGE_DATA)"),
    ("RESULT_DIR", "results are in the data folder (EVERYPAGE_DATA); process -o writes them to a folder"),
    ("AWS_S3_BUCKET", "a stack on AWS has its own bucket"),
    ("SEND_LOGS_TO_AXIOM", "OTEL_LOGS_EXPORTER=otlp sends the log to OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("AXIOM_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20KEY,X-Axiom-Dataset=DATASET"),
    ("AXIOM_ORG_ID", "the key in OTEL_EXPORTER_OTLP_HEADERS belongs to one organization"),
    ("AXIOM_DATASET", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20KEY,X-Axiom-Dataset=DATASET"),
];

/// A duration that may be in days, such as `30d`.
fn parse_days(text: &str) -> Option<Duration> {
    match text.strip_suffix('d').map(str::parse::<u64>) {
        Some(Ok(days)) if days > 0 => days.checked_mul(24 * 3600).map(Duration::from_secs),
        _ => parse_duration(text).ok(),
    }
}

impl Reader<'_> {
    pub fn settings(&mut self) -> Settings {
        let request_timeout = self.duration(
            "REQUEST_TIMEOUT",
            Some("PAGE_TOTAL_TIMEOUT"),
            120_000,
            "timeout of one model call",
        );
        let job_timeout = self.duration(
            "JOB_TIMEOUT",
            Some("DOCUMENT_PROCESSING_TIMEOUT"),
            300_000,
            "time from admission of a job, when work on it starts, to its result; pages without AI text by then get MuPDF's",
        );
        let max_deadline = self.duration(
            "MAX_DEADLINE",
            None,
            24 * 3_600_000,
            "longest time from acceptance of a job to its result that a caller may ask for",
        );
        if job_timeout > max_deadline {
            let (job_timeout, max_deadline) = (show_duration(&job_timeout), show_duration(&max_deadline));
            self.fault("JOB_TIMEOUT", &job_timeout, &format!("at most MAX_DEADLINE, {max_deadline}"));
        }
        let step_timeout = self.duration(
            "STEP_TIMEOUT",
            None,
            60_000,
            "timeout of one processing step, such as opening the file",
        );
        let names = Provider::NAMES.join(", ");
        let about = "provider that is called first (default: the first with a key)";
        let default = self.provider_with_access(None);
        let primary = self.parsed("PRIMARY_ENGINE", default, &names, about);
        let about = "provider that is called when the first one fails (default: the next with a key)";
        let default = self.provider_with_access(Some(primary));
        let secondary = self.parsed("SECONDARY_ENGINE", default, &names, about);
        let mut providers: Vec<ProviderSettings> =
            Provider::ALL.iter().map(|provider| self.provider(*provider)).collect();
        for (name, chosen) in [("PRIMARY_ENGINE", primary), ("SECONDARY_ENGINE", secondary)] {
            let missing = providers.iter().filter(|one| one.provider == chosen).flat_map(|one| one.missing());
            let missing: Vec<&str> = missing.collect();
            if self.raw(name).is_some() && !missing.is_empty() {
                let verb = if missing.len() == 1 { "is" } else { "are" };
                let missing = missing.join(" and ");
                self.warnings
                    .push(format!("{name} is {chosen}, which is not used: {missing} {verb} not set"));
            }
        }
        providers.sort_by_key(|one| (one.provider != primary, one.provider != secondary));
        let failover = self.parsed(
            "FAILOVER",
            FailoverList::default(),
            FailoverList::ACCEPTED,
            "models in the order in which they are called, of any providers (default: the tier's and the secondary model of PRIMARY_ENGINE, then of SECONDARY_ENGINE)",
        );
        for provider in FailoverOrder::List(failover.0.clone()).providers() {
            let missing: Vec<&str> = providers
                .iter()
                .filter(|one| one.provider == provider)
                .flat_map(|one| one.missing())
                .collect();
            if !missing.is_empty() {
                let missing = missing.join(" and ");
                self.warnings.push(format!("FAILOVER has {provider}, which is not used: set {missing}"));
            }
        }

        let image = ImageStyle {
            dpi: self.bounded("IMAGE_DPI", 100, 20, 600, "resolution of page images, in dots per inch"),
            color: self.choice(
                "IMAGE_COLOR",
                &[("rgb", ImageColor::Rgb), ("gray", ImageColor::Gray)],
                "color mode of page images",
            ),
            format: self.choice(
                "IMAGE_FORMAT",
                &[("jpeg", ImageFormat::Jpeg), ("png", ImageFormat::Png)],
                "file format of page images",
            ),
            jpeg_quality: self.bounded("IMAGE_JPEG_QUALITY", 70, 1, 100, "quality of JPEG page images"),
        };
        let breaker = BreakerPolicy {
            failure_threshold: self.bounded(
                "BREAKER_FAILURE_THRESHOLD",
                3,
                1,
                1000,
                "consecutive failures that open a model's circuit breaker",
            ),
            half_open_successes: self.bounded(
                "BREAKER_HALF_OPEN_SUCCESSES",
                1,
                1,
                1000,
                "successful probes that close an open circuit breaker",
            ),
            base_cooldown: self.duration(
                "BREAKER_BASE_BACKOFF",
                None,
                30_000,
                "first cooldown of an open circuit breaker; doubled each time it opens again",
            ),
            max_cooldown: self.duration(
                "BREAKER_MAX_BACKOFF",
                None,
                300_000,
                "longest cooldown of an open circuit breaker",
            ),
            ..BreakerPolicy::default()
        };
        let breaker = breaker.with_call_timeout(request_timeout);
        if breaker.base_cooldown > breaker.max_cooldown {
            self.faults.push(format!(
                "BREAKER_BASE_BACKOFF is {} and BREAKER_MAX_BACKOFF is {}; accepted: a longest cooldown that is not shorter than the first",
                show_duration(&breaker.base_cooldown),
                show_duration(&breaker.max_cooldown)
            ));
        }
        let limits = PdfLimits::default();
        let responsible = self
            .text("DEFAULT_RESPONSIBLE", "person who is notified of dead letters, such as an email address");
        let notify = self.notify(responsible.as_deref());
        Settings {
            variables: Variables::default(),
            request_timeout,
            job_timeout,
            max_deadline,
            step_timeout,
            providers,
            preferred_providers: if primary == secondary { 1 } else { 2 },
            failover,
            cost: self.choice(
                "COST",
                &[("standard", Cost::Standard), ("low", Cost::Low)],
                "low uses the cheaper, slower tier of providers that have one while the time left allows; jobs of priority low always do",
            ),
            tier: self.parsed(
                "MODEL_TIER",
                Tier::Primary,
                "primary, fast or secondary",
                "model of each provider that is called first",
            ),
            ai_pages: self.choice(
                "AI_PAGES",
                &[("graphics", AiPages::Graphics), ("unsure", AiPages::Unsure), ("all", AiPages::All)],
                "pages that go to AI: those with graphics, only those whose own reading has a low confidence, or all",
            ),
            check_answers: self.switch(
                "CHECK_ANSWERS",
                "check what a model answers against the page's own text; off for instructions that ask for something else than the text, such as a translation",
            ),
            ocr: self.choice(
                "OCR",
                &[("auto", OcrPages::Auto), ("off", OcrPages::Off), ("always", OcrPages::Always)],
                "pages recognized by OCR where no AI reads them: those without a sound text layer, none, or all",
            ),
            ocr_languages: self.ocr_languages(),
            image,
            image_for_all: self.flag("IMAGE_SEND_ALL_PAGES", "send an image with every page that goes to AI"),
            context_radius: self.bounded(
                "IMAGE_CONTEXT_RADIUS",
                1,
                0,
                20,
                "pages before and after each page whose text is sent as context",
            ),
            max_context_bytes: self.bounded(
                "IMAGE_MAX_CONTEXT_BYTES",
                3000,
                0,
                100_000,
                "maximum size of the context text of a page, in bytes",
            ),
            max_output_tokens: self.bounded(
                "AI_MAX_OUTPUT_TOKENS",
                8192,
                256,
                200_000,
                "maximum length of the answer for a page, in tokens",
            ),
            system_prompt: self
                .text("AI_SYSTEM_PROMPT", "instructions for the models (default: built in)")
                .unwrap_or_else(|| DEFAULT_SYSTEM_PROMPT.to_owned()),
            model_prices: self
                .text("MODEL_PRICES", "prices of models, in USD per million tokens: model=input/output,…")
                .unwrap_or_default(),
            worker_concurrency: self.bounded_or_auto(
                "WORKER_CONCURRENCY",
                1000,
                "pages that one worker processes concurrently; auto follows the in-flight limits",
            ),
            max_inflight_per_model: self
                .bounded_or_auto(
                    "MAX_INFLIGHT_PER_MODEL",
                    1000,
                    "upper bound of concurrent calls to one model, by all workers together; auto finds what the provider takes",
                )
                .map_or(MaxInflight::Auto, |limit: usize| MaxInflight::AtMost(limit as u32)),
            open_jobs: self.bounded_or_auto(
                "MAX_OPEN_JOBS",
                100_000,
                "documents that are worked on at a time; the others wait in line, by priority and fairly between tenants; auto is 64 on one machine, and follows the size of a stack",
            ),
            patience: self.parsed(
                "PATIENCE",
                Patience::default(),
                Patience::ACCEPTED,
                "how long a page is retried after rate limits, errors and timeouts",
            ),
            hedging: self.choice(
                "HEDGE",
                &[("auto", Hedging::Auto), ("off", Hedging::Off)],
                "double a call that takes longer than nearly all calls, with the next model; at most 5 % of calls",
            ),
            breaker,
            retry_intervals: self.intervals(),
            page_visibility: self.duration(
                "PAGE_VISIBILITY",
                None,
                60_000,
                "time after which the page of an unresponsive worker goes to another worker",
            ),
            max_receive_count: self.bounded(
                "MAX_RECEIVE_COUNT",
                3,
                1,
                100,
                "deliveries of a page message before it becomes a dead letter",
            ),
            approval_threshold_usd: self.optional_usd(
                "APPROVAL_THRESHOLD_USD",
                "plans above this cost need approval (default: none do)",
            ),
            budget_usd: self.optional_usd(
                "BUDGET_USD",
                "what the model calls of one job may cost; pages beyond it keep their own text (default: unlimited)",
            ),
            tenant_budget_usd: self.optional_usd(
                "TENANT_BUDGET_USD",
                "what the model calls of one tenant may cost in a month, by UTC (default: unlimited)",
            ),
            credits: self.choice(
                "CREDITS",
                &[("unlimited", Credits::Unlimited), ("prepaid", Credits::Prepaid)],
                "whether pages that go to AI need prepaid credits",
            ),
            purchasing: self.purchasing(),
            pdf: PdfLimits {
                max_file_bytes: self.bounded(
                    "MAX_FILE_BYTES",
                    limits.max_file_bytes,
                    1,
                    u64::MAX,
                    "maximum size of a file, in bytes",
                ),
                max_pages: self.bounded(
                    "MAX_PAGES",
                    limits.max_pages,
                    1,
                    1_000_000,
                    "maximum number of pages of a document",
                ),
                max_page_points: self.bounded(
                    "MAX_PAGE_POINTS",
                    limits.max_page_points,
                    72,
                    1_000_000,
                    "maximum length of a page's longer side, in points (1/72 inch)",
                ),
                max_image_pixels: self.bounded(
                    "MAX_IMAGE_PIXELS",
                    limits.max_image_pixels,
                    1,
                    u64::MAX,
                    "maximum number of pixels of an image that is a document or a page of one",
                ),
                page_timeout: self.duration(
                    "PAGE_TIMEOUT",
                    None,
                    limits.page_timeout.as_millis() as u64,
                    "timeout of reading one page with MuPDF",
                ),
                render_timeout: self.duration(
                    "RENDER_TIMEOUT",
                    None,
                    limits.render_timeout.as_millis() as u64,
                    "timeout of rendering the image of one page; without it the page is read from its text",
                ),
                max_memory_bytes: self.bounded(
                    "PDF_MAX_MEMORY_BYTES",
                    limits.max_memory_bytes,
                    64 << 20,
                    1 << 40,
                    "maximum memory of the process that parses PDFs, in bytes",
                ),
            },
            range_pages: self.bounded("RANGE_PAGES", 32, 1, 1000, "pages that are prepared in one step"),
            tenant: self
                .text("TENANT", "tenant of jobs that name none (default: local)")
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
                "priority of jobs that set none",
            ),
            responsible,
            notify,
            environment: self
                .text("ENVIRONMENT", "name of this installation in events (default: local)")
                .unwrap_or_else(|| "local".into()),
            data_dir: self.text(
                "EVERYPAGE_DATA",
                "folder of jobs and results on one machine (default: ~/.local/share/everypage)",
            ),
            data_retention: self.retention(),
            run_dispatcher: self.choice(
                "RUN_DISPATCHER",
                &[("1", true), ("0", false), ("true", true), ("false", false)],
                "1 to process jobs in `serve`; 0 to serve API and console only, next to another process",
            ),
            has_web_password: self.replaced_variables(),
            welcome_credits: self.bounded(
                "WELCOME_CREDITS",
                0,
                0,
                1_000_000_000,
                "credits that a tenant gets once, when its account is first used",
            ),
            log: LogSettings {
                level: self.log_level(),
                pretty: self.flag("LOG_PRETTY", "write logs as readable text instead of JSON"),
                file: self.text("LOG_FILE", "file to which logs are written instead of standard error"),
                max_size_mb: self.bounded(
                    "LOG_MAX_SIZE_MB",
                    100,
                    1,
                    1_000_000,
                    "size at which LOG_FILE is rotated, in megabytes",
                ),
                max_backups: self.bounded(
                    "LOG_MAX_BACKUPS",
                    10,
                    0,
                    1000,
                    "rotated log files that are kept: LOG_FILE.1 is the latest",
                ),
                export: self.log_export(),
            },
            traces: TraceSettings {
                endpoint: self.trace_endpoint(),
                headers: self.trace_headers(),
                service: self
                    .text("OTEL_SERVICE_NAME", "service name in traces and logs (default: the name of the program)"),
            },
            port: self.bounded("PORT", 8080, 1, 65_535, "port of the HTTP server"),
            webhook_allow_private: self.flag(
                "WEBHOOK_ALLOW_PRIVATE",
                "allow webhooks to addresses of this machine and of private networks",
            ),
            rate_limit: self.bounded(
                "RATE_LIMIT",
                100,
                0,
                1_000_000,
                "API requests per second that one caller may make on average; 0 for no limit",
            ),
            cors_origins: self.cors_origins(),
        }
    }

    /// The first provider other than `except` that can be called: who sets one key need not name its
    /// provider as well.
    fn provider_with_access(&mut self, except: Option<Provider>) -> Provider {
        let others: Vec<Provider> =
            Provider::ALL.iter().copied().filter(|one| Some(*one) != except).collect();
        let usable = others.iter().find(|provider| {
            let ProviderProfile { variables, access, .. } = provider.profile();
            let has_key = self.raw(variables.api_key).is_some();
            let missing = access.missing(**provider, has_key, self.raw(variables.base_url).is_some());
            missing.is_empty() && (has_key || access != AccessRule::KeyOrAws)
        });
        usable.or(others.first()).copied().unwrap_or_default()
    }

    fn provider(&mut self, provider: Provider) -> ProviderSettings {
        let ProviderProfile { variables, primary_model, secondary_model, fast_model, .. } =
            provider.profile();
        let mut model = |variable, default: &str, about| {
            self.parsed(variable, default.to_owned(), "a model's name", about)
        };
        let models = Models {
            primary: model(variables.primary_model, primary_model, "model of the primary tier"),
            secondary: model(
                variables.secondary_model,
                secondary_model,
                "model of the secondary tier, called when the first one fails",
            ),
            fast: model(variables.fast_model, fast_model, "model of the fast tier"),
        };
        let api_key = self.secret(variables.api_key, "API key of the provider");
        let base_url = self.url(
            variables.base_url,
            "(the provider's)",
            "base URL of the provider's API, or of a compatible server",
        );
        let api_version = variables.api_version.and_then(|name| {
            self.text(name, "version of the provider's API (default: the latest, unversioned)")
        });
        let region = variables.region.and_then(|name| {
            self.text(name, "AWS region of the provider (default: that of the AWS configuration)")
        });
        ProviderSettings { provider, models, api_key, base_url, api_version, region }
    }

    /// Credits can be bought if both the payment service and the price are set.
    fn purchasing(&mut self) -> Option<Purchasing> {
        let url = self.url(
            "PAYMENT_URL",
            "(not set)",
            "URL of the payment service through which credits are bought",
        );
        let api_key = self.secret("PAYMENT_API_KEY", "API key of the payment service");
        let price = self.credit_price();
        let strategy = self.parsed(
            "PURCHASE_STRATEGY",
            Strategy::Rollback,
            "rollback, partial, forward or manual",
            "what happens to a purchase of credits when a step fails",
        );
        match (url, price) {
            (Some(url), Some(price_usd)) => Some(Purchasing { url, api_key, price_usd, strategy }),
            (Some(_), None) => {
                self.faults
                    .push("PAYMENT_URL is set and CREDIT_PRICE_USD is not; set both or neither".into());
                None
            }
            (None, _) => None,
        }
    }

    fn credit_price(&mut self) -> Option<f64> {
        let name = "CREDIT_PRICE_USD";
        let price = self.optional_usd(name, "price of one credit, which pays for one page that AI reads")?;
        if !(MIN_CREDIT_PRICE..=MAX_CREDIT_PRICE).contains(&price) {
            self.fault(name, &price.to_string(), "an amount from 0.000001 to 1000 US dollars");
            return None;
        }
        Some(price)
    }

    /// The channels of notices; each needs all of its variables.
    fn notify(&mut self, responsible: Option<&str>) -> NotifySettings {
        let url = self.hidden_url(
            "NOTIFY_URL",
            &["https", "http"],
            "URL that is called with each notice to people: dead letters, plans that need approval, bad keys …",
        );
        let secret = self.secret("NOTIFY_SECRET", "secret that signs the calls to NOTIFY_URL");
        let webhook = match (url, secret) {
            (Some(url), Some(secret)) => Some(NotifyWebhook { url, secret }),
            (Some(_), None) => {
                self.faults.push(
                    "NOTIFY_URL is set and NOTIFY_SECRET is not; set it to a random text, with which notices are signed, such as the output of: openssl rand -base64 24"
                        .into(),
                );
                None
            }
            (None, _) => None,
        };
        let server = self.hidden_url(
            "NOTIFY_SMTP_URL",
            &["smtps", "smtp"],
            "mail server for notices: smtps://user:password@host, or smtp://host:587?tls=required",
        );
        let from = self.text("NOTIFY_FROM", "sender of notices by e-mail (default: the recipient)");
        let is_address = |text: &&str| text.contains('@');
        let email = server.and_then(|server| match responsible.filter(is_address) {
            Some(to) => {
                Some(NotifyEmail { server, from: from.unwrap_or_else(|| to.to_owned()), to: to.to_owned() })
            }
            None => {
                self.faults.push(format!(
                    "NOTIFY_SMTP_URL is set and DEFAULT_RESPONSIBLE is {}; accepted: the e-mail address of the person who gets notices",
                    responsible.map_or("not set".to_owned(), |given| format!("{given:?}"))
                ));
                None
            }
        });
        NotifySettings { webhook, email }
    }

    fn retention(&mut self) -> Option<Duration> {
        const NAME: &str = "DATA_RETENTION";
        let raw = self.raw(NAME);
        let retention = match raw.as_deref() {
            None => None,
            Some(text) if text.eq_ignore_ascii_case("unlimited") => None,
            Some(text) => match parse_days(text) {
                Some(time) => Some(time),
                None => {
                    self.fault(NAME, text, "unlimited, or a time such as 30d or 12h");
                    None
                }
            },
        };
        let shown = retention.map_or_else(|| "unlimited".to_owned(), |time| show_duration(&time));
        let about = "how long documents, text, images and results of ended jobs are kept; their events stay";
        self.add_entry(NAME, shown, raw.is_some(), about);
        retention
    }

    /// Warns of variables that other programs of this kind have; returns whether `WEB_PASSWORD` is set.
    fn replaced_variables(&mut self) -> bool {
        for (name, instead) in REPLACED_VARIABLES {
            if self.raw(name).is_some() {
                self.warnings.push(format!("{name} has no effect: {instead}"));
            }
        }
        self.raw("WEB_PASSWORD").is_some()
    }

    /// The pauses before retries: a list, or computed from the first delay, a multiplier and the longest.
    fn intervals(&mut self) -> Vec<Duration> {
        let max_retries: u32 = self.bounded(
            "MAX_RETRIES",
            3,
            0,
            20,
            "maximum number of retries of storage, queue and flow calls, webhooks and purchases",
        );
        let first = self.duration("RETRY_FIRST_DELAY", None, 1000, "pause before the first of those retries");
        let multiplier: u32 =
            self.bounded("RETRY_MULTIPLIER", 4, 1, 100, "factor from one of those pauses to the next");
        let longest = self.duration("RETRY_MAX_DELAY", None, 300_000, "longest of those pauses");
        let computed = |retry: u32| {
            let factor = multiplier.checked_pow(retry);
            factor.and_then(|factor| first.checked_mul(factor)).unwrap_or(longest).min(longest)
        };
        let raw = self.raw("RETRY_INTERVALS");
        let intervals: Vec<Duration> = match &raw {
            None => (0..max_retries).map(computed).collect(),
            Some(text) => {
                let mut given = Vec::new();
                for part in text.split(',').map(str::trim) {
                    match parse_duration(part) {
                        Ok(time) => given.push(time),
                        Err(accepted) => {
                            self.fault("RETRY_INTERVALS", text, &format!("a list, each {accepted}"));
                        }
                    }
                }
                if let Some(last) = given.last().copied() {
                    given.resize(max_retries as usize, last);
                }
                given
            }
        };
        let shown =
            raw.clone().unwrap_or_else(|| intervals.iter().map(show_duration).collect::<Vec<_>>().join(","));
        let about =
            "those pauses as a list, instead of RETRY_FIRST_DELAY, RETRY_MULTIPLIER and RETRY_MAX_DELAY";
        self.add_entry("RETRY_INTERVALS", shown, raw.is_some(), about);
        intervals
    }

    /// Names of Tesseract's language data, such as `eng+deu`.
    fn ocr_languages(&mut self) -> Vec<String> {
        const NAME: &str = "OCR_LANGUAGES";
        let raw = self.raw(NAME);
        let text = raw.clone().unwrap_or_else(|| "eng".into());
        let names: Vec<String> = text.split([',', '+']).map(|name| name.trim().to_owned()).collect();
        let is_name = |name: &String| {
            !name.is_empty()
                && name.len() <= 32
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_valid = names.len() <= 8 && names.iter().all(is_name);
        if !is_valid {
            self.fault(NAME, &text, "up to 8 names of Tesseract's language data, such as eng or deu+fra");
        }
        let names = if is_valid { names } else { vec!["eng".to_owned()] };
        let about =
            "languages of pages that are recognized by OCR; each needs its data, Debian's tesseract-ocr-NAME";
        self.add_entry(NAME, names.join("+"), raw.is_some(), about);
        names
    }

    fn tenants(&mut self) -> Vec<String> {
        let text = self
            .text("TENANTS", "names of the tenants that are allowed, separated by commas (default: any)")
            .unwrap_or_default();
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if text.is_empty() {
            return vec![];
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if names.iter().any(|name| name.is_empty() || !name.chars().all(plain)) {
            self.fault(
                "TENANTS",
                &text,
                "names of letters, digits, . _ and -, separated by commas, such as acme,globex",
            );
        }
        names
    }

    fn cors_origins(&mut self) -> Vec<String> {
        const NAME: &str = "CORS_ORIGINS";
        let about = "origins whose web pages may use the API of `serve`, separated by commas (default: none)";
        let Some(text) = self.text(NAME, about) else { return vec![] };
        let origins: Vec<String> = text.split(',').map(|origin| origin.trim().to_owned()).collect();
        let is_origin = |origin: &String| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            host.is_some_and(|host| {
                !host.is_empty()
                    && host
                        .chars()
                        .all(|c| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '@' | '*' | '\\'))
            })
        };
        if !origins.iter().all(is_origin) {
            let accepted = "origins without a path, separated by commas, such as https://app.example.com";
            self.fault(NAME, &text, accepted);
        }
        origins
    }

    fn log_export(&mut self) -> LogExport {
        const NAME: &str = "OTEL_LOGS_EXPORTER";
        let choices = [("none", LogExport::None), ("otlp", LogExport::Otlp)];
        let export = self.choice(NAME, &choices, "otlp: the log is sent to the OTLP collector as well");
        if export == LogExport::Otlp && self.raw("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
            self.fault(NAME, "otlp", "none, or otlp with OTEL_EXPORTER_OTLP_ENDPOINT");
        }
        export
    }

    fn trace_endpoint(&mut self) -> Option<String> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        self.url(
            NAME,
            "(not set)",
            "URL of the OTLP collector for traces and logs, over HTTP (default: no traces)",
        )
    }

    /// Values are percent-encoded, as OpenTelemetry specifies, and may be keys: they are never shown.
    fn trace_headers(&mut self) -> Vec<(String, Secret)> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        let raw = self.raw(NAME);
        let shown = if raw.is_some() { "(set)" } else { "(not set)" };
        self.add_entry(NAME, shown.into(), raw.is_some(), "headers for that collector: name=value,…");
        let mut headers = Vec::new();
        for entry in raw.iter().flat_map(|raw| raw.split(',')).filter(|entry| !entry.trim().is_empty()) {
            let parts = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let decoded = parts.and_then(|(name, value)| {
                let value = percent_decode_str(value).decode_utf8().ok()?;
                (!name.is_empty()).then(|| (name.to_owned(), Secret::new(value)))
            });
            match decoded {
                Some(header) => headers.push(header),
                None => self.fault(NAME, "(hidden)", "name=value,name=value with percent-encoded values"),
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
            "minimum level of messages that are logged",
        )
        .to_owned()
    }
}
