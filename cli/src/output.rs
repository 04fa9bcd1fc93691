//! Result files: written completely or not at all, and never over each other.

use std::{
    collections::HashSet,
    io::Write,
    path::{Path, PathBuf},
};

use everypage_core::finish::format::Format;

use crate::problem::Problem;

/// A file name per input, without its folder and extension; inputs of the same name are numbered.
pub fn names(files: &[PathBuf], form: Format) -> Vec<String> {
    let mut taken = HashSet::new();
    files
        .iter()
        .map(|file| {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let stem = if stem.is_empty() { "document".into() } else { stem };
            let name = (1..)
                .map(|number| match number {
                    1 => stem.to_string(),
                    number => format!("{stem}-{number}"),
                })
                // Some file systems do not distinguish A and a.
                .find(|name| taken.insert(name.to_lowercase()))
                .unwrap_or_default();
            format!("{name}.{}", form.extension())
        })
        .collect()
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
        let files = ["a/x.pdf", "b/x.pdf", "x-2.pdf", "c/X.PDF", "noext", "two.dots.pdf"].map(PathBuf::from);
        assert_eq!(
            names(&files, Format::Text),
            ["x.txt", "x-2.txt", "x-2-2.txt", "X-3.txt", "noext.txt", "two.dots.txt"]
        );
    }

    #[test]
    fn a_file_is_replaced_atomically_and_no_temporary_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.txt");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("no/x.txt"), b"").is_err());
    }
}
