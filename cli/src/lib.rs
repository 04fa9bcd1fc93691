//! Everypage at the command line: parse the arguments, read the settings, run the command.
//!
//! The feature `aws` adds the AWS backend. Without it the program works on this machine alone and
//! builds in a fraction of the time. Tests always have it: this package is its own
//! dev-dependency with the feature.

mod args;
mod backend;
mod commands;
mod compare;
mod confirm;
mod ctrl_c;
mod docs;
mod documents;
mod enter_key;
mod exit;
mod find;
mod human;
mod mcp;
mod ocr_build;
mod output;
mod page_counts;
mod page_groups;
mod problem;
mod progress;
mod s3_address;
mod screen;
mod settings;
mod summary;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    exit::Exit,
    problem::Problem,
    screen::Screen,
};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before any thread starts, which the child process relies on.
    if matches!(cli.command, Command::PdfChild) {
        return match everypage_pdf::child::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    // Its parsers run as the same user, and its environment has the keys.
    everypage_pdf::protect_memory();
    let screen = Screen::new(cli.global.quiet);
    let exit = start(cli, &screen).unwrap_or_else(|problem| {
        screen.error(&problem.to_string());
        problem.exit()
    });
    ExitCode::from(exit.code())
}

fn start(cli: Cli, screen: &Screen) -> Result<Exit, Problem> {
    let context = settings::read(&cli, screen, environment)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Problem::Failed(format!("the threads could not be started: {error}")))?;
    let (traces, logs) = (context.traces.clone(), context.logs.clone());
    let exit = runtime.block_on(commands::run(cli.command, context));
    runtime.block_on(async {
        traces.flush().await;
        if let Some(logs) = logs {
            logs.flush().await;
        }
    });
    // Calls whose result is no longer needed end with the process; it does not wait for them.
    runtime.shutdown_background();
    exit
}

fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place where settings enter")]
    std::env::var(name).ok()
}
