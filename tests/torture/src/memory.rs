//! Peak memory of a process and of the parsers that it started, from `/proc`.

use std::fs;

#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Resident memory of the process itself.
    pub own: u64,
    /// Address space of a parser, which `PDF_MAX_MEMORY_BYTES` limits.
    pub parser: u64,
}

impl Peak {
    /// Measures once. The system records each process's peak, so only what a parser allocated just
    /// before its end can be missed.
    pub fn measure(&mut self, pid: u32) {
        self.own = self.own.max(bytes(pid, "VmHWM:"));
        for child in children(pid) {
            // A child that is being started still has its parent's memory.
            let is_parser = fs::read(format!("/proc/{child}/cmdline"))
                .is_ok_and(|line| line.windows(9).any(|bytes| bytes == b"pdf-child"));
            if is_parser {
                self.parser = self.parser.max(bytes(child, "VmPeak:"));
            }
        }
    }
}

/// Processes that any thread of `pid` started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_thread = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("children")).ok();
    threads
        .filter_map(|entry| of_thread(entry.ok()?))
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

fn bytes(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
