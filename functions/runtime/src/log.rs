//! The log: lines of JSON on standard output, from which Lambda takes them.

use std::io;

use everypage_core::{safe_text::Safe, settings::LogSettings};
use everypage_outbound::OtlpLogs;
use tracing_subscriber::{filter::Targets, prelude::*};

/// Starts the log; `collector` gets the same lines.
pub fn start(level: &str, collector: Option<OtlpLogs>) {
    let filter: Targets = LogSettings::filter(level).parse().unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_writer(|| Safe(io::stdout()));
    // Fails if this process already has a subscriber, which then stays.
    let _ = tracing_subscriber::registry().with(filter).with(collector).with(lines).try_init();
}
