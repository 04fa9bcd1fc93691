//! The command line as types; what is written here is what `--help` says.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use everypage_core::{
    config::parse_duration,
    domain::{
        caller::Role,
        ids::Priority,
        plan::AiPages,
        selection::PageSelection,
        target::{Provider, Tier},
    },
    usecases::{result::Form, wishes::Wishes},
};
use everypage_testkit::provider::Rule;

const EXIT_CODES: &str = "\
Exit codes:
    0  every document is done and every page has the text that was planned for it
    1  a document failed, was rejected or could not be read, or the command itself failed
    2  wrong usage or configuration; nothing was done
    3  all done, but some page has MuPDF's text where an AI's was planned, or the deadline came
    4  all done, but some page has no text from anybody
  130  cancelled (what was there by then is still published)
The gravest wins: 130, then 1, 4, 3, 0.";

const GLOBAL: &str = "Options of every command";

const SERVE: &str = "\
As long as no API key was ever made, whoever is on this machine may do everything and nobody else gets in; \
`everypage keys create` makes one, and from then on every request needs one. \
SIGINT or SIGTERM stops it: pages in hand are finished, the rest goes on at the next start. A second one ends it at once.";

const SETTINGS: &str = "\
Options that are not given come from environment variables; `everypage config check` lists them all.";

/// Turns PDFs into text with vision AI, and always finishes: every page ends with text.
#[derive(Debug, Parser)]
#[command(name = "everypage", version, after_help = SETTINGS, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Where jobs live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    Local,
    Aws,
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "local" => Ok(Self::Local),
            "aws" => Ok(Self::Aws),
            "openai" | "anthropic" => Err(format!(
                "jobs live on the engine local or aws; to ask {text} first pass --primary-engine {text}"
            )),
            _ => Err(format!("{text:?} is not an engine: local or aws")),
        }
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Aws => "aws",
        })
    }
}

