//! A release build holds the console: it is built again when a file of it comes or changes.

fn main() {
    println!("cargo::rerun-if-changed=../../console");
}
