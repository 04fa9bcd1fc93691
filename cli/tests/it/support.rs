//! Runs the program as a user does.

use std::{path::PathBuf, process::Stdio, time::Duration};

use everypage_scripted_provider::{Script, ScriptedProvider};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

/// Ten times what any step takes; a test that hangs fails.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Bench {
    pub folder: TempDir,
    pub provider: ScriptedProvider,
    vars: Vec<(String, String)>,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub fn sample(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name);
    path.display().to_string()
}

/// Twelve pages: 4 is a chart, 5 a photo, 9 a scan, 10 a map, the others are plain text.
pub fn report() -> String {
    sample("harbour-report-2026.pdf")
}

pub async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, work).await.expect("took too long")
}

impl Bench {
    pub async fn new(rules: &[&str]) -> Self {
        let provider = ScriptedProvider::start(Script::parse(rules).unwrap()).await.unwrap();
        let vars = vec![
            ("OPENAI_BASE_URL", provider.openai_base_url()),
            ("OPENAI_API_KEY", "secret-key-of-the-test".into()),
            ("ANTHROPIC_BASE_URL", provider.anthropic_base_url()),
            ("ANTHROPIC_API_KEY", "secret-key-of-the-test".into()),
            ("REQUEST_TIMEOUT", "2s".into()),
            // No client of the program may use a proxy that its environment names: nothing listens there.
            ("HTTP_PROXY", "http://127.0.0.1:9".into()),
            ("http_proxy", "http://127.0.0.1:9".into()),
            ("ALL_PROXY", "http://127.0.0.1:9".into()),
            // Whether the OCR program is built makes no difference to the other tests.
            ("OCR", "off".into()),
        ];
        let vars = vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let folder = tempfile::tempdir().unwrap();
        Self { folder, provider, vars }
    }

    /// Sets a variable of the program's environment; an empty one counts as not set.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everypage"));
        command
            .args(args)
            .env_clear()
            .env("EVERYPAGE_DATA", self.folder.path().join("data"))
            .envs(self.vars.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // As in a shell: Ctrl-C reaches the program and its children.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "").await
    }

    pub async fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.start(args);
        let mut stdin = child.stdin.take().unwrap();
        // A program that does not read its input may end before it is written.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        end(child).await
    }

    pub fn start(&self, args: &[&str]) -> Child {
        self.start_with(args, &[])
    }

    /// Starts the program with variables of its own.
    pub fn start_with(&self, args: &[&str], vars: &[(&str, &str)]) -> Child {
        self.command(args).envs(vars.iter().copied()).spawn().unwrap()
    }

    /// Starts the program at a terminal, which has its output and its errors.
    pub fn start_at_terminal(&self, args: &[&str]) -> Child {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let line = format!("'{}' {}", env!("CARGO_BIN_EXE_everypage"), quoted.join(" "));
        let plain = self.command(&[]);
        let mut command = Command::new("/usr/bin/script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).env_clear();
        let vars = plain.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(vars).envs([("SHELL", "/bin/sh"), ("TERM", "xterm")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// Waits until this many calls have reached the provider.
    pub async fn calls(&self, count: u64) {
        bounded(self.provider.until(|counts| counts.total >= count)).await;
    }

    /// The id of the latest job.
    pub async fn job(&self) -> String {
        let listed = self.run(&["jobs", "list", "--limit", "1", "--json"]).await.json();
        listed[0]["id"].as_str().unwrap().to_owned()
    }

    /// Polls until the latest job has this status.
    pub async fn until_status(&self, status: &str) -> String {
        bounded(async {
            loop {
                let listed = self.run(&["jobs", "list", "--limit", "1", "--json"]).await.json();
                if listed[0]["status"] == status {
                    return listed[0]["id"].as_str().unwrap().to_owned();
                }
            }
        })
        .await
    }
}

pub async fn end(child: Child) -> Ran {
    let output = bounded(child.wait_with_output()).await.unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Ctrl-C.
pub fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    kill_process_group(pid, Signal::INT).unwrap();
}

impl Ran {
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn reports(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "no {words:?} in stderr:\n{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn prints(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "no {words:?} in stdout:\n{}", self.stdout);
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}:\n{}\n{}", self.stdout, self.stderr))
    }
}
