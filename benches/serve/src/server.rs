//! The program that is measured, as a process of its own.

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
            // All clients are one caller here.
            .env("RATE_LIMIT", "0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} can't be started", program.display()))?;
        let stdout = process.stdout.take().context("its output")?;
        let line = BufReader::new(stdout).lines().next_line().await?.context("it ended at once")?;
        let address = line.trim_start_matches("http://").parse().context(line)?;
        Ok(Self { address, process, _provider: provider, _folder: folder })
    }

    /// Resident memory of the process, without the children that parse PDFs.
    pub fn memory_mb(&self) -> anyhow::Result<f64> {
        let id = self.process.id().context("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    /// Asks it to stop, and expects that it does so in good order.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.process.id().context("it has ended")?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        let ended = self.process.wait().await?;
        ensure!(ended.success(), "it ended with {ended}");
        Ok(())
    }
}
