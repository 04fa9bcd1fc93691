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
    assert_eq!(settings.worker_concurrency, 8);
    assert_eq!(settings.max_inflight_per_model, 2);
    assert_eq!(settings.retry_intervals, [1, 4, 16].map(Duration::from_secs));
    assert_eq!(settings.providers[0].provider, Provider::OpenAi);
    assert!(settings.failover_order().providers.is_empty(), "no key, nobody to ask");
}

#[test]
fn every_mistake_is_reported_with_variable_value_and_what_is_accepted() {
    let faults = read(&[
        ("REQUEST_TIMEOUT", "120"),
        ("IMAGE_DPI", "5"),
        ("PRIMARY_ENGINE", "gemini"),
        ("IMAGE_COLOR", "cmyk"),
        ("OPENAI_BASE_URL", "localhost:1"),
        ("RETRY_INTERVALS", "1s,soon"),
        ("APPROVAL_THRESHOLD_USD", "cheap"),
    ])
    .unwrap_err();
    for (name, value) in [
        ("REQUEST_TIMEOUT", "120"),
        ("IMAGE_DPI", "5"),
        ("PRIMARY_ENGINE", "gemini"),
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
fn old_names_are_honoured_with_a_warning_and_yield_to_the_new_ones() {
    let reading = read(&[("PAGE_TOTAL_TIMEOUT", "7s")]).unwrap();
    assert_eq!(reading.settings.request_timeout, Duration::from_secs(7));
    assert!(reading.warnings[0].contains("REQUEST_TIMEOUT"));
    let reading = read(&[("DOCUMENT_PROCESSING_TIMEOUT", "7s"), ("JOB_TIMEOUT", "9s")]).unwrap();
    assert_eq!(reading.settings.job_timeout, Duration::from_secs(9));
    assert_eq!(reading.warnings.len(), 1);
}

#[test]
fn an_engine_without_a_key_is_left_out_unless_it_has_an_address_of_its_own() {
    let one = read(&[("ANTHROPIC_API_KEY", "k")]).unwrap().settings.failover_order();
    assert_eq!(
        one.providers.iter().map(|(provider, _)| *provider).collect::<Vec<_>>(),
        [Provider::Anthropic]
    );
    let local = read(&[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]).unwrap().settings.failover_order();
    assert_eq!(local.providers.len(), 1);
}

#[test]
fn a_key_is_never_shown() {
    let reading = read(&[("OPENAI_API_KEY", "sk-very-secret")]).unwrap();
    assert!(!format!("{reading:?}").contains("very-secret"));
}

#[test]
fn an_engine_that_was_asked_for_and_has_no_key_is_told_of() {
    let warnings = |pairs: &[(&str, &str)]| read(pairs).unwrap().warnings;
    assert!(warnings(&[("ANTHROPIC_API_KEY", "k")]).is_empty(), "nobody asked for the other");
    let told = warnings(&[("PRIMARY_ENGINE", "openai"), ("ANTHROPIC_API_KEY", "k")]);
    assert_eq!(told, ["PRIMARY_ENGINE is openai, which is left out: OPENAI_API_KEY is not set"]);
    assert!(warnings(&[("PRIMARY_ENGINE", "openai"), ("OPENAI_BASE_URL", "http://x")]).is_empty());
}

#[test]
fn tenants_are_any_or_those_that_are_named() {
    let read = |tenants: &str| read(&[("TENANTS", tenants)]).map(|reading| reading.settings);
    let knows = |tenants: &str, tenant: &str| read(tenants).unwrap().knows(&TenantId::new(tenant));
    assert!(knows("", "anybody"));
    assert!(knows("acme, globex", "globex") && !knows("acme, globex", "acem"));
    assert!(knows("acme", "local"), "the installation's own");
    for wrong in ["acme,,globex", "a/b", "acme globex"] {
        let faults = read(wrong).unwrap_err();
        assert!(faults[0].contains("TENANTS") && faults[0].contains("accepted"), "{faults:?}");
    }
}
