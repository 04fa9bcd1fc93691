//! `everypage completions`: for the shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Cli, exit::Exit, problem::Problem, settings::Context};

pub fn run(context: &Context, shell: Shell) -> Result<Exit, Problem> {
    // Written at once: a reader that has gone away must not make it panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "everypage", &mut script);
    context.screen.print(&script)?;
    Ok(Exit::Complete)
}
