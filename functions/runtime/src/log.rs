//! The log: lines of JSON on standard output, from which Lambda takes them.

use everypage_core::settings::LogSettings;
use tracing_subscriber::EnvFilter;

pub fn start(level: &str) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LogSettings::filter(level)))
        .with_target(false)
        .json()
        .flatten_event(true)
        .with_span_list(false);
    // Fails where this process already has a subscriber, which then stays.
    let _ = lines.try_init();
}
