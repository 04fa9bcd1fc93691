//! One parser's process, seen from the parent.

use std::{
    io,
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    path::Path,
    process::ExitStatus,
    time::Duration,
};

use everypage_core::{
    domain::{document::PageReading, ids::PageNumber, secret::Secret},
    ports::pdf::{PdfError, PdfLimits, ReadOptions},
};
use tokio::{
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{
    command::ChildCommand,
    frame,
    wire::{Reply, Request},
};

/// How long a process whose pipe has closed may take to be gone before it is killed.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// A running child. Dropping it kills it, so one that is in the middle of something can't be reused.
pub(super) struct Worker {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Pages of the document it has open.
    pub page_count: u32,
    /// Pages read so far; old processes are replaced.
    pub pages_read: u32,
}

/// How a child was lost.
#[derive(Debug)]
pub(super) enum Lost {
    TimedOut(Duration),
    Ended(Option<ExitStatus>),
    /// It answered what makes no sense.
    Confused,
}

impl Lost {
    /// An abort is a check that failed, in the bindings or in MuPDF: worth one more careful try.
    pub fn by_abort(&self) -> bool {
        const SIGABRT: i32 = 6;
        matches!(self, Self::Ended(Some(status)) if status.signal() == Some(SIGABRT) || status.code().is_some_and(|code| code != 0))
    }
}

/// Why a document was not opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    Refused(PdfError),
    Lost(Lost),
}

/// Completes the sentences "the parser ..." and "the page was given up: the parser ...".
impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut(limit) if limit.subsec_nanos() == 0 => {
                write!(f, "took longer than {} s", limit.as_secs())
            }
            Self::TimedOut(limit) => write!(f, "took longer than {} ms", limit.as_millis()),
            Self::Ended(Some(status)) => match (status.signal(), status.code()) {
                (Some(signal), _) => write!(f, "crashed ({})", signal_name(signal)),
                (None, code) => write!(f, "ended unexpectedly (exit code {})", code.unwrap_or(-1)),
            },
            Self::Ended(None) => f.write_str("ended unexpectedly"),
            Self::Confused => f.write_str("answered nonsense"),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal}, {name}")
}

impl Worker {
    pub fn spawn(command: &ChildCommand) -> io::Result<Self> {
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        Ok(Self { process, input, output, page_count: 0, pages_read: 0 })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Opens a document. After an error the worker is of no more use.
    pub async fn open(
        &mut self,
        file: &Path,
        password: Option<&Secret>,
        limits: &PdfLimits,
        time: Duration,
    ) -> Result<(), NotOpened> {
        let password = password.map(|secret| secret.expose().to_owned());
        let request = Request::Open { password, limits: *limits };
        let path = file.as_os_str().as_bytes();
        let answer = timeout(time, async {
            frame::send(&mut self.input, &request, path).await?;
            frame::receive::<Reply>(&mut self.output).await
        });
        let lost = match answer.await {
            Ok(Ok((Reply::Opened { pages }, _))) => {
                self.page_count = pages;
                return Ok(());
            }
            Ok(Ok((Reply::Refused(refusal), _))) => return Err(NotOpened::Refused(refusal.into())),
            Ok(Ok((Reply::Page { .. }, _))) => Lost::Confused,
            Ok(Err(_)) => self.last_words().await,
            Err(_) => Lost::TimedOut(time),
        };
        Err(NotOpened::Lost(lost))
    }

    /// Asks for pages, which then come one by one from [`Worker::next_page`].
    pub async fn ask(&mut self, pages: &[PageNumber], options: &ReadOptions, careful: bool) {
        let request = Request::Read { pages: pages.to_vec(), options: *options, careful };
        // A child that can't be written to is dead, and the first page's answer will say how.
        let _ = frame::send(&mut self.input, &request, &[]).await;
    }

    /// The answer for `number`, the next page that was asked for.
    pub async fn next_page(&mut self, number: PageNumber, time: Duration) -> Result<PageReading, Lost> {
        match timeout(time, frame::receive::<Reply>(&mut self.output)).await {
            Ok(Ok((reply, body))) => match reply.into_page(body) {
                Some(reading) if reading.number == number => {
                    self.pages_read = self.pages_read.saturating_add(1);
                    Ok(reading)
                }
                _ => Err(Lost::Confused),
            },
            Ok(Err(_)) => Err(self.last_words().await),
            Err(_) => Err(Lost::TimedOut(time)),
        }
    }

    /// Kills the process, if need be, and waits until it is gone.
    pub async fn bury(mut self) {
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "a parser's process could not be killed");
        }
    }

    async fn last_words(&mut self) -> Lost {
        match timeout(LAST_BREATH, self.process.wait()).await {
            Ok(Ok(status)) => Lost::Ended(Some(status)),
            _ => Lost::Ended(None),
        }
    }
}
