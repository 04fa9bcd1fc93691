//! The main loop of a parser process: it reads frames from stdin and writes frames to stdout.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    process,
    sync::mpsc,
    thread,
};

use everypage_core::{
    ports::pdf::{PageLayer, PdfError, PdfLimits},
    secret::Secret,
};

use crate::{
    Document, ReadMode,
    isolation::{
        frame,
        wire::{Reply, Request, WireError},
    },
};

/// Holds a page's image in one write instead of twenty: fewer switches between parent and child.
const PIPE_BYTES: usize = 1 << 20;
/// Of a file that is sent.
const PART_BYTES: usize = 16 << 20;

/// Serves one parent until it closes the pipe. Call it first in `main`, before any thread or runtime is
/// started and before anything is printed.
pub fn run() -> io::Result<()> {
    everypage_confine::close_descriptors();
    let (mut replies, file) = take_descriptors()?;
    let mut file = Some(file);
    everypage_confine::drop_rights();
    let requests = receive_requests();
    let mut document = None;
    for (request, body) in requests {
        match request {
            Request::Open { password, limits } => {
                let Some(file) = file.take() else {
                    return Err(io::Error::other("a process opens one document"));
                };
                everypage_confine::seal(limits.max_memory_bytes);
                let reply = match open(file, password, &limits) {
                    Ok(opened) => {
                        let pages = opened.page_count();
                        document = Some(opened);
                        Reply::Opened { pages }
                    }
                    Err(error) => Reply::OpenFailed(error),
                };
                frame::write(&mut replies, &reply, &[])?;
            }
            Request::Searchable => {
                let Some(document) = document.take() else {
                    return Err(io::Error::other("request for a PDF before a document was opened"));
                };
                let layers: Vec<PageLayer> = serde_json::from_slice(&body)?;
                match document.into_searchable(layers) {
                    Ok(bytes) => write_parts(&mut replies, &bytes)?,
                    Err(reason) => frame::write(&mut replies, &Reply::Failed(reason), &[])?,
                }
            }
            Request::Read { pages, options, careful } => {
                let Some(document) = &document else {
                    return Err(io::Error::other("read request before a document was opened"));
                };
                let mode = if careful { ReadMode::Careful } else { ReadMode::Normal };
                for number in pages {
                    let (reply, blocks, image) = Reply::page(document.read_page(number, &options, mode))?;
                    frame::write(&mut replies, &reply, &[&blocks, &image])?;
                }
            }
        }
    }
    Ok(())
}

/// Sends a file of any length: a frame has a limit.
fn write_parts(replies: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut parts = bytes.chunks(PART_BYTES).peekable();
    while let Some(part) = parts.next() {
        frame::write(replies, &Reply::Part { is_last: parts.peek().is_none() }, &[part])?;
    }
    Ok(())
}

fn open(file: File, password: Option<String>, limits: &PdfLimits) -> Result<Document, WireError> {
    let bytes = read_whole(file, limits)?;
    Ok(Document::from_bytes(bytes, password.map(Secret::new).as_ref(), limits)?)
}

/// Reads the document into memory, which is limited.
fn read_whole(mut file: File, limits: &PdfLimits) -> Result<Vec<u8>, PdfError> {
    let unreadable = |error: io::Error| PdfError::Unavailable(format!("the file can't be read: {error}"));
    let length = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    // MuPDF makes a copy of its own.
    let limit = limits.max_memory_bytes / 2;
    let too_large = PdfError::TooLarge { bytes: length, limit };
    let mut bytes = Vec::new();
    if length > limit || bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX)).is_err() {
        return Err(too_large);
    }
    file.take(length).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reserves stdout for frames and takes the document from descriptor 2: later prints go to `/dev/null`.
fn take_descriptors() -> io::Result<(File, File)> {
    let replies = rustix::io::dup(rustix::stdio::stdout())?;
    let document = rustix::io::dup(rustix::stdio::stderr())?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // Where the system allows no larger pipe, the default size is enough.
    let _ = rustix::pipe::fcntl_setpipe_size(&replies, PIPE_BYTES);
    Ok((replies.into(), document.into()))
}

/// Reads requests on a separate thread, which exits the process when the parent ends, even during a
/// page that never ends.
///
/// `PR_SET_PDEATHSIG` would not do: it fires when the parent's *thread* ends, and runtimes end
/// threads at will.
fn receive_requests() -> mpsc::Receiver<(Request, Vec<u8>)> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(request) = frame::read(&mut input) {
            if sender.send(request).is_err() {
                break;
            }
        }
        process::exit(0);
    });
    receiver
}