#[derive(Debug, Args)]
pub struct Global {
    /// Where jobs live: local (this machine) or aws (a deployed stack) [default: $EVERYPAGE_ENGINE, else local]
    #[arg(long, global = true, value_name = "ENGINE", help_heading = GLOBAL)]
    pub engine: Option<EngineKind>,
    /// Name of the stack on AWS [default: $EVERYPAGE_STACK, else everypage]
    #[arg(long, global = true, value_name = "NAME", help_heading = GLOBAL)]
    pub stack: Option<String>,
    /// The stack's region [default: $AWS_REGION, else the profile's]
    #[arg(long, global = true, value_name = "REGION", help_heading = GLOBAL)]
    pub region: Option<String>,
    /// Address of an emulator of AWS [default: $AWS_ENDPOINT_URL]
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    pub endpoint: Option<String>,
    /// Folder of jobs and results [default: $EVERYPAGE_DATA, else ~/.local/share/everypage]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub data: Option<PathBuf>,
    /// Say more: a line per page, and logs from info on (-vv: debug)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = GLOBAL)]
    pub verbose: u8,
    /// Say nothing but results and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Turn PDFs into text on this machine
    Process(Process),
    /// Turn PDFs into text on AWS: upload them to a stack and wait for the results
    Submit(Submit),
    /// Look at jobs, and decide on them
    #[command(subcommand)]
    Jobs(Jobs),
    /// Read the audit trail
    #[command(subcommand)]
    Events(Events),
    /// Dead letters: what was given up, and why
    #[command(subcommand)]
    Dlq(Dlq),
    /// Which models are resting after failures
    Breakers(Listing),
    /// Have the pages without AI text read once more, into a new version of the result
    #[command(after_help = EXIT_CODES)]
    Heal(Heal),
    /// Finish every job that was left open on this machine, then exit
    #[command(after_help = EXIT_CODES)]
    Resume,
    /// Serve the HTTP API and the web console, and work on what comes in
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// Settings
    #[command(subcommand)]
    Config(Config),
    /// A tenant's own values of some settings
    #[command(subcommand)]
    Tenants(Tenants),
    /// Tenants' credits: see, give or take some
    #[command(subcommand)]
    Account(Account),
    /// Credits that are bought, and purchases that wait for a person
    #[command(subcommand)]
    Purchases(Purchases),
    /// API keys: who may come in
    #[command(subcommand)]
    Keys(Keys),
    /// Where a tenant is told of the ends of its jobs
    #[command(subcommand)]
    Webhook(Webhook),
    /// Watch a sample report get read while one model is down and another hangs
    Demo,
    /// Tools for trying things out
    #[command(subcommand)]
    Dev(Dev),
    /// Print a script that completes everypage's commands in a shell
    Completions { shell: Shell },
    /// Parses PDFs for a parent process
    #[command(hide = true)]
    PdfChild,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen [default: 127.0.0.1 and $PORT, else 8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Pages worked on at once [default: $WORKER_CONCURRENCY]
    #[arg(long, value_name = "COUNT")]
    pub workers: Option<NonZeroUsize>,
    /// How long what is in hand may take after a stop is asked for
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub grace: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Process {
    #[command(flatten)]
    pub documents: Documents,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Submit {
    #[command(flatten)]
    pub documents: Documents,
    /// Print the jobs' ids once the stack has accepted the documents, and leave
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
}

/// What is to be read, and how.
#[derive(Debug, Args)]
pub struct Documents {
    /// PDFs to read; several are read at the same time
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write each result to DIR/NAME.{txt,md,json}; without it, one file's result goes to standard output
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Form of the result: text, markdown or json
    #[arg(short, long, default_value = "text", value_name = "FORM")]
    pub format: Form,
    /// Opens encrypted PDFs; other users of this machine may see it, prefer --password-stdin
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_stdin")]
    pub password: Option<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
    /// Pages to read, such as 1-10,12,40-
    #[arg(long, value_name = "PAGES")]
    pub pages: Option<PageSelection>,
    /// Pages that go to AI: graphics (those that need eyes) or all [default: $AI_PAGES; on AWS, here and below, the stack's]
    #[arg(long, value_name = "WHICH")]
    pub ai_pages: Option<AiPages>,
    /// Model that is asked first: primary, fast or secondary [default: $MODEL_TIER]
    #[arg(long)]
    pub tier: Option<Tier>,
    /// Provider that is asked first: openai or anthropic [default: $PRIMARY_ENGINE]
    #[arg(long, value_name = "PROVIDER")]
    pub primary_engine: Option<Provider>,
    /// When the result is published, ready or not, such as 5m [default: $JOB_TIMEOUT]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
    /// low, normal, high, critical or urgent
    #[arg(long)]
    pub priority: Option<Priority>,
    /// Print a summary for programs on standard output; results go to -o, or stay with the job
    #[arg(long)]
    pub json: bool,
    /// Start anew even if the same file was processed with the same options within 24 hours
    #[arg(long)]
    pub again: bool,
}

impl Documents {
    pub fn wishes(&self) -> Wishes {
        Wishes {
            pages: self.pages.clone(),
            ai_pages: self.ai_pages,
            tier: self.tier,
            engine: self.primary_engine,
            deadline: self.deadline,
            priority: self.priority,
            again: self.again,
        }
    }
}

#[derive(Clone, Copy, Debug, Args)]
pub struct Listing {
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// A job as people name it: its id, or the beginning of it.
#[derive(Debug, Args)]
pub struct JobArg {
    /// Id of the job, or the beginning of it if no other job's id begins so
    #[arg(value_name = "JOB")]
    pub job: String,
}

#[derive(Debug, Subcommand)]
pub enum Jobs {
    /// The latest jobs, newest first
    List {
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Everything about one job, and where each page's text came from
    Show {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Stop a job; what is there by then is published
    Cancel {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Get rid of ended jobs: source, images, text, results and trail
    Delete {
        #[command(flatten)]
        which: Ended,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Print a result
    Result {
        #[command(flatten)]
        job: JobArg,
        /// text, markdown or json
        #[arg(short, long, default_value = "text", value_name = "FORM")]
        format: Form,
        /// An older version [default: the latest]
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// Write it to a file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The same as --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
    /// The job's trail and its pages'
    Events {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Agree to a plan that waits for a person
    Approve {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// Turn down a plan that waits for a person
    Reject {
        #[command(flatten)]
        job: JobArg,
        /// Kept in the trail and shown with the job
        #[arg(long, default_value = "turned down at the command line")]
        reason: String,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub enum Events {
    /// Check that a job's trail is what it was when it was written
    Verify {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        listing: Listing,
    },
    /// What happened, oldest first
    List {
        /// Only this type, such as page.settled
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// From then on: 2026-11-16, 2026-11-16T09:30Z, or so long ago, such as 2h
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// The latest so many
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub enum Dlq {
    /// Dead letters that wait for somebody, oldest first
    List(Listing),
    /// Everything about one dead letter but its document's text
    Show {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Send dead letters back to work and wait for what becomes of them
    #[command(after_help = EXIT_CODES)]
    Redrive(Redrive),
    /// Let dead letters go for good
    Purge {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Ended {
    /// Ids, or unique beginnings of them
    #[arg(value_name = "JOB")]
    pub ids: Vec<String>,
    /// All that ended longer ago than this, such as 720h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Ids, or unique beginnings of them
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Every letter that waits
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Redrive {
    #[command(flatten)]
    pub which: Which,
    /// Letters a second
    #[arg(long, default_value_t = 10.0, value_name = "N", value_parser = rate)]
    pub rate: f64,
    /// Read a password for the documents from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.001)
        .ok_or_else(|| "a number of letters a second, such as 5 or 0.5".to_owned())
}

#[derive(Debug, Args)]
pub struct Heal {
    #[command(flatten)]
    pub job: JobArg,
    /// How long the models may take, all pages together
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = parse_duration)]
    pub deadline: Duration,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Subcommand)]
pub enum Config {
    /// List every setting, where it comes from, and what is wrong with it
    Check(Listing),
}

#[derive(Debug, Subcommand)]
pub enum Tenants {
    /// List what is set otherwise for a tenant
    Show {
        tenant: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Set variables for a tenant, such as JOB_TIMEOUT=10m
    Set {
        tenant: String,
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        variables: Vec<(String, String)>,
    },
    /// Let the installation's settings hold again
    Unset {
        tenant: String,
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Webhook {
    /// Tell a server of every end, and print the secret that messages are signed with, once
    Set {
        /// Takes a POST for each end, such as `https://example.com/hooks`
        url: String,
        /// Whose jobs [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
    },
    /// Show where messages go
    Show {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Tell nobody any more
    Unset {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Account {
    /// What a tenant has
    Show {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// What every tenant has
    List(Listing),
    /// Every change of a balance, newest first
    Ledger {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Give a tenant credits
    Grant(Movement),
    /// Take credits from a tenant; never more than are free
    Deduct(Movement),
    /// Check that a balance is the sum of its ledger, and that its trail is what it was
    Verify {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
}

#[derive(Debug, Args)]
pub struct Movement {
    /// How many; one is one page read by AI
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub credits: u64,
    /// Why; it stands in the ledger
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    /// [default: $TENANT]
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    pub tenant: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Purchases {
    /// What a tenant has bought, newest first
    List {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        #[command(flatten)]
        listing: Listing,
    },
    /// Purchases of all tenants that wait for a person, oldest first
    Waiting(Listing),
    /// One purchase and its steps
    Show {
        /// Id of the purchase, or the beginning of it
        id: String,
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Buy credits through the payment service (PAYMENT_URL), on this machine
    Buy {
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        credits: u64,
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        /// Read what the service knows the payer's card by from the first line of standard input
        #[arg(long)]
        method_stdin: bool,
        /// The same key buys once
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Go on with a purchase that waits for a person
    Resume {
        /// Id of the purchase, or the beginning of it
        id: String,
    },
    /// Undo what is not undone yet; also of a purchase that was completed
    Rollback {
        /// Id of the purchase, or the beginning of it
        id: String,
        /// Kept in the trail
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Say that a purchase was put right elsewhere
    Resolve {
        /// Id of the purchase, or the beginning of it
        id: String,
        /// How; kept in the trail
        #[arg(long, value_name = "TEXT")]
        note: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a key and print it; it can't be shown again
    Create {
        /// Whose documents and jobs it opens [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        /// user sends documents and reads results; operator also decides on plans and dead letters
        #[arg(long, default_value = "user")]
        role: Role,
        /// What people call it; it stands in audit trails for whoever uses it [default: the role]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// A tenant's keys, without their secrets, oldest first
    List {
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Have a key open nothing any more
    Revoke {
        /// Id of the key, or the beginning of it; `keys list` shows it
        #[arg(value_name = "ID")]
        id: String,
        /// [default: $TENANT]
        #[arg(long, value_name = "TENANT", value_parser = tenant)]
        tenant: Option<String>,
    },
}

/// It becomes part of names and keys.
fn tenant(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("a tenant is named by letters, digits, dots, dashes and underscores".to_owned()),
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE, such as JOB_TIMEOUT=10m")?;
    Ok((name.to_owned(), value.to_owned()))
}

const GRAMMAR: &str = r#"A script is a list of rules; the first whose conditions all hold decides, and where none does
the page is answered.

  RULE      = [CONDITION {";" CONDITION} "="] BEHAVIOUR {";" OPTION}

  CONDITION = PROVIDER ":" MODEL   openai, anthropic or *, and a model as below
            | "model=" MODEL       a name; with a final * whatever begins so
            | "provider=" PROVIDER
            | "page=" PAGES        7,9-12
            | "shape=" W "x" H     an image of this shape, at any resolution
            | "after=" N           not the first N calls that come to this rule
            | "first=" N           only N calls that come to this rule (after `after`)

  BEHAVIOUR = "answer"             the page's own words and "[read by MODEL]"
            | "text=" WORDS        these words; in double quotes (JSON) they may hold ; " \n
            | 400 ... 599          an error in the vendor's shape (404: model not found)
            | 429                  too many requests; option retry-after=SECONDS
            | "quota"              the money is used up
            | "hang"               no answer until the client leaves
            | "drip"               an answer, slowly; options bytes=N, every=TIME
            | "half-body"          half an answer, then the connection closes
            | "reset"              the connection closes without an answer
            | "html" | "garbage" | "wrong-json" | "empty"
            | "huge"               a valid answer of 10 MB; option bytes=N
            | "refusal" | "truncated" | "loop"

  OPTION    = "delay=" TIME        wait first; for every behaviour, at its end
  TIME      = N "ms" | N "s"

Examples:
  --script 'openai:*=hang'                      OpenAI never answers
  --script '*:gpt-5.4=429;retry-after=5'        one model is busy
  --script 'page=7,9-12=500'                    some pages break it
  --script 'model=x;first=3=529' --script 'answer;delay=200ms'"#;

#[derive(Debug, Subcommand)]
pub enum Dev {
    /// A vision provider on this machine that speaks both vendors' APIs and fails as told
    #[command(after_help = GRAMMAR)]
    Provider {
        /// Port on 127.0.0.1 [default: a free one]
        #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "PORT")]
        port: u16,
        /// A rule of its script, see below; may be given several times
        #[arg(long, value_name = "RULE")]
        script: Vec<Rule>,
    },
    /// Write PDFs made to hurt whoever reads them; their names say what is wrong with them
    Hostile {
        /// Folder for them
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// How many: first one of each kind, then damaged relatives [default: one of each kind]
        #[arg(long, value_name = "N")]
        count: Option<usize>,
        /// The same seed makes the same files
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
    },
    /// Put PDFs through the reading that a job does, and tell how each of them ends
    #[command(after_help = ENDS)]
    Torture(Torture),
    /// Reads one PDF for `dev torture`
    #[command(hide = true)]
    TortureFile { file: PathBuf },
}

const ENDS: &str = "\
Each file is read in a process of its own: opened, the text of all pages, then the images of those
that need eyes. Limits that are not options are the settings' (PAGE_TIMEOUT, MAX_PAGES, ...).

Ends:
  text    pages were read; those that can't be are counted as unreadable, with the reason
  error   the file was refused, with the stable name of the error and words for people
  DEFECT  crash        our own process died, or code of ours panicked
          hang         reading went on after --time-limit
          memory       a parser, or the program itself, had more than --memory-limit
          pages        a page is missing, out of order, or has neither content nor a reason
          words        an error says nothing, or holds control characters
          unavailable  the file was not even tried

Contained, and counted apart, because a job goes on with its other pages: the parser crashes in its
own process, a page is stopped for its time, or reading is cut at --time-limit as by a deadline.

Exit codes: 0 no defect, 1 some, 2 wrong usage.";

#[derive(Debug, Args)]
pub struct Torture {
    /// PDFs, and folders that are searched for files ending in .pdf
    #[arg(required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Files that are read at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// When the reading of a file is cut, as by a job's deadline
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Duration,
    /// Most memory of a process, such as 512M or 2G [default: $PDF_MAX_MEMORY_BYTES]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub memory_limit: Option<u64>,
    /// Opens encrypted PDFs; other users of this machine may see it
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Write the whole report to a file, for programs
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn memory(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes >= 64 << 20)
        .ok_or_else(|| "bytes, at least 64M, such as 536870912, 512M or 2G".to_owned())
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
    fn a_script_rule_and_a_time_are_read_where_they_are_given() {
        let cli = Cli::try_parse_from(["everypage", "dev", "provider", "--script", "openai:*=hang"]);
        assert!(cli.is_ok(), "{cli:?}");
        let error = Cli::try_parse_from(["everypage", "process", "a.pdf", "--deadline", "soon"]).unwrap_err();
        assert!(error.to_string().contains("250ms"), "{error}");
    }

    #[test]
    fn the_two_meanings_of_engine_are_told_apart() {
        let parsed = |words: &str| Cli::try_parse_from(words.split(' '));
        let cli = parsed("everypage submit a.pdf --engine aws --primary-engine anthropic").unwrap();
        assert_eq!(cli.global.engine, Some(EngineKind::Aws));
        let error = parsed("everypage process a.pdf --engine openai").unwrap_err().to_string();
        assert!(error.contains("--primary-engine openai"), "{error}");
        assert!(parsed("everypage --engine aws keys create --tenant acme --role operator").is_ok());
        assert!(parsed("everypage keys create --tenant a/b").is_err());
    }
}
