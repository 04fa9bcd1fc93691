//! What must hold for any input of our parsers: one function per parser, which panics when it does not.
//!
//! `./test` runs these functions on a bounded number of random inputs (`tests/bounded.rs`); libFuzzer runs
//! them without end (`fuzz/` at the root).

mod answer;
mod event;
mod options;
mod page_message;
mod record;
mod selection;
mod settings;

pub use answer::answer;
pub use event::event;
pub use options::options;
pub use page_message::page_message;
pub use record::record;
pub use selection::selection;
pub use settings::settings;

/// A function with the name of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 7] = [
    ("answer", answer),
    ("event", event),
    ("options", options),
    ("page_message", page_message),
    ("record", record),
    ("selection", selection),
    ("settings", settings),
];

/// Asserts that an error has a message, because people and logs get nothing else.
fn is_explained(error: &str) {
    assert!(!error.trim().is_empty(), "an error has no message");
}

/// Lines of `NAME=VALUE`.
fn assignments(data: &[u8]) -> Vec<(&str, &str)> {
    let text = std::str::from_utf8(data).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('=')).collect()
}
