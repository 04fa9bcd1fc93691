//! The log: lines of JSON on standard output, from which Lambda takes them.

use everypage_core::settings::LogSettings;
use tracing_subscriber::{filter::Targets, prelude::*};

pub fn start(level: &str) {
    let filter: Targets = LogSettings::filter(level).parse().unwrap_or_default();
    let lines =
        tracing_subscriber::fmt::layer().with_target(false).json().flatten_event(true).with_span_list(false);
    // Fails if this process already has a subscriber, which then stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
