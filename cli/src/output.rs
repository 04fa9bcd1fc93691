//! Result files: written completely or not at all, and never over each other.

use std::{
    collections::HashSet,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use everypage_core::{document::TableStyle, finish::format::Format};

use crate::problem::Problem;

/// A file per input below the output folder; inputs of the same name are numbered.
pub fn places(stems: impl IntoIterator<Item = PathBuf>, form: Format) -> Vec<PathBuf> {
    let mut taken = HashSet::new();
    stems
        .into_iter()
        .map(|path| {
            let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stem = if stem.is_empty() { "document".to_owned() } else { stem };
            let named = (1..).map(|number| match number {
                1 => path.with_file_name(format!("{stem}.{}", form.extension())),
                number => path.with_file_name(format!("{stem}-{number}.{}", form.extension())),
            });
            // Some file systems do not distinguish A and a.
            let mut free = named.filter(|place| taken.insert(place.to_string_lossy().to_lowercase()));
            free.next().unwrap_or_default()
        })
        .collect()
}

/// Refuses a style of tables that the format doesn't have.
pub fn check_tables(form: Format, tables: TableStyle) -> Result<(), Problem> {
    form.check_tables(tables).map_err(|error| Problem::Usage(format!("--tables {tables}: {error}")))
}

/// Refuses results that would replace a document.
pub fn check_overwrites<'a>(
    files: impl IntoIterator<Item = &'a Path>,
    places: &[PathBuf],
) -> Result<(), Problem> {
    // Where no file is, none is replaced.
    let existing: HashSet<PathBuf> = places.iter().filter_map(|place| place.canonicalize().ok()).collect();
    if existing.is_empty() {
        return Ok(());
    }
    let is_replaced = |file: &&Path| file.canonicalize().is_ok_and(|file| existing.contains(&file));
    match files.into_iter().find(is_replaced) {
        None => Ok(()),
        Some(file) => Err(Problem::Usage(format!(
            "the result would replace the document {}: choose another folder with -o",
            file.display()
        ))),
    }
}

/// Refuses to print what is no text at a terminal.
pub fn check_terminal(form: Format) -> Result<(), Problem> {
    if form == Format::Pdf && std::io::stdout().is_terminal() {
        return Err(Problem::Usage(
            "a PDF is no text for a terminal: pass -o, or redirect the output".into(),
        ));
    }
    Ok(())
}

/// Creates the folder, so that an error shows before the work and not after it.
pub fn prepare(folder: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder).map(drop))
        .map_err(|error| Problem::Usage(format!("results can't be written to {}: {error}", folder.display())))
}

/// Writes a temporary file and renames it: a reader sees the old file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let written = (|| {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".everypage-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As for any new file, the user's umask decides.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    })();
    written.map(drop).map_err(|error| Problem::unwritable(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_the_same_name_get_numbered_files() {
        let stems = ["x", "x", "x-2", "X", "noext", "two.dots", "a/x", "a/x", ""].map(PathBuf::from);
        let places = places(stems, Format::Text);
        let expected = [
            "x.txt",
            "x-2.txt",
            "x-2-2.txt",
            "X-3.txt",
            "noext.txt",
            "two.dots.txt",
            "a/x.txt",
            "a/x-2.txt",
            "document.txt",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
    }

    #[test]
    fn a_document_is_never_replaced_by_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("x.pdf"), folder.path().join("y.pdf"));
        std::fs::write(&file, "x").unwrap();
        let same = folder.path().join("./x.pdf");
        assert!(check_overwrites([file.as_path()], &[same]).is_err());
        assert!(check_overwrites([file.as_path()], &[other]).is_ok());
    }

    #[test]
    fn a_file_is_replaced_atomically_and_no_temporary_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.txt");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&folder.path().join("new/folder/x.txt"), b"").unwrap();
        assert!(write(&folder.path().join("x.txt/y.txt"), b"").is_err());
    }
}
