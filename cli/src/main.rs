//! Everypage at the command line: parse, read the settings, dispatch.

mod args;
mod commands;
mod confirm;
mod documents;
mod engine;
mod exit;
mod find;
mod human;
mod output;
mod problem;
mod progress;
mod screen;
mod settings;
mod stop;
mod summary;
mod table;
mod torture;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    exit::Exit,
    problem::Problem,
    screen::Screen,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // First of all: it must not have started a thread, and needs nothing of what follows.
    if matches!(cli.command, Command::PdfChild) {
        return match everypage_pdf::child::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
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
        .map_err(|error| Problem::Failed(format!("no threads could be started: {error}")))?;
    let traces = context.traces.clone();
    let exit = runtime.block_on(commands::run(cli.command, context));
    runtime.block_on(traces.flush());
    // Calls that nobody waits for any more end with the process, not before it.
    runtime.shutdown_background();
    exit
}

fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place where settings enter")]
    std::env::var(name).ok()
}
