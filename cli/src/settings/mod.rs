//! From the command line and the environment to what a command works with.

mod address;
mod data;
mod engine;
mod logs;
mod stack;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everypage_core::{
    config::{Reading, Settings},
    ports::traces::{NoTraces, Traces},
};

use crate::{
    args::{Cli, Command},
    problem::Problem,
    screen::Screen,
};

pub use address::{Address, StackAddress};
pub use engine::{open_engine, own_program, providers};
pub use stack::connect;

/// What every command is given.
pub struct Context {
    pub screen: Screen,
    /// Every mistake in the settings, for the one command that lists them.
    pub reading: Result<Reading, Vec<String>>,
    pub address: Address,
    /// How to call this program again for the same engine.
    pub program: String,
    data: Option<PathBuf>,
    /// Told before the process ends.
    pub traces: Arc<dyn Traces>,
    pub verbose: bool,
}

impl Context {
    pub fn settings(&self) -> Result<&Settings, Problem> {
        match &self.reading {
            Ok(reading) => Ok(&reading.settings),
            Err(faults) => Err(Problem::Usage(faults.join("\n       "))),
        }
    }

    /// Where jobs and results are kept.
    pub fn data(&self) -> Result<&Path, Problem> {
        self.data.as_deref().ok_or_else(|| {
            let reason = "there is no home folder to keep jobs in; pass --data DIR or set EVERYPAGE_DATA";
            Problem::Usage(reason.into())
        })
    }
}

/// Reads everything there is to read, once, and starts the log.
pub fn read(cli: &Cli, screen: &Screen, var: impl Fn(&str) -> Option<String>) -> Result<Context, Problem> {
    let reading = Settings::read(&var);
    let data = data::folder(cli.global.data.clone(), &var);
    let mut context = Context {
        screen: screen.clone(),
        reading,
        address: Address::read(&cli.global, &var)?,
        program: address::program(&cli.global),
        data,
        traces: Arc::new(NoTraces),
        verbose: cli.global.verbose > 0,
    };
    // These need no settings, and must work however wrong those are.
    let careless = matches!(
        cli.command,
        Command::Config(_) | Command::Completions { .. } | Command::Dev(_) | Command::Demo
    );
    match (&context.reading, careless) {
        (Ok(reading), _) => {
            logs::start(reading, cli.global.verbose, screen, matches!(cli.command, Command::Demo))?;
            if !careless {
                context.traces = engine::traces(&reading.settings)?;
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
