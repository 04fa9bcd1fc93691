//! The program against the scripted provider, each test in a data folder of its own.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod commands;
mod credits;
mod dead_letters;
mod endings;
mod folders;
mod ocr;
mod outputs;
mod process;
mod providers;
mod provisional;
mod proxies;
mod support;
mod upgrade;
