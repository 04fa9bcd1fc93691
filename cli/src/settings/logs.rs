//! The log: to standard error or a file, as JSON or for people, never with document text.

use std::{io::IsTerminal, sync::Mutex};

use everypage_core::{
    safe_text::Safe,
    settings::{LogSettings, Reading},
};
use everypage_outbound::OtlpLogs;
use tracing_subscriber::{filter::Targets, fmt::writer::BoxMakeWriter, prelude::*};

use super::log_file::RotatingFile;
use crate::{problem::Problem, screen::Screen};

/// `LOG_LEVEL`, unless `-v` raises it.
fn level(configured: &str, verbose: u8) -> &str {
    match (verbose, configured) {
        (0, configured) => configured,
        (1, configured @ ("debug" | "trace")) => configured,
        (1, _) => "info",
        (_, "trace") => "trace",
        (_, _) => "debug",
    }
}

/// Starts the log; what goes to `collector` is what the log has.
pub fn start(
    reading: &Reading,
    verbose: u8,
    screen: &Screen,
    demo: bool,
    collector: Option<OtlpLogs>,
) -> Result<(), Problem> {
    let log = &reading.settings.log;
    let chosen = |name| reading.entries.iter().any(|entry| entry.name == name && entry.from_environment);
    let at_terminal = log.file.is_none() && std::io::stderr().is_terminal();
    let filter = match verbose == 0 && !chosen("LOG_LEVEL") {
        // The commands report documents and models themselves; the demo reports everything.
        true if demo => "off".to_owned(),
        true if at_terminal || screen.is_quiet() => "error,everypage_core::dead_letters::add=off".to_owned(),
        _ => LogSettings::filter(level(&log.level, verbose)),
    };
    let (writer, colours) = match &log.file {
        None => (BoxMakeWriter::new(screen.clone()), console::colors_enabled_stderr()),
        Some(path) => {
            let opened = RotatingFile::open(path.as_ref(), log.max_size_mb << 20, log.max_backups);
            let file = opened.map_err(|error| {
                Problem::Usage(format!("LOG_FILE is {path:?} and can't be written: {error}"))
            })?;
            (BoxMakeWriter::new(Mutex::new(Safe(file))), false)
        }
    };
    // JSON at a terminal only if LOG_PRETTY demands it.
    let pretty = log.pretty || (at_terminal && !chosen("LOG_PRETTY"));
    let unstarted =
        |error: &dyn std::fmt::Display| Problem::Failed(format!("the log can't be started: {error}"));
    // Unlike `EnvFilter`, `Targets` needs no regular expressions, which take long to build.
    let filter: Targets = filter.parse().map_err(|error| unstarted(&error))?;
    let log = tracing_subscriber::registry().with(filter).with(collector);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    let started = if pretty {
        log.with(lines.compact().with_ansi(colours).without_time()).try_init()
    } else {
        log.with(lines.json().flatten_event(true)).try_init()
    };
    started.map_err(|error| unstarted(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbose_never_lowers_the_configured_level() {
        assert_eq!(level("warn", 0), "warn");
        assert_eq!(level("warn", 1), "info");
        assert_eq!(level("debug", 1), "debug");
        assert_eq!(level("trace", 3), "trace");
        assert_eq!(level("off", 2), "debug");
    }
}
