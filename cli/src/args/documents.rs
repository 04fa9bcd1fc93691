//! `process` and `submit`: documents, and how they are to be read.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use everypage_core::{
    document::TableStyle,
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

use super::{AT_A_TERMINAL, EXIT_CODES};

#[derive(Debug, Args)]
#[command(after_help = format!("{AT_A_TERMINAL}\n\n{EXIT_CODES}"))]
pub struct Process {
    #[command(flatten)]
    pub documents: Documents,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{AT_A_TERMINAL}\n\n{EXIT_CODES}"))]
pub struct Submit {
    #[command(flatten)]
    pub documents: Documents,
    /// Print the jobs' ids once the stack has accepted the documents, and exit
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
}

#[derive(Debug, Args)]
pub struct Documents {
    /// Documents to read: files, folders (with their subfolders), patterns such as 'scans/**/*.pdf', or - for standard input; with submit also s3://BUCKET/KEY, and s3://BUCKET/PREFIX/ or a pattern for many
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write each result to DIR/NAME.{txt,md,json,chunks.jsonl,words.jsonl,pdf}, in the folders that the documents have; without it, one document's result goes to standard output
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Documents to work on at the same time; the next one is started when one has ended
    #[arg(short, long, default_value = "16", value_name = "COUNT")]
    pub jobs: NonZeroUsize,
    /// Format of the result: text, markdown, json, chunks (JSON lines for retrieval), words (of pages read by OCR, with their places) or pdf (searchable)
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
    /// Tables in markdown and chunks: markdown, html, or auto (HTML where Markdown can't hold the table)
    #[arg(long, default_value = "markdown", value_name = "STYLE")]
    pub tables: TableStyle,
    /// Password of encrypted PDFs; other users of this machine may see it, prefer --password-stdin
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_stdin")]
    pub password: Option<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
    /// Pages to read, such as 1-10,12,40-
    #[arg(long, value_name = "PAGES")]
    pub pages: Option<PageSelection>,
    /// Pages to send to AI: graphics (pages with graphics), unsure (only those whose own reading has a low confidence) or all [default: $AI_PAGES; on AWS, here and below, the stack's]
    #[arg(long, value_name = "WHICH")]
    pub ai_pages: Option<AiPages>,
    /// Model to call first: primary, fast or secondary [default: $MODEL_TIER]
    #[arg(long)]
    pub tier: Option<Tier>,
    #[arg(long, value_name = "PROVIDER", help = provider_help())]
    pub provider: Option<Provider>,
    /// Models in the order in which they are called, such as openai:gpt-5.4,gemini:gemini-3.8-flash [default: $FAILOVER]
    #[arg(long, value_name = "MODELS")]
    pub failover: Option<FailoverList>,
    /// standard, or low: the cheaper, slower tier of providers that have one, while the time left allows [default: $COST]
    #[arg(long, value_name = "COST")]
    pub cost: Option<Cost>,
    /// What the document's model calls may cost, in US dollars; pages beyond it keep their own text [default: $BUDGET_USD]
    #[arg(long, value_name = "USD")]
    pub budget: Option<MicroUsd>,
    /// Time after which the result is published, complete or not, such as 5m [default: $JOB_TIMEOUT]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
    /// How long a page is retried after rate limits, errors and timeouts: deadline, 0 or a time such as 90s [default: $PATIENCE]
    #[arg(long, value_name = "TIME")]
    pub patience: Option<Patience>,
    /// Priority: low, normal, high, critical or urgent
    #[arg(long)]
    pub priority: Option<Priority>,
    /// Print a summary as JSON on standard output; results go to -o, or stay with the job
    #[arg(long)]
    pub json: bool,
    /// Start a new job even if the same file was processed with the same options within 24 hours
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The document: a PDF
    #[arg(value_name = "FILE")]
    pub document: PathBuf,
    /// The text to check
    #[arg(value_name = "TEXT")]
    pub text: PathBuf,
    /// Share of a page's words that must be the same and in order, 0 to 1; numbers must be the same in any case
    #[arg(long, value_name = "SHARE", default_value = "0.98", value_parser = share)]
    pub agreement: f64,
    /// List every page, not only those that differ
    #[arg(long)]
    pub all: bool,
    /// Password of an encrypted PDF; other users of this machine may see it, prefer --password-stdin
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_stdin")]
    pub password: Option<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share from 0 to 1, such as 0.98"))
}

fn provider_help() -> String {
    format!("Provider to call first: {} [default: $PRIMARY_ENGINE]", Provider::NAMES.join(", "))
}

impl Documents {
    pub fn overrides(&self) -> OptionOverrides {
        OptionOverrides {
            pages: self.pages.clone(),
            ai_pages: self.ai_pages,
            tier: self.tier,
            provider: self.provider,
            failover: self.failover.clone(),
            budget_usd: self.budget,
            cost: self.cost,
            deadline: self.deadline,
            priority: self.priority,
            patience: self.patience,
            force: self.force,
        }
    }
}
