//! Reads the command line and the environment into the context of a command.

mod adapters;
mod address;
mod data;
mod log_file;
mod logs;
#[cfg(feature = "aws")]
mod stack;
mod terminal;
mod variables;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everypage_core::{
    ports::traces::{NoTraces, Traces},
    providers::target::Provider,
    settings::{Reading, Settings},
};
use everypage_outbound::OtlpLogs;

use crate::{
    args::{Cli, Command},
    problem::Problem,
    screen::Screen,
};

pub use adapters::{ocr, open_local, open_to_serve, pdf, vision};
pub use address::Address;
#[cfg(feature = "aws")]
pub use address::StackAddress;
#[cfg(feature = "aws")]
pub use stack::connect;
pub use variables::PROGRAM_VARIABLES;

/// A message about missing API keys, with their variables and the consequence.
pub fn no_api_key(consequence: &str) -> String {
    format!("no API key is set ({}): {consequence}", Provider::api_key_variables().join(", "))
}

/// The context of every command.
pub struct Context {
    pub screen: Screen,
    /// The settings or all their faults, which `config check` lists.
    pub reading: Result<Reading, Vec<String>>,
    pub address: Address,
    /// This program with the options of the same backend, for commands that are shown.
    pub program: String,
    data: Option<PathBuf>,
    /// Flushed before the process ends.
    pub traces: Arc<dyn Traces>,
    /// Flushed with the traces.
    pub logs: Option<OtlpLogs>,
    pub verbose: bool,
}

impl Context {
    pub fn settings(&self) -> Result<&Settings, Problem> {
        match &self.reading {
            Ok(reading) => Ok(&reading.settings),
            Err(faults) => Err(Problem::Usage(faults.join("\n       "))),
        }
    }

    /// The folder of jobs and results.
    pub fn data(&self) -> Result<&Path, Problem> {
        self.data.as_deref().ok_or_else(|| {
            let reason = "no home folder was found to store jobs in; pass --data DIR or set EVERYPAGE_DATA";
            Problem::Usage(reason.into())
        })
    }
}

/// Reads the environment once and starts the log.
pub fn read(cli: &Cli, screen: &Screen, var: impl Fn(&str) -> Option<String>) -> Result<Context, Problem> {
    let reading = Settings::read(&var);
    let data = data::folder(cli.global.data.clone(), &var);
    let mut context = Context {
        screen: screen.clone(),
        reading,
        address: Address::read(&cli.global, &var)?,
        program: address::program(&cli.global, &var),
        data,
        traces: Arc::new(NoTraces),
        logs: None,
        verbose: cli.global.verbose > 0,
    };
    // These need no settings and must work however wrong they are.
    let ignores_settings = matches!(
        cli.command,
        Command::Config(_) | Command::Completions { .. } | Command::Dev(_) | Command::Demo
    );
    match (&context.reading, ignores_settings) {
        (Ok(reading), _) => {
            if !ignores_settings {
                context.logs = adapters::logs(&reading.settings)?;
            }
            let demo = matches!(cli.command, Command::Demo);
            logs::start(reading, cli.global.verbose, screen, demo, context.logs.clone())?;
            if !ignores_settings {
                context.traces = adapters::traces(&reading.settings)?;
                for warning in &reading.warnings {
                    screen.warn(warning);
                }
            }
        }
        (Err(_), true) => {}
        (Err(_), false) => drop(context.settings()?),
    }
    Ok(context)
}
