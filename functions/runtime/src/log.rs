//! Lines of JSON on standard output, where Lambda takes them from.

use tracing_subscriber::EnvFilter;

pub fn start(level: &str) {
    // What other crates log in passing is about connections, not about documents.
    let quiet = ["hyper", "hyper_util", "reqwest", "rustls", "h2", "aws", "opentelemetry"]
        .map(|name| format!(",{name}=error"));
    let filter = EnvFilter::new(format!("{level}{}", quiet.concat()));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .json()
        .flatten_event(true)
        .with_span_list(false);
    // Started before in this process: then that one holds.
    let _ = lines.try_init();
}
