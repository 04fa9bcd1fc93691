//! The real program against the scripted provider, each test in a data folder of its own.

mod commands;
mod dead_letters;
mod endings;
mod process;
mod support;
