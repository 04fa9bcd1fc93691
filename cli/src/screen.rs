//! Standard output for results, standard error for everything else, and progress bars between them.

use std::io::{self, IsTerminal, Write};

use console::style;
use everypage_core::safe_text::safe;
use indicatif::{MultiProgress, ProgressDrawTarget};
use tracing_subscriber::fmt::MakeWriter;

use crate::problem::Problem;

/// Clones share the bars.
#[derive(Clone)]
pub struct Screen {
    pub bars: MultiProgress,
    quiet: bool,
}

impl Screen {
    pub fn new(quiet: bool) -> Self {
        let target = match quiet || !io::stderr().is_terminal() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        Self { bars: MultiProgress::with_draw_target(target), quiet }
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Are bars shown?
    pub fn has_bars(&self) -> bool {
        !self.bars.is_hidden()
    }

    /// Prints information on standard error, unless `--quiet`.
    pub fn note(&self, line: &str) {
        if !self.quiet {
            self.stderr(line);
        }
    }

    pub fn warn(&self, line: &str) {
        if !self.quiet {
            self.stderr(&format!("{} {line}", style("warning:").for_stderr().yellow().bold()));
        }
    }

    pub fn error(&self, line: &str) {
        self.stderr(&format!("{} {line}", style("error:").for_stderr().red().bold()));
    }

    fn stderr(&self, line: &str) {
        self.bars.suspend(|| {
            // If standard error fails, there is nowhere to report it.
            let _ = writeln!(io::stderr(), "{}", safe(line));
        });
    }

    /// Prints a result on standard output: as it is to a file or program, safe to look at on a terminal. A reader
    /// that closed its end is not an error.
    pub fn print(&self, bytes: &[u8]) -> Result<(), Problem> {
        self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            let text = out.is_terminal().then(|| String::from_utf8_lossy(bytes));
            let shown = text.as_deref().map(safe);
            let bytes = shown.as_ref().map_or(bytes, |text| text.as_bytes());
            match out.write_all(bytes).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(Problem::Failed(format!("standard output can't be written: {error}")))
                }
                _ => Ok(()),
            }
        })
    }

    pub fn print_line(&self, line: &str) -> Result<(), Problem> {
        self.print(format!("{line}\n").as_bytes())
    }

    pub fn print_json(&self, value: &impl serde::Serialize) -> Result<(), Problem> {
        self.print_line(&serde_json::to_string_pretty(value)?)
    }
}

/// A log line, printed above the bars.
pub struct LogLine {
    screen: Screen,
    line: Vec<u8>,
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        self.screen.bars.suspend(|| {
            let _ = io::stderr().write_all(safe(&String::from_utf8_lossy(&self.line)).as_bytes());
        });
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        LogLine { screen: self.clone(), line: Vec::new() }
    }
}
