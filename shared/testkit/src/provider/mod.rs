//! A vision provider on loopback that speaks both vendors' APIs, misbehaves on demand and counts.
//!
//! ```no_run
//! # use everypage_testkit::provider::{Script, ScriptedProvider};
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
//! A script is a list of rules; the first whose conditions all hold decides, and where none
//! does the page is answered. A rule in text:
//!
//! ```text
//! RULE      = [CONDITION {";" CONDITION} "="] BEHAVIOUR {";" OPTION}
//!
//! CONDITION = PROVIDER ":" MODEL      openai, anthropic or *, and a model as below
//!           | "model=" MODEL          a name; with a final * whatever begins so
//!           | "provider=" PROVIDER
//!           | "page=" PAGES           7,9-12
//!           | "shape=" W "x" H        an image of this shape, at any resolution
//!           | "after=" N              not the first N calls that come to this rule
//!           | "first=" N              only N calls that come to this rule (after `after`)
//!
//! BEHAVIOUR = "answer"                the page's own words and "[read by MODEL]"
//!           | "text=" WORDS           these words; in double quotes (JSON) they may hold ; " \n
//!           | 400 … 599               an error in the vendor's shape (404: model not found)
//!           | 429                     too many requests; option retry-after=SECONDS
//!           | "quota"                 the money is used up
//!           | "hang"                  no answer until the client leaves
//!           | "drip"                  an answer, slowly; options bytes=N, every=TIME
//!           | "half-body"             half an answer, then the connection closes
//!           | "reset"                 the connection closes without an answer
//!           | "html" | "garbage" | "wrong-json" | "empty"
//!           | "huge"                  a valid answer of 10 MB; option bytes=N
//!           | "refusal" | "truncated" | "loop"
//!
//! OPTION    = "delay=" TIME           wait first; for every behaviour, at its end
//! TIME      = N "ms" | N "s"
//! ```
//!
//! `openai:*=hang`, `*:gpt-4.1=429;retry-after=5`, `page=7,9-12=500`, `model=x;first=3=529`,
//! `answer;delay=200ms`. A call comes to a rule when no earlier rule took it and the rule's other
//! conditions hold; so `first=3=529` followed by `first=2=500` fails five calls in all.
//!
//! # How the page is known
//!
//! By a line `Page N of M` in the request's text. The page's own words are those after the line
//! `--- current ---`, up to `--- before ---`, `--- after ---` or the end. Programs that send
//! nothing but an image are told apart by `shape=`, with a document whose pages all differ in it.
//!
//! # Other processes
//!
//! `GET /calls` gives the counts and `GET /calls/log` every call, as JSON; `POST /script`
//! replaces the script (one rule a line, or JSON); `POST /reset` forgets counts and calls.

mod behaviour;
mod body;
mod calls;
mod grammar;
mod image;
mod log;
mod pages;
mod print;
mod reply;
mod request;
mod routes;
mod script;
mod server;
mod vendor;

pub use behaviour::Behaviour;
pub use calls::{Call, Counts, ModelCount, Outcome};
pub use grammar::GrammarError;
pub use image::{ImageSize, Shape};
pub use pages::Pages;
pub use script::{Rule, Script, When};
pub use server::ScriptedProvider;
