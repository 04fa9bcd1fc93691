//! Everything that can go wrong in a run, as values: drawn from a seed, printed in the log, and removed
//! one by one when a failing run is shrunk.

use std::{fmt, time::Duration};

/// When a process that is not restarted by itself comes back: its machine has been repaired.
pub const REPAIR_TIME: Duration = Duration::from_secs(60);

/// A time window, measured from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Duration,
    pub until: Duration,
}

impl Window {
    pub fn covers(&self, at: Duration) -> bool {
        (self.from..self.until).contains(&at)
    }

    pub fn overlaps(&self, other: &Window) -> bool {
        self.from < other.until && other.from < self.until
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", time(self.from), time(self.until))
    }
}

/// A storage port, by the first word of its calls.
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
pub enum StorageFault {
    Refuses,
    LosesReplies,
    Throttles,
    /// Each call takes this much longer.
    IsSlow(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFault {
    IsDown,
    Hangs,
    IsSlow(Duration),
    /// With its `retry_after`.
    IsRateLimited(Duration),
    /// Without saying for how long.
    IsRateLimitedSilently,
    /// Has a rate limit of its own.
    RefusesMoreThan {
        calls: usize,
        retry_after: Option<Duration>,
    },
    /// Takes this many calls per time, refilled continuously, and announces what is left.
    HasQuota {
        calls: u64,
        per: Duration,
    },
    /// One call in this many fails.
    FailsSometimes(u64),
    /// One call in this many fails, and asks not to be repeated for some time.
    FailsAndAsksToWait {
        one_in: u64,
        wait: Duration,
    },
    /// One call in this many hangs.
    HangsSometimes(u64),
    AnswersEmpty,
    AnswersTruncated,
    RepeatsItself,
    RejectsTheKey,
    RejectsThePage,
    /// Fails with an error that the adapter does not know.
    FailsUnknown,
}

/// A fault of the PDF reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderFault {
    IsUnavailable,
    /// Each call takes this much longer.
    IsSlow(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFault {
    DeliveredTwice,
    DeliveredLate(Duration),
    /// A received message is hidden for at most this long.
    RedeliveredAfter(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    Cancel,
    Approve,
    Reject,
    /// Approve, with a deadline this long from then.
    Modify(Duration),
    Heal,
    /// Redrive every dead letter.
    Redrive,
    SubmitAgain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedFault {
    Storage {
        port: Port,
        window: Window,
        one_in: u64,
        kind: StorageFault,
    },
    /// A process is killed at any point of its work, and may be started again.
    Kill {
        process: usize,
        at: Duration,
        back_after: Option<Duration>,
    },
    /// A process is killed between two steps: just before it makes this call, counted over all its runs.
    KillAtCall {
        process: usize,
        call: u64,
        back_after: Option<Duration>,
    },
    Model {
        model: usize,
        window: Window,
        kind: ModelFault,
    },
    Messages {
        window: Window,
        one_in: u64,
        kind: MessageFault,
    },
    Reader {
        window: Window,
        kind: ReaderFault,
    },
    /// A second process believes that it drives the job.
    SecondDriver {
        document: usize,
        process: usize,
        at: Duration,
    },
    /// A person acts on a job: not a fault, but at an arbitrary moment.
    User {
        at: Duration,
        document: usize,
        action: UserAction,
    },
}

impl PlannedFault {
    /// When it is over, as far as the plan can tell.
    pub fn end(&self) -> Duration {
        match self {
            Self::Storage { window, .. }
            | Self::Model { window, .. }
            | Self::Messages { window, .. }
            | Self::Reader { window, .. } => window.until,
            Self::Kill { at, back_after, .. } => *at + back_after.unwrap_or(REPAIR_TIME),
            // Not known in advance: the installation tracks which processes are down.
            Self::KillAtCall { .. } => Duration::ZERO,
            Self::SecondDriver { at, .. } | Self::User { at, .. } => *at,
        }
    }
}

/// `12.3 s`
pub fn time(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The name of a variant, without its fields.
pub fn name(variant: &impl fmt::Debug) -> String {
    let whole = format!("{variant:?}");
    whole.split(['(', ' ']).next().unwrap_or_default().to_owned()
}

fn chance(one_in: u64) -> String {
    if one_in == 1 { "every call".into() } else { format!("one call in {one_in}") }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let back = |back: &Option<Duration>| {
            back.map_or("for good".into(), |back| format!("and is back after {}", time(back)))
        };
        match self {
            Self::Storage { port, window, one_in, kind } => {
                let (port, chance) = (port.name(), chance(*one_in));
                match kind {
                    StorageFault::Refuses => write!(f, "{port}: {chance} is refused {window}"),
                    StorageFault::LosesReplies => {
                        write!(f, "{port}: {chance} is done and its reply lost {window}")
                    }
                    StorageFault::Throttles => write!(f, "{port}: {chance} is throttled {window}"),
                    StorageFault::IsSlow(by) => {
                        write!(f, "{port}: {chance} takes {} longer {window}", time(*by))
                    }
                }
            }
            Self::Kill { process, at, back_after } => {
                write!(f, "process {process} is killed at {} {}", time(*at), back(back_after))
            }
            Self::KillAtCall { process, call, back_after } => {
                write!(f, "process {process} is killed at its call {call} {}", back(back_after))
            }
            Self::Model { model, window, kind } => {
                let kind = match kind {
                    ModelFault::IsDown => "is down".to_owned(),
                    ModelFault::Hangs => "hangs".to_owned(),
                    ModelFault::IsSlow(by) => format!("takes {}", time(*by)),
                    ModelFault::IsRateLimited(wait) => {
                        format!("is rate limited, retry after {}", time(*wait))
                    }
                    ModelFault::IsRateLimitedSilently => "is rate limited".to_owned(),
                    ModelFault::RefusesMoreThan { calls, retry_after } => {
                        let wait = retry_after.map(|wait| format!(", retry after {}", time(wait)));
                        format!("refuses more than {calls} calls at once{}", wait.unwrap_or_default())
                    }
                    ModelFault::HasQuota { calls, per } => {
                        format!("takes {calls} calls per {} and announces what is left", time(*per))
                    }
                    ModelFault::FailsSometimes(one_in) => format!("fails {}", chance(*one_in)),
                    ModelFault::FailsAndAsksToWait { one_in, wait } => {
                        format!("fails {}, retry after {}", chance(*one_in), time(*wait))
                    }
                    ModelFault::HangsSometimes(one_in) => format!("hangs at {}", chance(*one_in)),
                    ModelFault::AnswersEmpty => "answers nothing".to_owned(),
                    ModelFault::AnswersTruncated => "truncates its answers".to_owned(),
                    ModelFault::RepeatsItself => "repeats itself".to_owned(),
                    ModelFault::RejectsTheKey => "rejects the key".to_owned(),
                    ModelFault::RejectsThePage => "rejects the page".to_owned(),
                    ModelFault::FailsUnknown => "fails with an unknown error".to_owned(),
                };
                write!(f, "model {model} {kind} {window}")
            }
            Self::Messages { window, one_in, kind } => {
                let which = if *one_in == 1 { "messages".into() } else { format!("one message in {one_in}") };
                match kind {
                    MessageFault::DeliveredTwice => write!(f, "{which} delivered twice {window}"),
                    MessageFault::DeliveredLate(by) => {
                        write!(f, "{which} delivered {} late {window}", time(*by))
                    }
                    MessageFault::RedeliveredAfter(after) => {
                        write!(f, "{which} redelivered after {} while in work {window}", time(*after))
                    }
                }
            }
            Self::Reader { window, kind: ReaderFault::IsUnavailable } => {
                write!(f, "documents can't be opened {window}")
            }
            Self::Reader { window, kind: ReaderFault::IsSlow(by) } => {
                write!(f, "reading a document takes {} longer {window}", time(*by))
            }
            Self::SecondDriver { document, process, at } => {
                write!(f, "process {process} also drives document {document}, from {}", time(*at))
            }
            Self::User { at, document, action } => {
                let action = match action {
                    UserAction::Cancel => "cancels".to_owned(),
                    UserAction::Approve => "approves".to_owned(),
                    UserAction::Reject => "rejects".to_owned(),
                    UserAction::Modify(remaining) => format!("gives {} to", time(*remaining)),
                    UserAction::Heal => "heals".to_owned(),
                    UserAction::Redrive => "redrives all dead letters after".to_owned(),
                    UserAction::SubmitAgain => "submits again".to_owned(),
                };
                write!(f, "a user {action} document {document} at {}", time(*at))
            }
        }
    }
}
