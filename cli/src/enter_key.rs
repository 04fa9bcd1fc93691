//! The Enter key, while a command works.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use tokio::sync::mpsc;

/// How long a look at the terminal takes; also how long a process in the background waits for the next one.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Receives a message for each Enter. `None` where standard input is not a terminal.
pub fn presses() -> Option<mpsc::Receiver<()>> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let (sender, receiver) = mpsc::channel(1);
    // A thread of its own, which ends with the process: a blocking read can't be cancelled, and the runtime
    // would wait for it.
    std::thread::Builder::new().name("enter key".into()).spawn(move || read_lines(&sender)).ok()?;
    Some(receiver)
}

/// Reads only what is there and only in the foreground: the system stops a process that reads from its
/// terminal in the background.
#[cfg(unix)]
fn read_lines(sender: &mpsc::Sender<()>) {
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::getpgrp,
        termios::tcgetpgrp,
    };
    let stdin = io::stdin();
    let Ok(timeout) = Timespec::try_from(POLL_INTERVAL) else { return };
    while !sender.is_closed() {
        let is_ready = match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        if !is_ready {
            continue;
        }
        if tcgetpgrp(&stdin) != Ok(getpgrp()) {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        match stdin.read_line(&mut String::new()) {
            // The end of the input, such as Ctrl-D or a closed terminal.
            Ok(0) | Err(_) => return,
            // A second Enter before the first is handled adds nothing.
            Ok(_) => drop(sender.try_send(())),
        }
    }
}

#[cfg(not(unix))]
fn read_lines(sender: &mpsc::Sender<()>) {
    while let Ok(1..) = io::stdin().read_line(&mut String::new()) {
        let _ = sender.try_send(());
    }
}
