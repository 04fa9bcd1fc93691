//! The command that starts a parser process.

use std::{ffi::OsString, fs::File, path::PathBuf, process::Stdio};

/// A command whose `main` calls [`child::run`](crate::child::run); usually the current executable with
/// a hidden subcommand.
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

    /// Sets a variable. The child gets no others: a process that parses hostile files must hold no secrets.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts the process with the open document as its descriptor 2: it has no right to open any file, and
    /// MuPDF's warnings, which would go there, quote the file and don't help the user at the terminal.
    pub(super) fn spawn(&self, document: File) -> std::io::Result<tokio::process::Child> {
        tokio::process::Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(document)
            // The parent handles Ctrl-C at the terminal: it may still need this page.
            .process_group(0)
            // Ends the process of a read that was cancelled or dropped; the runtime reaps it.
            .kill_on_drop(true)
            .spawn()
    }
}
