//! How fast pages are read, compared with PyMuPDF on the same file and machine. Start it with `./run`.
//!
//! Each measurement runs in its own process, so that its peak memory is not mixed with others.

mod measure;
mod mixed;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["pdf-child"] => Ok(everypage_pdf::child::run()?),
        ["measure", method, work, file] => {
            let result = measure::run(method, work, Path::new(file))?;
            println!("{}", serde_json::to_string(&result)?);
            Ok(())
        }
        ["generate", file, pages] => Ok(mixed::write(Path::new(file), pages.parse()?)?),
        ["corpus", directory] => measure::corpus(Path::new(directory)),
        ["compare", file, python, script] => {
            table::print(Path::new(file), &PathBuf::from(python), &PathBuf::from(script))
        }
        _ => bail!("usage: compare FILE PYTHON SCRIPT | generate FILE PAGES | measure METHOD WORK FILE | corpus DIRECTORY"),
    }
    .context("the benchmark failed")
}
