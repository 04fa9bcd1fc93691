//! The parser process as a separate program, for tests and benchmarks.

fn main() -> std::io::Result<()> {
    everypage_pdf::child::run()
}
