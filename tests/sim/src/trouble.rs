//! Everything that can go wrong in a run, as values: drawn from a seed, shown to people, and left
//! out one by one when a failure is shrunk.

use std::{fmt, time::Duration};

/// A process that died for good comes back no sooner than somebody has repaired its machine.
pub const REPAIR: Duration = Duration::from_secs(60);

/// Measured from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Duration,
    pub until: Duration,
}

impl Window {
    pub fn covers(&self, at: Duration) -> bool {
        (self.from..self.until).contains(&at)
    }
}

impl Window {
    pub fn overlaps(&self, other: &Window) -> bool {
        self.from < other.until && other.from < self.until
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", time(self.from), time(self.until))
    }
}

/// Our own storage, by the first word of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Everything,
    Records,
    Blobs,
    Queue,
    Flow,
    Bus,
}

impl Port {
    pub fn has(self, call: &str) -> bool {
        self == Self::Everything || call.split('.').next() == Some(self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Records => "records",
            Self::Blobs => "blobs",
            Self::Queue => "queue",
            Self::Flow => "flow",
            Self::Bus => "bus",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    Refuses,
    LosesReplies,
    Throttles,
    /// Answers after this, well or not.
    Dawdles(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    IsDown,
    Hangs,
    Dawdles(Duration),
    /// With how long it asks for.
    IsExhausted(Duration),
    SaysNothing,
    SaysHalf,
    Raves,
    RefusesTheKey,
    RefusesThePage,
    /// Fails in a way that nobody knows.
    IsStrange,
}

/// What opens and reads documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    IsGone,
    /// Each call takes this.
    Dawdles(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    ComeTwice,
    ComeLate(Duration),
    /// A received message is hidden for this long at most.
    ComeBackAfter(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Cancel,
    Approve,
    Reject,
    /// Approved, with so long from then on.
    Modify(Duration),
    Heal,
    /// All dead letters there are.
    Redrive,
    SubmitAgain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    Storage {
        port: Port,
        window: Window,
        one_in: u64,
        failing: Failing,
    },
    /// A process is killed, in the middle of whatever it does, and maybe started again.
    Kill {
        process: usize,
        at: Duration,
        back_after: Option<Duration>,
    },
    /// The same, between two steps: as it is about to make this call, counted over all its lives.
    KillAtCall {
        process: usize,
        call: u64,
        back_after: Option<Duration>,
    },
    Model {
        model: usize,
        window: Window,
        does: Model,
    },
    Messages {
        window: Window,
        one_in: u64,
        messages: Messages,
    },
    Reader {
        window: Window,
        does: Reader,
    },
    /// A second process believes that it drives the job.
    SecondDriver {
        document: usize,
        process: usize,
        at: Duration,
    },
    Person {
        at: Duration,
        document: usize,
        wish: Wish,
    },
}

impl Trouble {
    /// When it is over; nothing for what people wish, which is no trouble.
    pub fn over(&self) -> Duration {
        match self {
            Self::Storage { window, .. }
            | Self::Model { window, .. }
            | Self::Messages { window, .. }
            | Self::Reader { window, .. } => window.until,
            Self::Kill { at, back_after, .. } => *at + back_after.unwrap_or(REPAIR),
            // Nobody knows when that will be: the world keeps count of who is away.
            Self::KillAtCall { .. } => Duration::ZERO,
            Self::SecondDriver { at, .. } | Self::Person { at, .. } => *at,
        }
    }
}

/// `12.3 s`, as people read it.
pub fn time(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Of a variant, without what is in it.
pub fn name(variant: &impl fmt::Debug) -> String {
    let whole = format!("{variant:?}");
    whole.split(['(', ' ']).next().unwrap_or_default().to_owned()
}

fn chance(one_in: u64) -> String {
    if one_in == 1 { "every call".into() } else { format!("one call in {one_in}") }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let back = |back: &Option<Duration>| {
            back.map_or("for good".into(), |back| format!("and is back after {}", time(back)))
        };
        match self {
            Self::Storage { port, window, one_in, failing } => {
                let (port, chance) = (port.name(), chance(*one_in));
                match failing {
                    Failing::Refuses => write!(f, "{port}: {chance} is refused {window}"),
                    Failing::LosesReplies => {
                        write!(f, "{port}: {chance} is done and its reply lost {window}")
                    }
                    Failing::Throttles => write!(f, "{port}: {chance} is throttled {window}"),
                    Failing::Dawdles(by) => write!(f, "{port}: {chance} takes {} {window}", time(*by)),
                }
            }
            Self::Kill { process, at, back_after } => {
                write!(f, "process {process} is killed at {} {}", time(*at), back(back_after))
            }
            Self::KillAtCall { process, call, back_after } => {
                write!(f, "process {process} is killed at its call {call} {}", back(back_after))
            }
            Self::Model { model, window, does } => {
                let does = match does {
                    Model::IsDown => "is down".to_owned(),
                    Model::Hangs => "hangs".to_owned(),
                    Model::Dawdles(by) => format!("takes {}", time(*by)),
                    Model::IsExhausted(ask) => format!("asks for {} of rest", time(*ask)),
                    Model::SaysNothing => "says nothing".to_owned(),
                    Model::SaysHalf => "stops in the middle".to_owned(),
                    Model::Raves => "repeats itself".to_owned(),
                    Model::RefusesTheKey => "refuses the key".to_owned(),
                    Model::RefusesThePage => "refuses the page".to_owned(),
                    Model::IsStrange => "fails as nobody knows".to_owned(),
                };
                write!(f, "model {model} {does} {window}")
            }
            Self::Messages { window, one_in, messages } => {
                let which = if *one_in == 1 { "messages".into() } else { format!("one message in {one_in}") };
                match messages {
                    Messages::ComeTwice => write!(f, "{which} come twice {window}"),
                    Messages::ComeLate(by) => write!(f, "{which} come {} late {window}", time(*by)),
                    Messages::ComeBackAfter(after) => {
                        write!(f, "{which} come back after {} although worked on {window}", time(*after))
                    }
                }
            }
            Self::Reader { window, does: Reader::IsGone } => write!(f, "documents can't be opened {window}"),
            Self::Reader { window, does: Reader::Dawdles(by) } => {
                write!(f, "a document takes {} to be read {window}", time(*by))
            }
            Self::SecondDriver { document, process, at } => {
                write!(f, "process {process} drives document {document} too, from {}", time(*at))
            }
            Self::Person { at, document, wish } => {
                let wish = match wish {
                    Wish::Cancel => "cancels".to_owned(),
                    Wish::Approve => "approves".to_owned(),
                    Wish::Reject => "rejects".to_owned(),
                    Wish::Modify(left) => format!("gives {} to", time(*left)),
                    Wish::Heal => "heals".to_owned(),
                    Wish::Redrive => "redrives all dead letters after".to_owned(),
                    Wish::SubmitAgain => "submits again".to_owned(),
                };
                write!(f, "somebody {wish} document {document} at {}", time(*at))
            }
        }
    }
}
