//! The command line.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use everypage_core::settings::parse_duration;

const MIN_MEMORY_BYTES: u64 = 64 << 20;

const OUTCOMES: &str = "\
Each file is read in a process of its own: opened, the text of all pages, then the images of pages
with graphics. Limits that are not options come from the settings (PAGE_TIMEOUT, MAX_PAGES, ...).

Outcomes:
  text    pages were read; unreadable ones are counted, with the reason
  error   the file was rejected, with the error's code and message
  DEFECT  crash        Everypage's own process died, or its code panicked
          hang         reading continued after --time-limit
          memory       a parser, or the program itself, used more than --memory-limit
          pages        a page is missing, out of order, or has neither content nor a reason
          words        an error is empty, or contains control characters
          unavailable  the file was not read at all

Contained and counted separately, because a job continues with its other pages: the parser crashes
in its own process, a page reaches its timeout, or --time-limit ends the reading as a deadline does.

Exit codes: 0 no defect, 1 some, 2 wrong usage.";

/// Tools for hostile PDFs.
#[derive(Debug, Parser)]
#[command(name = "everypage-torture", bin_name = "./everypage dev", max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write PDFs that attack their reader; each name describes the attack
    Hostile {
        /// Folder to write to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Number of files: one of each kind, then damaged variants [default: one of each kind]
        #[arg(long, value_name = "N")]
        count: Option<usize>,
        /// Seed of the random files: equal seeds make equal files
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
    },
    /// Read PDFs as a job does, and report the outcome of each
    #[command(after_help = OUTCOMES)]
    Torture(Torture),
    /// Read one PDF for `torture`
    #[command(hide = true)]
    TortureFile { file: PathBuf },
    /// Parse PDFs for a parent process
    #[command(hide = true)]
    PdfChild,
}

#[derive(Debug, Args)]
pub struct Torture {
    /// PDFs, and folders that are searched for files ending in .pdf
    #[arg(required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Files read in parallel [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Time after which the reading of a file ends, as by a job's deadline
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Duration,
    /// Maximum memory of a process, such as 512M or 2G [default: $PDF_MAX_MEMORY_BYTES]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub memory_limit: Option<u64>,
    /// Password of encrypted PDFs; other users of this machine may see it
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Write the whole report to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print defects and the summary only
    #[arg(short, long)]
    pub quiet: bool,
}

fn memory(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes >= MIN_MEMORY_BYTES)
        .ok_or_else(|| "bytes, at least 64M, such as 536870912, 512M or 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        assert_eq!(memory("512M"), Ok(512 << 20));
        assert!(memory("1K").is_err() && memory("99999999999G").is_err());
    }
}
