//! A release build embeds the console: rebuild when one of its files is added or changes.

fn main() {
    println!("cargo::rerun-if-changed=../../console");
}
