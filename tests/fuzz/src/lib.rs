//! What must hold for any bytes that a parser of ours is given: one function per parser, each of
//! which panics when something does not.
//!
//! The same functions run in `./test` on a bounded number of random inputs (`tests/bounded.rs`)
//! and under libFuzzer for as long as one likes (`fuzz/` at the root).

mod answer;
mod event;
mod page_message;
mod record;
mod selection;
mod settings;
mod wishes;

pub use answer::answer;
pub use event::event;
pub use page_message::page_message;
pub use record::record;
pub use selection::selection;
pub use settings::settings;
pub use wishes::wishes;

/// Its name is that of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 7] = [
    ("answer", answer),
    ("event", event),
    ("page_message", page_message),
    ("record", record),
    ("selection", selection),
    ("settings", settings),
    ("wishes", wishes),
];

/// Errors are read by people and written to logs.
fn is_told(error: &str) {
    assert!(!error.trim().is_empty(), "an error says nothing");
}

/// `NAME=VALUE`, one per line.
fn assignments(data: &[u8]) -> Vec<(&str, &str)> {
    let text = std::str::from_utf8(data).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('=')).collect()
}
