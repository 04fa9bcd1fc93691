//! The child processes of this test, from `/proc`.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::pause;

/// The fields of `/proc/PID/stat` after the name, which may contain any character.
fn stat(pid: i32) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = line.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().map(str::to_owned).collect()
}

/// Process ids whose parent is this test, including zombies.
pub fn all() -> Vec<i32> {
    let me = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| stat(*pid).get(1) == Some(&me))
        .collect()
}

pub fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Waits until there are `count` children; panics after 8 seconds.
pub async fn wait_for(count: usize) {
    for _ in 0..400 {
        if all().len() == count {
            return;
        }
        pause(Duration::from_millis(20)).await;
    }
    panic!("{} children, not {count}", all().len());
}

pub async fn wait_until_gone(pid: i32) {
    for _ in 0..400 {
        if !all().contains(&pid) {
            return;
        }
        pause(Duration::from_millis(20)).await;
    }
    panic!("child {pid} did not end");
}

/// Waits until a child has used this many hundredths of a second of CPU time: it reads the endless page.
pub async fn wait_until_busy(ticks: u64) -> i32 {
    for _ in 0..400 {
        let used = |pid: &i32| stat(*pid).get(11).and_then(|used| used.parse::<u64>().ok()).unwrap_or(0);
        if let Some(pid) = all().into_iter().find(|pid| used(pid) >= ticks) {
            return pid;
        }
        pause(Duration::from_millis(20)).await;
    }
    panic!("no child became busy");
}
