//! One file from outside: a process of its own, watched.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use everypage_pdf::Losses;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{Instant, timeout},
};

use super::{
    end::{End, Ended, Kind, Order, Told},
    watch::Peak,
};

/// What a process may take beyond its time limit to start, to stop and to say so. A busy machine
/// is not a hang.
const GRACE: Duration = Duration::from_secs(20);
/// How often its memory is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// As much of a panic as a person needs to find it.
const MOST_LAST_WORDS: usize = 600;

/// Has the file read by `program` and tells how that ended.
pub async fn put_through(program: &Path, file: PathBuf, order: &Order) -> Ended {
    let (started, mut peak) = (Instant::now(), Peak::default());
    let told = read_in_process(program, &file, order, &mut peak).await;
    let Told { end, losses } = told
        .unwrap_or_else(|(kind, what)| Told { end: End::Defect { kind, what }, losses: Losses::default() });
    let end = match (end, defect(&losses, &peak, order)) {
        (end @ End::Defect { .. }, _) | (end, None) => end,
        (_, Some((kind, what))) => End::Defect { kind, what },
    };
    let milliseconds = started.elapsed().as_millis() as u64;
    Ended { file, end, losses, milliseconds, own_bytes: peak.own, parser_bytes: peak.parser }
}

type Defect = (Kind, String);

async fn read_in_process(
    program: &Path,
    file: &Path,
    order: &Order,
    peak: &mut Peak,
) -> Result<Told, Defect> {
    let unavailable = |error: std::io::Error| (Kind::Unavailable, format!("no process for it: {error}"));
    let mut child = Command::new(program)
        .args(["dev", "torture-file"])
        .arg(file)
        .env("LOG_LEVEL", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(unavailable)?;
    let request = serde_json::to_vec(order).unwrap_or_default();
    if let Some(mut input) = child.stdin.take() {
        // If it is gone already, its end says more than this.
        let _ = input.write_all(&request).await;
    }
    let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
    let (mut answer, mut last_words) = (Vec::new(), Vec::new());
    let ended = timeout(order.time_limit + GRACE, async {
        let pipes = async {
            tokio::join!(drain(&mut output, &mut answer), drain(&mut errors, &mut last_words));
        };
        tokio::join!(watched(&mut child, peak), pipes).0
    });
    let ended = ended.await.map_err(|_| {
        let limit = crate::human::duration(order.time_limit);
        (Kind::Hang, format!("it went on after its time limit of {limit}"))
    })?;
    let status = ended.map_err(unavailable)?;
    let panicked = String::from_utf8_lossy(&last_words).contains("panicked at");
    match serde_json::from_slice(&answer) {
        Ok(told) if status.success() && !panicked => Ok(told),
        _ => Err((Kind::Crash, crash(status, &last_words))),
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
            peak.look(pid);
        }
        if let Ok(ended) = timeout(LOOK, child.wait()).await {
            return ended;
        }
    }
}

fn crash(status: ExitStatus, last_words: &[u8]) -> String {
    let words: String = String::from_utf8_lossy(last_words)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST_LAST_WORDS)
        .collect();
    format!("the process that read it ended with {status}: {}", words.trim())
}

/// What is a defect even where the file ended well.
fn defect(losses: &Losses, peak: &Peak, order: &Order) -> Option<Defect> {
    let limit = order.limits.max_memory_bytes;
    let shown = crate::human::bytes;
    if losses.panicked > 0 {
        return Some((Kind::Crash, "the parser's process ended by a panic".into()));
    }
    if losses.confused > 0 {
        return Some((Kind::Crash, "the parser's process answered what makes no sense".into()));
    }
    if peak.parser > limit {
        let what = format!("a parser had {} of memory; the limit is {}", shown(peak.parser), shown(limit));
        return Some((Kind::Memory, what));
    }
    if peak.own > limit {
        let what =
            format!("the program itself had {} of memory; the limit is {}", shown(peak.own), shown(limit));
        return Some((Kind::Memory, what));
    }
    None
}

#[cfg(test)]
mod tests {
    use everypage_core::{domain::document::ImageStyle, ports::pdf::PdfLimits};

    use super::*;

    #[test]
    fn what_is_a_defect_even_where_the_file_ended_well() {
        let order = Order {
            limits: PdfLimits { max_memory_bytes: 500 << 20, ..PdfLimits::default() },
            password: None,
            step_timeout: Duration::from_secs(9),
            time_limit: Duration::from_secs(9),
            range_pages: 32,
            image: ImageStyle::default(),
        };
        let found = |losses, own: u64, parser: u64| {
            defect(&losses, &Peak { own: own << 20, parser: parser << 20 }, &order).map(|(kind, _)| kind)
        };
        let none = Losses::default();
        assert_eq!(found(none, 500, 500), None);
        assert_eq!(found(none, 20, 501), Some(Kind::Memory));
        assert_eq!(found(none, 501, 20), Some(Kind::Memory));
        // Contained: the job goes on.
        assert_eq!(found(Losses { crashed: 3, timed_out: 3, ..none }, 20, 20), None);
        assert_eq!(found(Losses { panicked: 1, ..none }, 20, 20), Some(Kind::Crash));
        assert_eq!(found(Losses { confused: 1, ..none }, 20, 20), Some(Kind::Crash));
    }

    #[tokio::test]
    async fn the_memory_of_a_running_process_is_seen() {
        let mut peak = Peak::default();
        peak.look(std::process::id());
        assert!(peak.own > 1 << 20, "{peak:?}");
    }
}
