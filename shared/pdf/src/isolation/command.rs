//! How to start a parser's process.

use std::{ffi::OsString, path::PathBuf, process::Stdio};

/// A program whose `main` calls [`child::run`](crate::child::run) when started like this; usually
/// the current executable with a hidden subcommand.
#[derive(Clone, Debug)]
pub struct ChildCommand {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl ChildCommand {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The child sees no other variable: what parses a hostile file should hold no secrets.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(super) fn spawn(&self) -> std::io::Result<tokio::process::Child> {
        tokio::process::Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // MuPDF's warnings quote the file and are of no use to the person at the terminal.
            .stderr(Stdio::null())
            // Ctrl-C at the terminal is for the parent to answer: it may still want this page.
            .process_group(0)
            // Ends a read that was cancelled, however that happened; the runtime reaps it.
            .kill_on_drop(true)
            .spawn()
    }
}
