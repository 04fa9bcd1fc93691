//! One parser process, as the parent handles it.

use std::{
    fs::File, io, os::unix::process::ExitStatusExt, path::Path, pin::pin, process::ExitStatus, time::Duration,
};

use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::pdf::{PageLayer, PdfError, PdfLimits, ReadOptions},
    secret::Secret,
};
use rustix::process::Pid;
use tokio::{
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{
    command::ChildCommand,
    frame,
    wire::{Reply, Request, sanitize},
};

/// How long a process whose pipe has closed may take to exit before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// How much longer than its limit an open may take on a machine that is busy with other work.
const MAX_STRETCH: u32 = 10;
/// The unit of times in `/proc`, on every architecture of Linux that this is built for.
const TICKS_PER_SECOND: u64 = 100;

/// A running child. Dropping it kills it, so that a process with an open request is never reused.
pub(super) struct ParserProcess {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Page count of the open document.
    pub page_count: u32,
    /// Number of pages read so far; old processes are replaced.
    pub pages_read: u32,
    pub nice: i32,
}

/// How a child failed.
#[derive(Debug)]
pub(super) enum ChildFailure {
    TimedOut(Duration),
    Exited(Option<ExitStatus>),
    /// Its reply does not match the request.
    InvalidReply,
}

impl ChildFailure {
    /// Whether the process aborted: a failed assertion in the bindings or in MuPDF, worth a retry in
    /// careful mode.
    pub fn is_abort(&self) -> bool {
        const SIGABRT: i32 = 6;
        matches!(self, Self::Exited(Some(status)) if status.signal() == Some(SIGABRT) || status.code().is_some_and(|code| code != 0))
    }
}

/// Why a document was not opened.
#[derive(Debug)]
pub(super) enum OpenError {
    Pdf(PdfError),
    Child(ChildFailure),
}

/// Why there is no searchable PDF.
#[derive(Debug)]
pub(super) enum SearchableError {
    Refused(String),
    Child(ChildFailure),
}

/// The rest of a sentence that starts with "the parser".
impl std::fmt::Display for ChildFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut(limit) if limit.subsec_nanos() == 0 => {
                write!(f, "took longer than {} s", limit.as_secs())
            }
            Self::TimedOut(limit) => write!(f, "took longer than {} ms", limit.as_millis()),
            Self::Exited(Some(status)) => match (status.signal(), status.code()) {
                (Some(signal), _) => write!(f, "crashed ({})", signal_name(signal)),
                (None, code) => write!(f, "ended unexpectedly (exit code {})", code.unwrap_or(-1)),
            },
            Self::Exited(None) => f.write_str("ended unexpectedly"),
            Self::InvalidReply => f.write_str("sent an invalid reply"),
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

/// Waits for `work` until the process has computed for `time`. Where other work keeps it from computing, it may
/// take up to [`MAX_STRETCH`] times as long.
async fn while_computing<T>(pid: Option<u32>, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let (mut left, mut waited) = (time, Duration::ZERO);
    loop {
        if let Ok(done) = timeout(left, work.as_mut()).await {
            return Some(done);
        }
        waited += left;
        let computed = pid.and_then(processor_time).unwrap_or(time);
        if computed >= time || waited >= time * MAX_STRETCH {
            return None;
        }
        left = (time - computed).max(time / 20);
    }
}

/// The processor time that a process has used, of all its threads.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may contain anything: state is the first field, utime and stime the 12th and 13th.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map_while(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

impl ParserProcess {
    /// Starts a process for one document.
    pub fn spawn(command: &ChildCommand, document: &Path) -> io::Result<Self> {
        let mut process = command.spawn(File::open(document)?)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        Ok(Self { process, input, output, page_count: 0, pages_read: 0, nice: 0 })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Lowers the priority of the process; it can't be raised again.
    pub fn lower_priority(&mut self, nice: i32) {
        let pid = self.process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if nice > self.nice
            && let Some(pid) = pid
        {
            // Without it the process is only less polite.
            let _ = rustix::process::setpriority_process(Some(pid), nice);
            self.nice = nice;
        }
    }

    /// Opens its document, for at most `time` of a processor: a document is not refused because the machine is
    /// busy with others. After an error the process can't be used again.
    pub async fn open(
        &mut self,
        password: Option<&Secret>,
        limits: &PdfLimits,
        time: Duration,
    ) -> Result<(), OpenError> {
        let password = password.map(|secret| secret.expose().to_owned());
        let request = Request::Open { password, limits: *limits };
        let pid = self.process.id();
        let reply = while_computing(pid, time, async {
            frame::send(&mut self.input, &request, &[]).await?;
            frame::receive::<Reply>(&mut self.output).await
        });
        let failure = match reply.await {
            Some(Ok((Reply::Opened { pages }, _))) => {
                self.page_count = pages;
                return Ok(());
            }
            Some(Ok((Reply::OpenFailed(error), _))) => return Err(OpenError::Pdf(error.into())),
            Some(Ok(_)) => ChildFailure::InvalidReply,
            Some(Err(_)) => self.exit_failure().await,
            None => ChildFailure::TimedOut(time),
        };
        Err(OpenError::Child(failure))
    }

    /// Requests pages, which [`ParserProcess::next_page`] then returns one by one.
    pub async fn request_pages(&mut self, pages: &[PageNumber], options: &ReadOptions, careful: bool) {
        let request = Request::Read { pages: pages.to_vec(), options: *options, careful };
        // A child that can't be written to has ended; receiving the first page then returns how.
        let _ = frame::send(&mut self.input, &request, &[]).await;
    }

    /// Receives the reading of `number`, the next requested page.
    pub async fn next_page(
        &mut self,
        number: PageNumber,
        time: Duration,
    ) -> Result<PageReading, ChildFailure> {
        match timeout(time, frame::receive::<Reply>(&mut self.output)).await {
            Ok(Ok((reply, body))) => match reply.into_page(body) {
                Some(reading) if reading.number == number => {
                    self.pages_read = self.pages_read.saturating_add(1);
                    Ok(reading)
                }
                _ => Err(ChildFailure::InvalidReply),
            },
            Ok(Err(_)) => Err(self.exit_failure().await),
            Err(_) => Err(ChildFailure::TimedOut(time)),
        }
    }

    /// Makes a searchable PDF of the open document, of at most `max_bytes`. The process can't be used again.
    pub async fn searchable(
        &mut self,
        layers: &[PageLayer],
        time: Duration,
        max_bytes: u64,
    ) -> Result<Vec<u8>, SearchableError> {
        let body = serde_json::to_vec(layers).map_err(|error| SearchableError::Refused(error.to_string()))?;
        let received = timeout(time, async {
            frame::send(&mut self.input, &Request::Searchable, &body).await?;
            let mut pdf = Vec::new();
            loop {
                let (reply, part) = frame::receive::<Reply>(&mut self.output).await?;
                match reply {
                    Reply::Part { .. } if (pdf.len() + part.len()) as u64 > max_bytes => {
                        let reason = format!("it would have more than {max_bytes} bytes");
                        return Ok(Err(SearchableError::Refused(reason)));
                    }
                    Reply::Part { is_last } => {
                        pdf.extend(part);
                        if is_last {
                            return Ok::<_, io::Error>(Ok(pdf));
                        }
                    }
                    Reply::Failed(reason) => return Ok(Err(SearchableError::Refused(sanitize(&reason)))),
                    _ => return Ok(Err(SearchableError::Child(ChildFailure::InvalidReply))),
                }
            }
        });
        let failure = match received.await {
            Ok(Ok(made)) => return made,
            Ok(Err(_)) => self.exit_failure().await,
            Err(_) => ChildFailure::TimedOut(time),
        };
        Err(SearchableError::Child(failure))
    }

    /// Kills the process, if it still runs, and waits for its exit.
    pub async fn kill(mut self) {
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "parser process not killed");
        }
    }

    /// The exit status of a process whose pipe has closed.
    async fn exit_failure(&mut self) -> ChildFailure {
        match timeout(EXIT_GRACE, self.process.wait()).await {
            Ok(Ok(status)) => ChildFailure::Exited(Some(status)),
            _ => ChildFailure::Exited(None),
        }
    }
}
