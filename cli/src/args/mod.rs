//! The command line as types; the doc comments of commands and options are their `--help`.

mod dev;
mod documents;
mod jobs;
mod tenants;

use std::{fmt, net::SocketAddr, num::NonZeroUsize, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use everypage_core::settings::parse_duration;

pub use self::{
    dev::Dev,
    documents::{Documents, Process, Submit, Verify},
    jobs::{Dlq, Ended, Events, Heal, Jobs, Redrive, Which},
    tenants::{Account, Keys, Movement, Purchases, TenantArg, Tenants, Webhook},
};

/// Said once for `process` and `submit`, before the exit codes.
const AT_A_TERMINAL: &str = "\
At a terminal, a line shows how many pages are done, being read and waiting.
Enter publishes the result now: pages that are not read by a model keep
their own text. Ctrl-C cancels; a second one exits immediately.

Several documents: one line each, then a table of how they ended. The same
command again continues where it was stopped: documents that were read with the
same options within 24 hours are not read again.";

const EXIT_CODES: &str = "\
Exit codes:
    0  every document succeeded and every page has the text that was planned for it
    1  a document failed, was rejected or could not be read, or the command itself failed
    2  wrong usage or settings; nothing was done
    3  done, but some page has its own text instead of a model's, or the deadline was reached
    4  done, but some page has no text at all
  130  cancelled (the result so far is still published)
With several documents the most severe code wins: 130, then 1, 4, 3, 0.";

const GLOBAL: &str = "Options of every command";

const SERVE: &str = "\
Until the first API key is created (`everypage keys create`), programs on this machine may do \
everything and other machines are refused; from then on every request needs a key. \
SIGINT or SIGTERM stops the server: it finishes the pages in progress, and the next start resumes \
the rest. A second signal stops it immediately.";

const MCP: &str = "\
Speaks over standard input and output; an assistant starts it. For example, in a configuration with \
`mcpServers`: {\"everypage\": {\"command\": \"everypage\", \"args\": [\"mcp\"]}}. \
Tools: read_document, read_pages, read_page, search, job_status, list_jobs.";

const VERIFY: &str = "\
The text may be plain text, Markdown or Everypage's JSON. Its pages are found by their marks (=== Page N ===, \
<a id=\"page-N\">, form feeds), else by alignment with the document. The measure is the document's own text, and what \
OCR reads on pages without one, if it is installed: there, numbers and 15 % more of the words may differ. Running headers, \
footers and page numbers may be there or not.

Exit codes:
    0  every page that can be checked agrees
    1  the document can't be read
    2  wrong usage, or the text can't be read
    3  some page differs: a number, or more words than --agreement allows
    4  some page is missing from the text";

const SETTINGS: &str = "\
Options that are not given come from environment variables; `everypage config check` lists them all.";

/// Turns PDFs and images into text with vision AI, and always finishes: every page ends with text.
#[derive(Debug, Parser)]
#[command(name = "everypage", version, after_help = SETTINGS, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Where jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    Local,
    Aws,
}

impl FromStr for BackendKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "local" => Ok(Self::Local),
            "aws" => Ok(Self::Aws),
            name if name.parse::<everypage_core::providers::target::Provider>().is_ok() => Err(format!(
                "{name} is a provider, and a backend is local or aws; to call {name} first, pass --provider {name}"
            )),
            _ => Err(format!("unknown backend {text:?} (accepted: local, aws)")),
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Aws => "aws",
        })
    }
}

