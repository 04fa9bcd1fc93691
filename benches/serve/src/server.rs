//! The measured program, in its own process.

use std::{net::SocketAddr, path::Path, process::Stdio};

use anyhow::{Context, ensure};
use everypage_testkit::provider::{Behaviour, Script, ScriptedProvider};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

pub struct Server {
    pub address: SocketAddr,
    process: Child,
    _provider: ScriptedProvider,
    _folder: TempDir,
}

impl Server {
    pub async fn start(program: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let provider = ScriptedProvider::start(Script::always(Behaviour::Answer)).await?;
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env_clear()
            .env("EVERYPAGE_DATA", folder.path())
            .env("OPENAI_BASE_URL", provider.openai_base_url())
            .env("MAX_INFLIGHT_PER_MODEL", "8")
            .env("JOB_TIMEOUT", "30m")
            .env("LOG_LEVEL", "error")
            // All clients of this benchmark are one caller.
            .env("RATE_LIMIT", "0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} can't be started", program.display()))?;
        let stdout = process.stdout.take().context("no standard output")?;
        let line = BufReader::new(stdout)
            .lines()
            .next_line()
            .await?
            .context("the program ended without a line of output")?;
        let address = line.trim_start_matches("http://").parse().context(line)?;
        Ok(Self { address, process, _provider: provider, _folder: folder })
    }

    /// Resident memory of the process, without the children that parse PDFs.
    pub fn memory_mb(&self) -> anyhow::Result<f64> {
        let id = self.process.id().context("the program has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    /// Stops the program, which must shut down gracefully.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.process.id().context("the program has ended")?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        let ended = self.process.wait().await?;
        ensure!(ended.success(), "the program ended with {ended}");
        Ok(())
    }
}
