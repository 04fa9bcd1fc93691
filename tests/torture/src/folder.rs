//! The named PDFs, and the PDFs in the named folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Sorts by name, so that two runs do the same. Takes every file in `named`, whatever its extension,
/// and the `.pdf` files in folders. Does not follow links to folders.
pub fn pdfs_in(named: &[PathBuf]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut files = Vec::new();
    for path in named {
        let meta = fs::metadata(path).map_err(|error| (path.clone(), error))?;
        match meta.is_dir() {
            true => collect(path, &mut files)?,
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let at_folder = |error| (folder.to_owned(), error);
    let mut entries =
        fs::read_dir(folder).map_err(at_folder)?.collect::<Result<Vec<_>, _>>().map_err(at_folder)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_pdf = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("pdf"));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, files)?,
            Ok(_) if is_pdf => files.push(path),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_and_named_files_need_no_extension() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b/c")).unwrap();
        for name in ["z.pdf", "a.PDF", "notes.txt", "b/c/deep.pdf", "b/x"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |named: &[&str]| -> Vec<String> {
            let named: Vec<PathBuf> = named.iter().map(|name| folder.path().join(name)).collect();
            let files = pdfs_in(&named).unwrap();
            files.iter().map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string()).collect()
        };
        assert_eq!(found(&["", "notes.txt"]), ["a.PDF", "b/c/deep.pdf", "z.pdf", "notes.txt"]);
        assert!(pdfs_in(&[folder.path().join("missing")]).is_err());
    }
}