#[derive(Debug, Args)]
pub struct Global {
    /// Where jobs run: local (this machine) or aws (a deployed stack) [default: $EVERYPAGE_BACKEND, else local]
    #[arg(long, alias = "engine", global = true, value_name = "BACKEND", help_heading = GLOBAL)]
    pub backend: Option<BackendKind>,
    /// Name of the stack on AWS [default: $EVERYPAGE_STACK, else everypage]
    #[arg(long, global = true, value_name = "NAME", help_heading = GLOBAL)]
    pub stack: Option<String>,
    /// Region of the stack [default: $AWS_REGION, else the profile's]
    #[arg(long, global = true, value_name = "REGION", help_heading = GLOBAL)]
    pub region: Option<String>,
    /// URL of an AWS emulator [default: $AWS_ENDPOINT_URL]
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    pub endpoint: Option<String>,
    /// Folder of jobs and results [default: $EVERYPAGE_DATA, else ~/.local/share/everypage]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub data: Option<PathBuf>,
    /// Print a line per page, and log at level info (-vv: debug)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = GLOBAL)]
    pub verbose: u8,
    /// Print only results and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Turn PDFs and images into text on this machine
    Process(Process),
    /// Upload PDFs and images to a stack on AWS and wait for their text
    Submit(Submit),
    /// List, inspect, cancel, approve and delete jobs
    #[command(subcommand)]
    Jobs(Jobs),
    /// Read and verify the audit trail
    #[command(subcommand)]
    Events(Events),
    /// Dead letters: list, inspect, redrive and purge
    #[command(subcommand)]
    Dlq(Dlq),
    /// List notices to people, newest first: what happened, what to do, and whether it was sent
    Notices {
        /// Maximum number of notices
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Circuit breakers: state and cooldown of each model
    Breakers(Listing),
    /// Retry the pages without AI text, and publish a new version of the result
    #[command(after_help = EXIT_CODES)]
    Heal(Heal),
    /// Finish every unfinished job of this machine, then exit
    #[command(after_help = EXIT_CODES)]
    Resume,
    /// Serve the HTTP API and the web console, and process the jobs that arrive
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// Serve documents to an assistant: tools and resources of the Model Context Protocol
    #[command(after_help = MCP)]
    Mcp,
    /// Show and check the settings
    #[command(subcommand)]
    Config(Config),
    /// Settings of a tenant, and its erasure
    #[command(subcommand)]
    Tenants(Tenants),
    /// Credits of tenants: balance, ledger, grants and deductions
    #[command(subcommand)]
    Account(Account),
    /// Purchases of credits, and those that need manual action
    #[command(subcommand)]
    Purchases(Purchases),
    /// API keys: create, list and revoke
    #[command(subcommand)]
    Keys(Keys),
    /// Webhooks: notify URLs of events
    #[command(subcommand)]
    Webhook(Webhook),
    /// Process a sample report while one model is down and another hangs
    Demo,
    /// Tools for development and tests
    #[command(subcommand)]
    Dev(Dev),
    /// Check a text, of whatever tool, against the document: what is missing, invented or out of order
    #[command(after_help = VERIFY)]
    Verify(Verify),
    /// Print the JSON Schema of the JSON result
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Parse PDFs for a parent process
    #[command(hide = true)]
    PdfChild,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1 and $PORT, else 8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Pages processed in parallel [default: $WORKER_CONCURRENCY]
    #[arg(long, value_name = "COUNT")]
    pub workers: Option<NonZeroUsize>,
    /// Time that pages in progress may take after a stop signal
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub grace: Duration,
}

#[derive(Debug, Subcommand)]
pub enum Config {
    /// List every setting with its value, its source and its faults
    Check(ConfigCheck),
}

#[derive(Clone, Copy, Debug, Args)]
pub struct ConfigCheck {
    #[command(flatten)]
    pub listing: Listing,
    /// Call every model that may be called once, with a tiny page, and report what is wrong with keys and models
    #[arg(long)]
    pub online: bool,
}

/// The option of every command that prints something.
#[derive(Clone, Copy, Debug, Args)]
pub struct Listing {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A job by its id or a unique prefix of it.
#[derive(Debug, Args)]
pub struct JobArg {
    /// Id of the job, or a unique prefix of it
    #[arg(value_name = "JOB")]
    pub job: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_script_rule_and_a_duration_are_checked_by_the_parser() {
        let cli = Cli::try_parse_from(["everypage", "dev", "provider", "--script", "openai:*=hang"]);
        assert!(cli.is_ok(), "{cli:?}");
        let error = Cli::try_parse_from(["everypage", "process", "a.pdf", "--deadline", "soon"]).unwrap_err();
        assert!(error.to_string().contains("250ms"), "{error}");
    }

    #[test]
    fn backend_and_provider_are_not_mixed_up() {
        let parsed = |words: &str| Cli::try_parse_from(words.split(' '));
        let cli = parsed("everypage submit a.pdf --backend aws --provider anthropic").unwrap();
        assert_eq!(cli.global.backend, Some(BackendKind::Aws));
        let cli = parsed("everypage submit a.pdf --engine aws").unwrap();
        assert_eq!(cli.global.backend, Some(BackendKind::Aws));
        let error = parsed("everypage process a.pdf --backend openai").unwrap_err().to_string();
        assert!(error.contains("--provider openai"), "{error}");
        assert!(parsed("everypage --backend aws keys create --tenant acme --role operator").is_ok());
        assert!(parsed("everypage keys create --tenant a/b").is_err());
    }
}
