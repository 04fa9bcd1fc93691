//! The child processes of the program, from `/proc`.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

use crate::support::bounded;

const PARSER: &str = "pdf-child";

/// The fields of `/proc/PID/stat` after the name, which may contain anything.
fn stat(pid: u32) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = line.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().map(str::to_owned).collect()
}

/// The children whose command line contains `word`.
fn children(of: u32, word: &str) -> Vec<u32> {
    let parent = of.to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).get(1) == Some(&parent))
        // A child that is being started still has its parent's command line.
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(word))
        })
        .collect()
}

async fn moment() {
    let _ = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
}

/// Sends `signal` to the first child that has used some CPU time, so that it is inside a page that
/// never ends; returns its process id.
pub async fn signal_busy_child(program: &Child, signal: Signal) -> u32 {
    let used = |pid: &u32| stat(*pid).get(11).and_then(|used| used.parse::<u64>().ok()).unwrap_or(0);
    bounded(async {
        loop {
            if let Some(pid) = children(program.id().unwrap(), PARSER).into_iter().find(|pid| used(pid) >= 20)
            {
                kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
                return pid;
            }
            moment().await;
        }
    })
    .await
}

/// Waits until the parent has reaped the process.
pub async fn wait_until_gone(pid: u32) {
    bounded(async {
        while !stat(pid).is_empty() {
            moment().await;
        }
    })
    .await;
}

fn kilobytes(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0");
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Records the peak memory of the program and of its children, in kilobytes, until it is dropped.
pub async fn watch_memory(pid: u32, peak: &std::cell::Cell<(u64, u64)>) {
    loop {
        let (own, child) = peak.get();
        let children =
            children(pid, PARSER).into_iter().map(|child| kilobytes(child, "VmPeak")).max().unwrap_or(0);
        peak.set((own.max(kilobytes(pid, "VmHWM")), child.max(children)));
        moment().await;
    }
}
