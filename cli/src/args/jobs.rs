//! `jobs`, `events`, `dlq` and `heal`: what happened to documents, and what to do about it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use everypage_core::{
    document::TableStyle,
    event::Aggregate,
    finish::format::Format,
    ids::Priority,
    intake::options::OptionOverrides,
    job::selection::PageSelection,
    money::MicroUsd,
    providers::{
        failover::FailoverList,
        target::{Provider, Tier},
    },
    settings::{AiPages, Cost, Patience, parse_duration},
};

use super::{EXIT_CODES, JobArg, Listing};

/// Dead letters per second.
const MIN_RATE: f64 = 0.001;

#[derive(Debug, Subcommand)]
pub enum Jobs {
    /// List the latest jobs, newest first
    List {
        /// Maximum number of jobs
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Show one job, and the source of each page's text or, while it runs, how far each page is
    Show {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Cancel a job; its result so far is published
    Cancel {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Delete ended jobs: source, images, text, results and audit trail
    Delete {
        #[command(flatten)]
        which: Ended,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Print a job's result
    Result {
        #[command(flatten)]
        job: JobArg,
        /// Format of the result: text, markdown, json, chunks, words or pdf
        #[arg(short, long, default_value = "text", value_name = "FORMAT")]
        format: Format,
        /// Tables in markdown and chunks: markdown, html, or auto (HTML where Markdown can't hold the table)
        #[arg(long, default_value = "markdown", value_name = "STYLE")]
        tables: TableStyle,
        /// Version of the result [default: the latest]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// Before the result is published: the document as it stands, each page with its best text so far
        #[arg(long, conflicts_with = "version")]
        provisional: bool,
        /// Write to a file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Short for --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
    /// List the events of a job and its pages
    Events {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Approve a plan that needs approval
    Approve {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Change a plan that needs approval, and so approve it
    Modify {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        changes: PlanChanges,
        #[command(flatten)]
        listing: Listing,
    },
    /// Reject a plan that needs approval
    Reject {
        #[command(flatten)]
        job: JobArg,
        /// Reason, stored in the audit trail and shown with the job
        #[arg(long, default_value = "rejected at the command line")]
        reason: String,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct PlanChanges {
    /// Of the selected pages, those that may go to AI, such as 1-10,12; the others keep their own text
    #[arg(long, value_name = "PAGES")]
    pages: Option<PageSelection>,
    /// Pages to send to AI: graphics (pages with graphics) or all
    #[arg(long, value_name = "WHICH")]
    ai_pages: Option<AiPages>,
    /// Model to call first: primary, fast or secondary
    #[arg(long)]
    tier: Option<Tier>,
    /// Provider to call first
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Provider>,
    /// Models in the order in which they are called, such as openai:gpt-5.4,gemini:gemini-3.8-flash
    #[arg(long, value_name = "MODELS")]
    failover: Option<FailoverList>,
    /// standard, or low: the cheaper, slower tier of providers that have one, while the time left allows
    #[arg(long, value_name = "COST")]
    cost: Option<Cost>,
    /// What the document's model calls may cost, in US dollars; pages beyond it keep their own text
    #[arg(long, value_name = "USD")]
    budget: Option<MicroUsd>,
    /// Time from now to the result, such as 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// How long a page is retried: deadline, 0 or a time such as 90s
    #[arg(long, value_name = "TIME")]
    patience: Option<Patience>,
    /// Priority: low, normal, high, critical or urgent
    #[arg(long)]
    priority: Option<Priority>,
}

impl PlanChanges {
    pub fn overrides(self) -> OptionOverrides {
        let Self { pages, ai_pages, tier, provider, failover, cost, budget, deadline, patience, priority } =
            self;
        OptionOverrides {
            pages,
            ai_pages,
            tier,
            provider,
            failover,
            cost,
            budget_usd: budget,
            deadline,
            patience,
            priority,
            ..OptionOverrides::default()
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Events {
    /// Verify that audit trails were not changed after they were written, and give the stored state
    Verify {
        /// A job, or another aggregate: account/TENANT, purchase/ID, dead_letter/ID, breaker/TARGET,
        /// tenant/TENANT, erasure/ID
        #[arg(value_name = "AGGREGATE", required_unless_present = "all")]
        aggregate: Option<String>,
        /// Everything that has events of the tenant
        #[arg(long, conflicts_with = "aggregate")]
        all: bool,
        #[command(flatten)]
        listing: Listing,
    },
    /// Print the state of an aggregate as its events alone give it, as JSON
    Replay {
        /// A job, or another aggregate: job/ID/page/N, account/TENANT, purchase/ID, dead_letter/ID, breaker/TARGET,
        /// tenant/TENANT, erasure/ID
        #[arg(value_name = "AGGREGATE")]
        aggregate: String,
    },
    /// List events, oldest first
    List {
        /// Only these types, such as page.settled, or prefixes such as job.*, separated by commas
        #[arg(long = "type", value_name = "TYPES")]
        kind: Option<String>,
        /// Only those of one aggregate, such as account/TENANT, purchase/ID or breaker/TARGET
        #[arg(long, value_name = "AGGREGATE")]
        aggregate: Option<Aggregate>,
        /// Only events since 2026-11-16, 2026-11-16T09:30Z, or a time ago, such as 2h
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Maximum number of events; the latest are listed
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub enum Dlq {
    /// List the dead letters, oldest first
    List(Listing),
    /// Show one dead letter, without its document's text
    Show {
        /// Id of the dead letter, or a unique prefix of it
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Send dead letters back to processing, and wait for their outcome
    #[command(after_help = EXIT_CODES)]
    Redrive(Redrive),
    /// Delete dead letters
    Purge {
        #[command(flatten)]
        which: Which,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Ended {
    /// Ids, or unique prefixes of them
    #[arg(value_name = "JOB")]
    pub ids: Vec<String>,
    /// All jobs that ended longer ago than this, such as 720h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Ids, or unique prefixes of them
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All dead letters
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Redrive {
    #[command(flatten)]
    pub which: Which,
    /// Dead letters per second
    #[arg(long, default_value_t = 10.0, value_name = "N", value_parser = rate)]
    pub rate: f64,
    /// Read a password for the documents from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= MIN_RATE)
        .ok_or_else(|| "a number of dead letters per second, such as 5 or 0.5".to_owned())
}

#[derive(Debug, Args)]
pub struct Heal {
    #[command(flatten)]
    pub job: JobArg,
    /// Time for the model calls of all pages together
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = parse_duration)]
    pub deadline: Duration,
    #[command(flatten)]
    pub listing: Listing,
}
