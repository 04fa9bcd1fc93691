//! The main loop of a parser's process: frames in on stdin, frames out on stdout, nothing else.

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

use everypage_core::{domain::secret::Secret, ports::pdf::PdfLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    Care, Document,
    isolation::{
        frame,
        wire::{Refusal, Reply, Request},
    },
};

/// A page's image in one go instead of twenty: fewer switches between parent and child.
const PIPE_BYTES: usize = 1 << 20;

/// Serves one parent until it hangs up. Call it first thing in `main`, before any thread or
/// runtime is started and before anything is printed.
pub fn run() -> io::Result<()> {
    limit(Resource::Core, 0)?;
    let mut answers = take_stdout()?;
    let requests = listen();
    let mut document = None;
    for (request, body) in requests {
        match request {
            Request::Open { password, limits } => {
                // The old one goes first, so that two are never held at once.
                document = None;
                let reply = match open(body, password, &limits) {
                    Ok(opened) => {
                        let pages = opened.page_count();
                        document = Some(opened);
                        Reply::Opened { pages }
                    }
                    Err(refusal) => Reply::Refused(refusal),
                };
                frame::write(&mut answers, &reply, &[])?;
            }
            Request::Read { pages, options, careful } => {
                let Some(document) = &document else {
                    return Err(io::Error::other("asked to read before a document was opened"));
                };
                let care = if careful { Care::Extra } else { Care::Usual };
                for number in pages {
                    let (reply, text, image) = Reply::page(document.read_page(number, &options, care));
                    frame::write(&mut answers, &reply, &[text.as_bytes(), &image])?;
                }
            }
        }
    }
    Ok(())
}

fn open(path: Vec<u8>, password: Option<String>, limits: &PdfLimits) -> Result<Document, Refusal> {
    limit(Resource::As, limits.max_memory_bytes)
        .map_err(|error| Refusal::Unavailable(format!("memory can't be limited: {error}")))?;
    let path = PathBuf::from(OsString::from_vec(path));
    Ok(Document::open(&path, password.map(Secret::new).as_ref(), limits)?)
}

/// Lowers or raises what the process may use, never beyond what it was started with.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = Some(maximum.map_or(most, |maximum| most.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Keeps stdout for frames alone: whatever prints from now on prints to nowhere.
fn take_stdout() -> io::Result<File> {
    let answers = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(OpenOptions::new().write(true).open("/dev/null")?)?;
    // Where the system allows no larger pipe, the usual one does.
    let _ = rustix::pipe::fcntl_setpipe_size(&answers, PIPE_BYTES);
    Ok(answers.into())
}

/// Reads requests on a thread of its own, so that a parent's death ends even a runaway page.
///
/// `PR_SET_PDEATHSIG` would not do: it fires when the parent's *thread* ends, and runtimes end
/// threads at will.
fn listen() -> mpsc::Receiver<(Request, Vec<u8>)> {
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
