//! `everypage completions`: completion scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Cli, exit::Exit, problem::Problem, settings::Context};

pub fn run(context: &Context, shell: Shell) -> Result<Exit, Problem> {
    // clap would panic if the reader of the output closed its end.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "everypage", &mut script);
    context.screen.print(&script)?;
    Ok(Exit::Complete)
}
