//! `everypage-ocr DATA LANGUAGES MEMORY NICE`: recognizes the words of a page's image that comes over stdin.
//!
//! ```text
//! image ──> picture (gray) ──> recognize (which turn?) ──> tesseract ──> words with boxes and confidence
//!                        └────> lines ──> the rules of tables and forms
//! ```
//!
//! Everypage starts it for one page and kills it when the time is over. It can open no file, socket or process once
//! the languages are loaded.

mod confine;
mod lines;
mod picture;
mod recognize;
#[expect(unsafe_code, reason = "Tesseract is C++")]
mod tesseract;
mod wire;

use std::{env, io, path::Path, process::ExitCode, time::Duration};

use picture::Picture;
use tesseract::Tesseract;
use wire::{Reply, Request};

const USAGE: &str = "usage: everypage-ocr DATA LANGUAGES MEMORY_BYTES NICE, with a request over stdin; see shared/pdf/src/ocr";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [data, languages, memory, nice] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(memory), Ok(nice)) = (memory.parse(), nice.parse()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Err(error) = confine::limit(nice, memory) {
        eprintln!("everypage-ocr: {error}");
        return ExitCode::FAILURE;
    }
    match answer(Path::new(data), languages) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("everypage-ocr: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers one request: a process sees one page, so that a page that took it over learns nothing of another.
fn answer(data: &Path, languages: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let mut tesseract = match Tesseract::load(data, languages) {
        Ok(tesseract) => tesseract,
        Err(reason) => return wire::write(&mut output, &Reply::NoLanguages(reason), &[]),
    };
    confine::seal();
    let (request, image): (Request, Vec<u8>) = wire::read(&mut io::stdin().lock())?;
    match Picture::decode(&image) {
        Ok(picture) => {
            let time = Duration::from_millis(request.milliseconds);
            let page = recognize::page(&mut tesseract, &picture, request.dpi, time);
            wire::write(&mut output, &Reply::Words, &serde_json::to_vec(&page)?)
        }
        Err(reason) => wire::write(&mut output, &Reply::Failed(reason), &[]),
    }
}
