//! The parser's process on its own, for tests and benchmarks.

fn main() -> std::io::Result<()> {
    everypage_pdf::child::run()
}
