//! Hostile PDFs: writes them, and runs any folder of PDFs through the reading that a job does.
//!
//! ```text
//! torture ──> a process per file ──> IsolatedPdf ──> a parser's process
//!  watches     (torture-file)         (as in a job)   (as in a job)
//!  time and
//!  memory
//! ```
//!
//! The process in the middle contains defects of Everypage's own code: in a job they would end the
//! whole program, here they cost one file and are reported.
//!
//! `./everypage dev hostile` and `./everypage dev torture` run this program; the shipped one does
//! not contain it.

mod args;
mod folder;
mod human;
mod memory;
mod outcome;
mod process;
mod read;
mod report;

use std::{fs, io, num::NonZeroUsize, path::Path, process::ExitCode, time::Duration};

use clap::Parser;
use console::style;
use everypage_core::settings::{OcrPages, Settings};
use everypage_pdf::{ChildCommand, IsolatedPdf, OcrProgram, TesseractOcr};
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    args::{Cli, Command, Torture},
    outcome::{FileReport, Outcome, ReadRequest, ReadResult},
    report::Report,
};

/// The file of this program, even after a new build replaced it.
const OWN_PROGRAM: &str = "/proc/self/exe";

const DEFECTS: u8 = 1;
const USAGE: u8 = 2;
const CANCELLED: u8 = 130;

/// An exit code and what to print before it.
type Failure = (u8, String);

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // Before any thread starts, which the child process relies on.
    if matches!(command, Command::PdfChild) {
        return if everypage_pdf::child::run().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match start(command) {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("{} {message}", style("error:").for_stderr().red().bold());
            ExitCode::from(code)
        }
    }
}

fn start(command: Command) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| (DEFECTS, format!("the threads could not be started: {error}")))?;
    match command {
        Command::Hostile { folder, count, seed } => write_hostile(&folder, count, seed),
        Command::Torture(args) => runtime.block_on(torture(args)),
        Command::TortureFile { file } => runtime.block_on(read_one(&file)),
        Command::PdfChild => Ok(0),
    }
}

fn write_hostile(folder: &Path, count: Option<usize>, seed: u64) -> Result<u8, Failure> {
    let unwritable = |path: &Path, error| (DEFECTS, format!("{} can't be written: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    let count = count.unwrap_or_else(everypage_hostile::kinds);
    for file in everypage_hostile::files(count, seed) {
        let path = folder.join(&file.name);
        fs::write(&path, &file.bytes).map_err(|error| unwritable(&path, error))?;
    }
    eprintln!(
        "{} in {folder}; try `./everypage dev torture {folder}` (the password of the encrypted ones is {})",
        human::count(count as u64, "file", "files"),
        everypage_hostile::PASSWORD,
        folder = folder.display(),
    );
    Ok(0)
}

async fn torture(args: Torture) -> Result<u8, Failure> {
    let files = folder::pdfs_in(&args.files)
        .map_err(|(path, error)| (USAGE, format!("{} can't be read: {error}", path.display())))?;
    if files.is_empty() {
        return Err((USAGE, "no PDF found: name files, or folders with files that end in .pdf".into()));
    }
    let request = request(&args)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(files.len() as u64) };
    if let Ok(style) = ProgressStyle::with_template("{bar:30.cyan/dim} {pos}/{len}  {elapsed}  {msg:.red}") {
        bar.set_style(style);
    }
    let mut results =
        stream::iter(files.into_iter().map(|file| process::run(Path::new(OWN_PROGRAM), file, &request)))
            .buffered(jobs);
    let mut report = Report::default();
    loop {
        let file = tokio::select! {
            file = results.next() => file,
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                println!("{}", report.summary());
                return Ok(CANCELLED);
            }
        };
        let Some(file) = file else { break };
        if !args.quiet || matches!(file.outcome, Outcome::Defect { .. }) {
            bar.suspend(|| println!("{}", line(&file)));
        }
        report.add(file);
        bar.inc(1);
        if report.counts.defects > 0 {
            bar.set_message(human::count(report.counts.defects, "defect", "defects"));
        }
    }
    bar.finish_and_clear();
    println!("\n{}", report.summary());
    for defect in report.defects() {
        println!("\n{}\n  again: {}", line(defect), replay(&defect.file, &args));
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&report).map_err(io::Error::other);
        json.and_then(|json| fs::write(path, json))
            .map_err(|error| (DEFECTS, format!("{} can't be written: {error}", path.display())))?;
    }
    Ok(if report.counts.defects == 0 { 0 } else { DEFECTS })
}

/// Reads one file for [`torture`], which sends the request on stdin.
async fn read_one(file: &Path) -> Result<u8, Failure> {
    let request: ReadRequest = serde_json::from_reader(io::stdin())
        .map_err(|error| (USAGE, format!("`torture` starts this command: {error}")))?;
    let pdf = IsolatedPdf::new(ChildCommand::new(OWN_PROGRAM).arg("pdf-child"), request.limits)
        .with_children(NonZeroUsize::MIN)
        .with_open_timeout(request.step_timeout);
    let program = std::env::current_exe().unwrap_or_default().with_file_name("everypage-ocr");
    let ocr = TesseractOcr::new(OcrProgram::new(program));
    let outcome = read::read(&pdf, &ocr, file, &request).await;
    let result = ReadResult { outcome, losses: pdf.child_failures() };
    serde_json::to_writer(io::stdout(), &result).map_err(|error| (DEFECTS, error.to_string()))?;
    Ok(0)
}

fn request(args: &Torture) -> Result<ReadRequest, Failure> {
    #[expect(clippy::disallowed_methods, reason = "the one place where settings enter")]
    let settings = Settings::read(|name| std::env::var(name).ok());
    let settings = settings.map_err(|faults| (USAGE, faults.join("\n       ")))?.settings;
    let mut limits = settings.pdf;
    if let Some(bytes) = args.memory_limit {
        limits.max_memory_bytes = bytes;
    }
    Ok(ReadRequest {
        limits,
        password: args.password.clone(),
        step_timeout: settings.step_timeout.min(args.time_limit),
        time_limit: args.time_limit,
        range_pages: settings.range_pages,
        image: settings.image,
        ocr: settings.ocr != OcrPages::Off,
    })
}

fn line(file: &FileReport) -> String {
    let word = match &file.outcome {
        Outcome::Text(_) => style("text").green(),
        Outcome::Error { .. } => style("error").yellow(),
        Outcome::Defect { .. } => style("DEFECT").red().bold(),
    };
    format!("{word:6}  {}  {}", file.file.display(), file.outcome.line())
}

/// The command that shows a defect again.
fn replay(file: &Path, args: &Torture) -> String {
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let quoted = file.display().to_string().replace('\'', r"'\''");
    let mut command =
        format!("./everypage dev torture '{quoted}' --time-limit {}", milliseconds(args.time_limit));
    if let Some(bytes) = args.memory_limit {
        command += &format!(" --memory-limit {bytes}");
    }
    if args.password.is_some() {
        command += " --password …";
    }
    command
}
