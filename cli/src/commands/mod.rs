//! One file per command.

mod account;
mod breakers;
mod check_models;
#[cfg(feature = "aws")]
mod check_stack;
mod completions;
mod config;
mod demo;
mod dev;
mod dlq;
mod events;
mod heal;
mod jobs;
mod keys;
mod mcp;
mod notices;
pub mod password;
mod process;
mod purchases;
mod redrive;
mod resume;
mod schema;
mod serve;
mod submit;
mod tenants;
mod verify;
mod webhook;

use crate::{
    args::{Command, Config, Dev, Dlq},
    exit::Exit,
    problem::Problem,
    settings::{Address, Context},
};

pub async fn run(command: Command, context: Context) -> Result<Exit, Problem> {
    match command {
        Command::Process(args) => process::run(&context, args).await,
        Command::Submit(args) => submit::run(&context, args).await,
        Command::Jobs(command) => jobs::run(&context, command).await,
        Command::Events(command) => events::run(&context, command).await,
        Command::Dlq(Dlq::Redrive(args)) => redrive::run(&context, args).await,
        Command::Dlq(command) => dlq::run(&context, command).await,
        Command::Notices { limit, listing } => notices::run(&context, limit, listing).await,
        Command::Breakers(listing) => breakers::run(&context, listing).await,
        Command::Heal(args) => heal::run(&context, args).await,
        Command::Serve(args) => serve::run(&context, args).await,
        Command::Mcp => mcp::run(&context).await,
        Command::Resume => resume::run(&context).await,
        Command::Config(Config::Check(check)) => config::check(&context, check).await,
        Command::Tenants(command) => tenants::run(&context, command).await,
        Command::Account(command) => account::run(&context, command).await,
        Command::Purchases(command) => purchases::run(&context, command).await,
        Command::Keys(command) => keys::run(&context, command).await,
        Command::Webhook(command) => webhook::run(&context, command).await,
        Command::Demo => demo::run(&context).await,
        Command::Dev(Dev::Provider { port, script }) => dev::provider(&context, port, script).await,
        Command::Dev(Dev::Docs { folder }) => dev::docs(&context, &folder),
        Command::Verify(args) => verify::run(&context, args).await,
        Command::Schema => schema::run(&context),
        Command::Completions { shell } => completions::run(&context, shell),
        // Handled in main, before there is a runtime.
        Command::PdfChild => Ok(Exit::Complete),
    }
}

/// Rejects the AWS backend with `reason`.
fn only_local(context: &Context, reason: &str) -> Result<(), Problem> {
    match &context.address {
        Address::Local => Ok(()),
        Address::Aws(_) => Err(Problem::Usage(reason.to_owned())),
    }
}
