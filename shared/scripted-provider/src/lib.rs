//! A vision provider on loopback that speaks the providers' APIs, fails as its script says, and
//! counts its calls.
//!
//! ```no_run
//! # use everypage_scripted_provider::{Script, ScriptedProvider};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let script = Script::parse(["openai:*=hang", "page=7,9-12=500", "answer;delay=200ms"])?;
//! let provider = ScriptedProvider::start(script).await?;
//! // … point the program at provider.openai_base_url() and provider.anthropic_base_url() …
//! assert_eq!(provider.calls().len(), 0);
//! # Ok(()) }
//! ```
//!
//! # Rules
//!
//! ```text
#![doc = include_str!("grammar.txt")]
//! ```
//!
//! A call reaches a rule when no earlier rule took it and the rule's other conditions hold; so
//! `first=3=529` followed by `first=2=500` fails five calls in all.
//!
//! Shares and lognormal delays are drawn by counters: the n-th call gets the same in every run.
//! Limits are buckets that start full and refill continuously; a refused call takes nothing out.
//! A request's tokens are an estimate: four characters to a token, 765 for an image. A system prompt that is long
//! enough for the provider's cache counts as cached.
//!
//! # How the page is found
//!
//! By a line `Page N of M` in the request's text. The page's own text is what follows the line
//! `--- current ---`, up to `--- before ---`, `--- after ---` or the end. Programs that send
//! nothing but an image are matched by `shape=`, with a document whose pages all differ in shape.
//!
//! # Control by other processes
//!
//! `GET /calls` returns the counts and `GET /calls/log` every call, as JSON; `POST /script`
//! replaces the script (one rule a line, or JSON); `POST /reset` discards counts and calls.
//!
//! # Adding a provider
//!
//! One file in `dialect/` and one line in its table.

mod behaviour;
mod body;
mod bucket;
mod calls;
mod dialect;
mod grammar;
mod headers;
mod image;
mod limit;
mod log;
mod pages;
mod print;
mod random;
mod reply;
mod request;
mod routes;
mod running;
mod script;
mod server;
mod share;
mod signature;
mod tier;

pub use behaviour::Behaviour;
pub use bucket::Rate;
pub use calls::{Call, Counts, ModelCount, Outcome};
pub use grammar::GrammarError;
pub use image::{ImageSize, Shape};
pub use limit::{Limit, RetryAfter};
pub use pages::Pages;
pub use script::{Rule, Script, When};
pub use server::ScriptedProvider;
pub use share::Share;
pub use signature::{AWS_KEY_ID, AWS_SECRET_KEY};
pub use tier::Tier;

/// The text form of a script's rules, with examples.
pub const GRAMMAR: &str = include_str!("grammar.txt");
