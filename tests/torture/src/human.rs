//! Numbers as people write them.

use std::time::Duration;

/// `1 page`, `12 pages`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

pub fn duration(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
