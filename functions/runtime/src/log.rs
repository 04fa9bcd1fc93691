//! Lines of JSON on standard output, where Lambda takes them from.

use everypage_core::config::LogSettings;
use tracing_subscriber::EnvFilter;

pub fn start(level: &str) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LogSettings::filter(level)))
        .with_target(false)
        .json()
        .flatten_event(true)
        .with_span_list(false);
    // Started before in this process: then that one holds.
    let _ = lines.try_init();
}
