//! `dev`: tools for development and tests.

use std::path::PathBuf;

use clap::Subcommand;
use everypage_scripted_provider::{GRAMMAR, Rule};

const FROM_A_CHECKOUT: &str = "\
In a checkout, `./everypage dev sim`, `dev hostile` and `dev torture` run the simulation and the \
tests with hostile PDFs. They are programs of their own and not part of this one.";

#[derive(Debug, Subcommand)]
#[command(after_help = FROM_A_CHECKOUT)]
pub enum Dev {
    /// Run a provider on this machine that speaks the providers' APIs and fails as its script says
    #[command(after_help = GRAMMAR)]
    Provider {
        /// Port on 127.0.0.1 [default: a free one]
        #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "PORT")]
        port: u16,
        /// A rule of the script, see below; may be repeated
        #[arg(long, value_name = "RULE")]
        script: Vec<Rule>,
    },
    /// Write the generated references: docs/cli.md, docs/settings.md, docs/result.schema.json
    #[command(hide = true)]
    Docs {
        /// Folder to write to
        #[arg(value_name = "DIR", default_value = "docs")]
        folder: PathBuf,
    },
}
