//! The main loop of a parser process: it reads frames from stdin and writes frames to stdout.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    process,
    sync::mpsc,
    thread,
};

use everypage_core::{ports::pdf::PdfLimits, secret::Secret};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    Document, ReadMode,
    isolation::{
        frame,
        wire::{Reply, Request, WireError},
    },
};

/// Holds a page's image in one write instead of twenty: fewer switches between parent and child.
const PIPE_BYTES: usize = 1 << 20;

/// Serves one parent until it closes the pipe. Call it first in `main`, before any thread or runtime is
/// started and before anything is printed.
pub fn run() -> io::Result<()> {
    set_limit(Resource::Core, 0)?;
    let mut replies = take_stdout()?;
    let requests = receive_requests();
    let mut document = None;
    for (request, body) in requests {
        match request {
            Request::Open { password, limits } => {
                // The old one is closed first, so that two are never open at the same time.
                document = None;
                let reply = match open(body, password, &limits) {
                    Ok(opened) => {
                        let pages = opened.page_count();
                        document = Some(opened);
                        Reply::Opened { pages }
                    }
                    Err(error) => Reply::OpenFailed(error),
                };
                frame::write(&mut replies, &reply, &[])?;
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

fn open(path: Vec<u8>, password: Option<String>, limits: &PdfLimits) -> Result<Document, WireError> {
    set_limit(Resource::As, limits.max_memory_bytes)
        .map_err(|error| WireError::Unavailable(format!("the memory limit can't be set: {error}")))?;
    let path = PathBuf::from(OsString::from_vec(path));
    Ok(Document::open(&path, password.map(Secret::new).as_ref(), limits)?)
}

/// Sets the process's soft limit of a resource, capped by its hard limit.
fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Reserves stdout for frames: later prints go to `/dev/null`.
fn take_stdout() -> io::Result<File> {
    let replies = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(OpenOptions::new().write(true).open("/dev/null")?)?;
    // Where the system allows no larger pipe, the default size is enough.
    let _ = rustix::pipe::fcntl_setpipe_size(&replies, PIPE_BYTES);
    Ok(replies.into())
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
