//! `everypage dev hostile`: PDFs made to hurt.

use std::path::Path;

use crate::{exit::Exit, human, output, problem::Problem, settings::Context};

pub fn run(context: &Context, folder: &Path, count: Option<usize>, seed: u64) -> Result<Exit, Problem> {
    output::prepare(folder)?;
    let count = count.unwrap_or_else(everypage_hostile::kinds);
    for file in everypage_hostile::files(count, seed) {
        let path = folder.join(&file.name);
        std::fs::write(&path, &file.bytes).map_err(|error| Problem::unwritable(&path, &error))?;
    }
    let (files, password) = (human::count(count, "file", "files"), everypage_hostile::PASSWORD);
    context.screen.note(&format!(
        "{files} in {}; try `{} dev torture {}` (the password of the locked ones is {password})",
        folder.display(),
        context.program,
        folder.display()
    ));
    Ok(Exit::Complete)
}
