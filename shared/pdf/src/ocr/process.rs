//! One process of `everypage-ocr`, which recognizes one page.

use std::{path::Path, process::Stdio, time::Duration};

use everypage_core::ports::ocr::{OcrError, OcrPriority};
use tokio::{process::Command, time::timeout};

use super::wire::{Page, Reply, Request};
use crate::isolation::frame;

/// A page of 40 million pixels, with what Tesseract makes of it.
const MAX_MEMORY_BYTES: u64 = 1 << 30;
/// After its time, the engine returns the words that it has; one that does not is killed this much later.
const GRACE: Duration = Duration::from_secs(10);

/// Dropping the future kills the process.
pub(super) async fn recognize(
    program: &Path,
    data: &Path,
    languages: &str,
    image: &[u8],
    dpi: u32,
    priority: OcrPriority,
    time: Duration,
) -> Result<Page, OcrError> {
    let nice: i32 = match priority {
        // The lowest: it takes only what nothing else wants.
        OcrPriority::Ahead => 19,
        OcrPriority::Needed => 10,
    };
    let mut child = Command::new(program)
        .arg(data)
        .args([languages, &MAX_MEMORY_BYTES.to_string(), &nice.to_string()])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Ctrl-C at the terminal is for the parent.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| OcrError::Unavailable(format!("{} can't be started: {error}", program.display())))?;
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(OcrError::Unavailable("the program has no pipes".into()));
    };
    let request = Request { dpi, milliseconds: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) };
    let reply = timeout(time + GRACE, async {
        // A program that can't be written to has ended; its reply says why, if there is one.
        let _ = frame::send(&mut input, &request, image).await;
        frame::receive::<Reply>(&mut output).await
    });
    match reply.await {
        Ok(Ok((Reply::Words, body))) => serde_json::from_slice(&body)
            .map_err(|_| OcrError::Page("the OCR program sent an invalid reply".into())),
        Ok(Ok((Reply::NoLanguages(reason), _))) => Err(OcrError::Unavailable(printable(&reason))),
        Ok(Ok((Reply::Failed(reason), _))) => Err(OcrError::Page(printable(&reason))),
        Ok(Err(_)) => Err(OcrError::Page("the OCR program ended at this page".into())),
        Err(_) => Err(OcrError::Page(format!("OCR took longer than {} s", time.as_secs()))),
    }
}

/// What a confined program says is not trusted: no control characters, no length.
fn printable(reason: &str) -> String {
    reason.chars().filter(|c| *c == ' ' || c.is_ascii_graphic()).take(300).collect()
}
