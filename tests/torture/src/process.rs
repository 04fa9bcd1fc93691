//! Reads one file in a process of its own, and watches it.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use everypage_pdf::ChildFailures;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{Instant, timeout},
};

use super::{
    memory::Peak,
    outcome::{DefectKind, FileReport, Outcome, ReadRequest, ReadResult},
};

/// What a process may take beyond its time limit to start, stop and report: a busy machine is not a
/// hang.
const GRACE: Duration = Duration::from_secs(20);
/// How often its memory is measured.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Enough of a panic's message to find it.
const MAX_STDERR_CHARS: usize = 600;

/// Has `program` read the file, and reports the outcome.
pub async fn run(program: &Path, file: PathBuf, request: &ReadRequest) -> FileReport {
    let (started, mut peak) = (Instant::now(), Peak::default());
    let result = read_in_process(program, &file, request, &mut peak).await;
    let ReadResult { outcome, losses } = result.unwrap_or_else(|(kind, what)| ReadResult {
        outcome: Outcome::Defect { kind, what },
        losses: ChildFailures::default(),
    });
    let outcome = match (outcome, defect(&losses, &peak, request)) {
        (outcome @ Outcome::Defect { .. }, _) | (outcome, None) => outcome,
        (_, Some((kind, what))) => Outcome::Defect { kind, what },
    };
    let milliseconds = started.elapsed().as_millis() as u64;
    FileReport { file, outcome, losses, milliseconds, own_bytes: peak.own, parser_bytes: peak.parser }
}

type Defect = (DefectKind, String);

async fn read_in_process(
    program: &Path,
    file: &Path,
    request: &ReadRequest,
    peak: &mut Peak,
) -> Result<ReadResult, Defect> {
    let unavailable = |error: std::io::Error| {
        (DefectKind::Unavailable, format!("its process could not be started: {error}"))
    };
    let mut child = Command::new(program)
        .arg("torture-file")
        .arg(file)
        .env("LOG_LEVEL", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(unavailable)?;
    let message = serde_json::to_vec(request).unwrap_or_default();
    if let Some(mut input) = child.stdin.take() {
        // If the process has died already, its exit status is the better message.
        let _ = input.write_all(&message).await;
    }
    let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
    let (mut answer, mut stderr) = (Vec::new(), Vec::new());
    let ended = timeout(request.time_limit + GRACE, async {
        let pipes = async {
            tokio::join!(drain(&mut output, &mut answer), drain(&mut errors, &mut stderr));
        };
        tokio::join!(watched(&mut child, peak), pipes).0
    });
    let ended = ended.await.map_err(|_| {
        let limit = crate::human::duration(request.time_limit);
        (DefectKind::Hang, format!("reading continued after its time limit of {limit}"))
    })?;
    let status = ended.map_err(unavailable)?;
    let panicked = String::from_utf8_lossy(&stderr).contains("panicked at");
    match serde_json::from_slice(&answer) {
        Ok(result) if status.success() && !panicked => Ok(result),
        _ => Err((DefectKind::Crash, crash(status, &stderr))),
    }
}

async fn drain(pipe: &mut Option<impl AsyncReadExt + Unpin>, into: &mut Vec<u8>) {
    if let Some(pipe) = pipe {
        let _ = pipe.read_to_end(into).await;
    }
}

async fn watched(child: &mut Child, peak: &mut Peak) -> std::io::Result<ExitStatus> {
    let pid = child.id();
    loop {
        if let Some(pid) = pid {
            peak.measure(pid);
        }
        if let Ok(ended) = timeout(POLL_INTERVAL, child.wait()).await {
            return ended;
        }
    }
}

fn crash(status: ExitStatus, stderr: &[u8]) -> String {
    let words: String = String::from_utf8_lossy(stderr)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_STDERR_CHARS)
        .collect();
    format!("the process that read it ended with {status}: {}", words.trim())
}

/// What is a defect even if the file was read.
fn defect(losses: &ChildFailures, peak: &Peak, request: &ReadRequest) -> Option<Defect> {
    let limit = request.limits.max_memory_bytes;
    let shown = crate::human::megabytes;
    if losses.panicked > 0 {
        return Some((DefectKind::Crash, "the parser's process panicked".into()));
    }
    if losses.invalid_replies > 0 {
        return Some((DefectKind::Crash, "the parser's process sent an invalid answer".into()));
    }
    if peak.parser > limit {
        let what = format!("a parser used {} of memory; the limit is {}", shown(peak.parser), shown(limit));
        return Some((DefectKind::Memory, what));
    }
    if peak.own > limit {
        let what =
            format!("the program itself used {} of memory; the limit is {}", shown(peak.own), shown(limit));
        return Some((DefectKind::Memory, what));
    }
    None
}

#[cfg(test)]
mod tests {
    use everypage_core::{document::ImageStyle, ports::pdf::PdfLimits};

    use super::*;

    #[test]
    fn contained_losses_are_no_defect_and_excess_memory_is() {
        let request = ReadRequest {
            limits: PdfLimits { max_memory_bytes: 500 << 20, ..PdfLimits::default() },
            password: None,
            step_timeout: Duration::from_secs(9),
            time_limit: Duration::from_secs(9),
            range_pages: 32,
            image: ImageStyle::default(),
            ocr: false,
        };
        let found = |losses, own: u64, parser: u64| {
            defect(&losses, &Peak { own: own << 20, parser: parser << 20 }, &request).map(|(kind, _)| kind)
        };
        let none = ChildFailures::default();
        assert_eq!(found(none, 500, 500), None);
        assert_eq!(found(none, 20, 501), Some(DefectKind::Memory));
        assert_eq!(found(none, 501, 20), Some(DefectKind::Memory));
        // Contained: the job continues.
        assert_eq!(found(ChildFailures { crashed: 3, timed_out: 3, ..none }, 20, 20), None);
        assert_eq!(found(ChildFailures { panicked: 1, ..none }, 20, 20), Some(DefectKind::Crash));
        assert_eq!(found(ChildFailures { invalid_replies: 1, ..none }, 20, 20), Some(DefectKind::Crash));
    }

    #[tokio::test]
    async fn the_memory_of_a_running_process_is_measured() {
        let mut peak = Peak::default();
        peak.measure(std::process::id());
        assert!(peak.own > 1 << 20, "{peak:?}");
    }
}
