use super::*;
use crate::settings::Settings;

fn read(pairs: &[(&str, &str)]) -> Result<Reading, Vec<String>> {
    let pairs: Vec<(String, String)> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Settings::read(|name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
}

#[test]
fn nothing_set_gives_the_documented_defaults() {
    let settings = read(&[]).unwrap().settings;
    assert_eq!(settings.request_timeout, Duration::from_secs(120));
    assert_eq!(settings.job_timeout, Duration::from_secs(300));
    assert_eq!(settings.worker_concurrency, None);
    assert_eq!(settings.max_inflight_per_model, MaxInflight::Auto);
    assert_eq!(settings.retry_intervals, [1, 4, 16].map(Duration::from_secs));
    assert_eq!(settings.providers[0].provider, Provider::OpenAi);
    assert!(settings.failover_order().is_empty(), "without a key, no provider can be called");
}

#[test]
fn every_error_names_the_variable_the_value_and_what_is_accepted() {
    let faults = read(&[
        ("REQUEST_TIMEOUT", "120"),
        ("IMAGE_DPI", "5"),
        ("PRIMARY_ENGINE", "grok"),
        ("IMAGE_COLOR", "cmyk"),
        ("OPENAI_BASE_URL", "localhost:1"),
        ("RETRY_INTERVALS", "1s,soon"),
        ("APPROVAL_THRESHOLD_USD", "cheap"),
    ])
    .unwrap_err();
    for (name, value) in [
        ("REQUEST_TIMEOUT", "120"),
        ("IMAGE_DPI", "5"),
        ("PRIMARY_ENGINE", "grok"),
        ("IMAGE_COLOR", "cmyk"),
        ("OPENAI_BASE_URL", "localhost:1"),
        ("RETRY_INTERVALS", "1s,soon"),
        ("APPROVAL_THRESHOLD_USD", "cheap"),
    ] {
        let fault = faults
            .iter()
            .find(|fault| fault.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {faults:?}"));
        assert!(fault.contains(value) && fault.contains("accepted"), "{fault}");
    }
}

#[test]
fn old_names_give_a_warning_and_are_ignored_if_the_new_ones_are_set() {
    let reading = read(&[("PAGE_TOTAL_TIMEOUT", "7s")]).unwrap();
    assert_eq!(reading.settings.request_timeout, Duration::from_secs(7));
    assert!(reading.warnings[0].contains("REQUEST_TIMEOUT"));
    let reading = read(&[("DOCUMENT_PROCESSING_TIMEOUT", "7s"), ("JOB_TIMEOUT", "9s")]).unwrap();
    assert_eq!(reading.settings.job_timeout, Duration::from_secs(9));
    assert_eq!(reading.warnings.len(), 1);
}

#[test]
fn a_provider_without_a_key_is_used_only_with_its_own_base_url() {
    let one = read(&[("ANTHROPIC_API_KEY", "k")]).unwrap().settings.failover_order();
    assert_eq!(one.providers(), [Provider::Anthropic]);
    let local = read(&[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]).unwrap().settings.failover_order();
    assert_eq!(local.providers(), [Provider::OpenAi]);
    let key_alone = read(&[("AZURE_OPENAI_API_KEY", "k")]).unwrap().settings.failover_order();
    assert!(key_alone.is_empty(), "it has no public address");
}

#[test]
fn who_sets_one_key_need_not_name_its_provider() {
    let providers = |pairs: &[(&str, &str)]| read(pairs).unwrap().settings.failover_order().providers();
    assert_eq!(providers(&[("GEMINI_API_KEY", "k")]), [Provider::Gemini]);
    let two = [("MISTRAL_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    assert_eq!(providers(&two), [Provider::Anthropic, Provider::Mistral]);
    let chosen = [("GEMINI_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("PRIMARY_ENGINE", "gemini")];
    assert_eq!(providers(&chosen), [Provider::Gemini, Provider::OpenAi]);
    assert!(providers(&[]).is_empty(), "Bedrock needs no key, but has to be named");
    assert_eq!(providers(&[("PRIMARY_ENGINE", "bedrock")]), [Provider::Bedrock]);
    let one = [("GEMINI_API_KEY", "k"), ("PRIMARY_ENGINE", "gemini"), ("SECONDARY_ENGINE", "gemini")];
    assert_eq!(providers(&one), [Provider::Gemini]);
}

#[test]
fn a_failover_list_replaces_the_engines() {
    let keys = [("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
    let list = "gemini:a,openai:b,mistral:c,gemini:d,openai:e,openai:f";
    let reading = read(&[keys[0], keys[1], ("FAILOVER", list)]).unwrap();
    let steps = reading.settings.failover_order().steps(Tier::Primary);
    let names: Vec<&str> = steps.iter().map(|target| target.model.as_str()).collect();
    assert_eq!(names, ["a", "b", "d", "e", "f"], "without the one that has no key");
    assert_eq!(reading.warnings, ["FAILOVER has mistral, which is not used: set MISTRAL_API_KEY"]);

    let own: FailoverList = "openai:x".parse().unwrap();
    let of_job = reading.settings.failover_order_of(&own).steps(Tier::Primary);
    assert_eq!(of_job, own.0, "a job's own list replaces it");
    let faults = read(&[("FAILOVER", "gpt-5.4")]).unwrap_err();
    assert!(faults[0].contains("FAILOVER") && faults[0].contains("PROVIDER:MODEL"), "{faults:?}");
}

#[test]
fn a_key_is_never_shown() {
    let reading = read(&[("OPENAI_API_KEY", "sk-very-secret")]).unwrap();
    assert!(!format!("{reading:?}").contains("very-secret"));
}

#[test]
fn a_chosen_provider_without_a_key_gives_a_warning() {
    let warnings = |pairs: &[(&str, &str)]| read(pairs).unwrap().warnings;
    assert!(warnings(&[("ANTHROPIC_API_KEY", "k")]).is_empty(), "the other provider was not chosen");
    let warned = warnings(&[("PRIMARY_ENGINE", "openai"), ("ANTHROPIC_API_KEY", "k")]);
    assert_eq!(warned, ["PRIMARY_ENGINE is openai, which is not used: OPENAI_API_KEY is not set"]);
    assert!(warnings(&[("PRIMARY_ENGINE", "openai"), ("OPENAI_BASE_URL", "http://x")]).is_empty());
}

#[test]
fn origins_have_a_scheme_and_no_path() {
    let read =
        |origins: &str| read(&[("CORS_ORIGINS", origins)]).map(|reading| reading.settings.cors_origins);
    assert_eq!(read("").unwrap(), Vec::<String>::new());
    let two = ["https://app.example.com", "http://localhost:3000"];
    assert_eq!(read(&two.join(" , ")).unwrap(), two);
    for wrong in
        ["*", "app.example.com", "https://", "https://a/", "https://a/b", "https://a,", "https://*.a"]
    {
        let faults = read(wrong).unwrap_err();
        assert!(faults[0].contains("CORS_ORIGINS") && faults[0].contains("accepted"), "{faults:?}");
    }
}

#[test]
fn any_tenant_is_allowed_unless_tenants_lists_names() {
    let read = |tenants: &str| read(&[("TENANTS", tenants)]).map(|reading| reading.settings);
    let allows = |tenants: &str, tenant: &str| read(tenants).unwrap().allows_tenant(&TenantId::new(tenant));
    assert!(allows("", "acme"));
    assert!(allows("acme, globex", "globex") && !allows("acme, globex", "acem"));
    assert!(allows("acme", "local"), "the installation's own tenant");
    for wrong in ["acme,,globex", "a/b", "acme globex"] {
        let faults = read(wrong).unwrap_err();
        assert!(faults[0].contains("TENANTS") && faults[0].contains("accepted"), "{faults:?}");
    }
}

#[test]
fn a_channel_of_notices_needs_all_of_its_variables_and_shows_no_secret() {
    let faults = read(&[("NOTIFY_URL", "https://chat.example/T0/token")]).unwrap_err();
    assert!(faults[0].contains("NOTIFY_SECRET") && !faults[0].contains("token"), "{faults:?}");
    let faults = read(&[("NOTIFY_SMTP_URL", "smtps://me:pass@mail.example")]).unwrap_err();
    assert!(faults[0].contains("DEFAULT_RESPONSIBLE is not set"), "{faults:?}");
    let faults =
        read(&[("NOTIFY_SMTP_URL", "mail:pass@x"), ("DEFAULT_RESPONSIBLE", "a@b.example")]).unwrap_err();
    assert!(faults[0].contains("smtps://") && !faults[0].contains("pass@x"), "{faults:?}");
    let reading = read(&[
        ("NOTIFY_URL", "https://chat.example/T0/token"),
        ("NOTIFY_SECRET", "hush"),
        ("NOTIFY_SMTP_URL", "smtps://me:pass@mail.example"),
        ("DEFAULT_RESPONSIBLE", "ops@example.org"),
    ])
    .unwrap();
    let email = reading.settings.notify.email.unwrap();
    assert_eq!((email.from.as_str(), email.to.as_str()), ("ops@example.org", "ops@example.org"));
    for entry in reading.entries {
        assert!(!["token", "hush", "pass"].iter().any(|secret| entry.value.contains(secret)), "{entry:?}");
    }
}

#[test]
fn addresses_are_shown_without_credentials() {
    let shown = |url: &str| {
        let reading = read(&[("OPENAI_BASE_URL", url), ("OTEL_EXPORTER_OTLP_ENDPOINT", url)]).unwrap();
        ["OPENAI_BASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .map(|name| reading.entries.iter().find(|entry| entry.name == name).unwrap().value.clone())
    };
    assert_eq!(shown("https://ann:hunter2@llm.example/v1"), ["https://***@llm.example/v1"; 2]);
    assert_eq!(shown("https://llm.example/v1?mail=a@b"), ["https://llm.example/v1?mail=a@b"; 2]);
    let faults = read(&[("OPENAI_BASE_URL", "ftp://ann:hunter2@llm.example")]).unwrap_err();
    assert!(!faults[0].contains("hunter2"), "{faults:?}");
}

#[test]
fn the_job_timeout_is_within_the_longest_deadline() {
    assert_eq!(read(&[]).unwrap().settings.max_deadline, Duration::from_secs(24 * 3600));
    let faults = read(&[("JOB_TIMEOUT", "2h"), ("MAX_DEADLINE", "1h")]).unwrap_err();
    assert!(faults[0].contains("JOB_TIMEOUT") && faults[0].contains("MAX_DEADLINE"), "{faults:?}");
}

#[test]
fn retries_are_four_numbers_or_a_list() {
    let seconds = |pairs: &[(&str, &str)]| -> Vec<u64> {
        let intervals = read(pairs).unwrap().settings.retry_intervals;
        intervals.iter().map(Duration::as_secs).collect()
    };
    assert_eq!(seconds(&[]), [1, 4, 16]);
    let given = [
        ("MAX_RETRIES", "5"),
        ("RETRY_FIRST_DELAY", "2s"),
        ("RETRY_MULTIPLIER", "3"),
        ("RETRY_MAX_DELAY", "30s"),
    ];
    assert_eq!(seconds(&given), [2, 6, 18, 30, 30]);
    assert_eq!(seconds(&[("RETRY_INTERVALS", "1s,5s"), ("MAX_RETRIES", "3")]), [1, 5, 5]);
    assert_eq!(seconds(&[("MAX_RETRIES", "0")]), [0; 0]);
    assert_eq!(seconds(&[("MAX_RETRIES", "20"), ("RETRY_MULTIPLIER", "100")]).len(), 20);
}

#[test]
fn retention_is_unlimited_or_in_days() {
    let retention = |text: &str| read(&[("DATA_RETENTION", text)]).map(|read| read.settings.data_retention);
    assert_eq!(retention("").unwrap(), None);
    assert_eq!(retention("unlimited").unwrap(), None);
    assert_eq!(retention("30d").unwrap(), Some(Duration::from_secs(30 * 24 * 3600)));
    assert_eq!(retention("12h").unwrap(), Some(Duration::from_secs(12 * 3600)));
    for bad in ["0d", "-3d", "soon", "99999999999999999999d"] {
        assert!(retention(bad).unwrap_err()[0].contains("30d"), "{bad}");
    }
}

#[test]
fn variables_of_other_programs_are_named_with_what_to_use_instead() {
    let reading = read(&[("REDIS_URL", "redis://x"), ("WEB_PASSWORD", "hush")]).unwrap();
    assert!(reading.settings.has_web_password);
    assert!(
        reading
            .warnings
            .iter()
            .any(|warning| warning.contains("REDIS_URL") && warning.contains("EVERYPAGE_DATA"))
    );
    assert!(reading.warnings.iter().all(|warning| !warning.contains("hush")));
}
