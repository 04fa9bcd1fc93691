//! The documents that a command line names: files, folders, globs and standard input.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Seek, Write},
    os::fd::AsRawFd,
    path::{Component, Path, PathBuf},
};

use everypage_core::document::DocumentKind;
use glob::{MatchOptions, glob_with};
use walkdir::{DirEntry, WalkDir};

use crate::{problem::Problem, s3_address::S3Address};

/// The argument that means standard input.
pub const STDIN: &str = "-";

/// Folders deeper than this are not searched.
const MAX_DEPTH: usize = 100;

/// Hidden files are documents only if the pattern names them, as in a shell.
const GLOB: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A document to read.
#[derive(Debug)]
pub struct Input {
    pub file: PathBuf,
    /// The document's name, without its folder.
    pub name: String,
    /// How messages call it: its path as the user knows it.
    pub shown: String,
    /// Where its result goes below the output folder, without the extension.
    pub stem: PathBuf,
    /// Why it can't be read, where the search for documents found that out.
    pub fault: Option<String>,
    /// Standard input: a file without a name, which ends with the process.
    spool: Option<File>,
}

impl Input {
    fn new(file: &Path, stem: PathBuf) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shown = file.display().to_string();
        Self { file: file.to_owned(), name, shown, stem, fault: None, spool: None }
    }

    fn of_file(file: &Path) -> Self {
        Self::new(file, file.file_stem().unwrap_or_default().into())
    }

    fn below(folder: &Path, base: &Path, file: &Path) -> Self {
        let inside = file.strip_prefix(folder).unwrap_or(file).with_extension("");
        Self::new(file, base.join(inside))
    }

    /// An object that is the only one keeps its name, several keep their keys.
    fn of_object(address: &S3Address, is_only: bool) -> Self {
        let key = Path::new(&address.key);
        let plain = key.components().filter(|part| matches!(part, Component::Normal(_)));
        let stem = plain.collect::<PathBuf>().with_extension("");
        let stem = if is_only { stem.file_name().unwrap_or_default().into() } else { stem };
        let shown = address.to_string();
        let fault = address.names_many().then(|| "there are no such documents".to_owned());
        Self { file: PathBuf::from(&shown), name: address.name().to_owned(), shown, stem, fault, spool: None }
    }

    fn is_standard_input(&self) -> bool {
        self.spool.is_some()
    }
}

/// Finds the documents, in the order of the arguments and sorted within each. Standard input is read here,
/// up to `max_bytes`. A folder or pattern without documents is an input with a fault. What is below `output` is a result and not searched.
pub fn find(args: &[PathBuf], output: Option<&Path>, max_bytes: u64) -> Result<Vec<Input>, Problem> {
    let output = output.and_then(|folder| folder.canonicalize().ok());
    let mut found: Vec<Input> = Vec::new();
    for arg in args {
        let before = found.len();
        if arg.as_os_str() == STDIN {
            if found.iter().any(Input::is_standard_input) {
                return Err(Problem::Usage("standard input (-) can be read only once".into()));
            }
            found.push(standard_input(max_bytes)?);
        } else if S3Address::is_meant(arg) {
            let address: S3Address = arg.to_string_lossy().parse().map_err(Problem::Usage)?;
            found.push(Input::of_object(&address, args.len() == 1));
        } else if arg.is_dir() {
            // One folder: its tree. Several arguments: each folder under its own name.
            let base = if args.len() == 1 { PathBuf::new() } else { own_name(arg) };
            found.extend(walk(arg, &base, output.as_deref()));
            if found.len() == before {
                let fault = format!(
                    "the folder has no documents (.{})",
                    extensions().collect::<Vec<_>>().join(", .")
                );
                found.push(Input { fault: Some(fault), ..Input::of_file(arg) });
            }
        } else if !arg.exists() && is_pattern(arg) {
            found.extend(matches(arg, output.as_deref())?);
            if found.len() == before {
                found.push(Input { fault: Some("no file matches".into()), ..Input::of_file(arg) });
            }
        } else {
            found.push(Input::of_file(arg));
        }
    }
    Ok(found)
}

fn own_name(folder: &Path) -> PathBuf {
    let known = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    known.file_name().map(PathBuf::from).unwrap_or_default()
}

/// The documents of a folder and its subfolders. A subfolder that can't be read is an input with a fault, so
/// that it is reported like a document that can't be read.
fn walk<'a>(folder: &'a Path, base: &'a Path, output: Option<&'a Path>) -> impl Iterator<Item = Input> + 'a {
    // Links to folders are not followed: they may lead out of the tree, or in a circle.
    let walk = WalkDir::new(folder).max_depth(MAX_DEPTH).sort_by_file_name().into_iter();
    let is_searched = move |entry: &DirEntry| {
        let is_hidden = entry.depth() > 0 && entry.file_name().to_string_lossy().starts_with('.');
        let is_output = entry.file_type().is_dir()
            && entry.depth() > 0
            && output.is_some_and(|output| entry.path().canonicalize().is_ok_and(|path| path == output));
        !is_hidden && !is_output
    };
    walk.filter_entry(is_searched).filter_map(move |entry| match entry {
        // `is_file` follows a link to a file.
        Ok(entry) if is_document(entry.path()) && entry.path().is_file() => {
            Some(Input::below(folder, base, entry.path()))
        }
        Ok(_) => None,
        Err(error) => {
            let path = error.path().unwrap_or(folder).to_owned();
            let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
            let fault = Some(format!("the folder can't be searched: {reason}"));
            Some(Input { fault, ..Input::below(folder, base, &path) })
        }
    })
}

/// Which files of a folder are documents; files that are named are read whatever their name is.
fn extensions() -> impl Iterator<Item = &'static str> {
    DocumentKind::ALL.into_iter().flat_map(|kind| kind.extensions().iter().copied())
}

fn is_document(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    extensions().any(|known| known == extension)
}

fn is_pattern(arg: &Path) -> bool {
    arg.to_string_lossy().contains(['*', '?', '['])
}

/// The files that a pattern matches; `**` is any depth of folders.
fn matches(pattern: &Path, output: Option<&Path>) -> Result<Vec<Input>, Problem> {
    let shown = pattern.display();
    let Some(text) = pattern.to_str() else {
        return Err(Problem::Usage(format!("the pattern {shown} is not UTF-8")));
    };
    // The folders before the first wildcard are not part of the tree.
    let fixed: PathBuf = pattern
        .components()
        .take_while(|part| !matches!(part, Component::Normal(name) if is_pattern(Path::new(name))))
        .collect();
    let paths = glob_with(text, GLOB)
        .map_err(|error| Problem::Usage(format!("{shown} is not a valid pattern: {error}")))?;
    Ok(paths
        .filter_map(|path| match path {
            Ok(path) => {
                let is_output = output
                    .is_some_and(|output| path.canonicalize().is_ok_and(|path| path.starts_with(output)));
                (path.is_file() && !is_output).then(|| Input::below(&fixed, Path::new(""), &path))
            }
            Err(error) => {
                let fault = Some(format!("the folder can't be searched: {}", error.error()));
                Some(Input { fault, ..Input::below(&fixed, Path::new(""), error.path()) })
            }
        })
        .collect())
}

/// Stores standard input in a file without a name: nothing is left of it, however the process ends.
fn standard_input(max_bytes: u64) -> Result<Input, Problem> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Err(Problem::Usage("standard input (-) is a terminal; pipe a document into it".into()));
    }
    let spool = (|| {
        let mut file = tempfile::tempfile()?;
        // One byte over the limit is enough to be refused for its size.
        io::copy(&mut (&mut stdin).take(max_bytes.saturating_add(1)), &mut file)?;
        file.flush()?;
        file.rewind()?;
        Ok::<_, io::Error>(file)
    })()
    .map_err(|error| Problem::Failed(format!("standard input can't be stored: {error}")))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", spool.as_raw_fd()));
    Ok(Input {
        file: path,
        name: "stdin".into(),
        shown: "standard input".into(),
        stem: "stdin".into(),
        fault: None,
        spool: Some(spool),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        folder
    }

    fn stems(found: &[Input]) -> Vec<String> {
        found.iter().map(|input| input.stem.display().to_string()).collect()
    }

    #[test]
    fn a_folder_is_searched_to_the_bottom_without_hidden_files_and_results() {
        let folder =
            tree(&["b/2.JPEG", "a.pdf", "b/1.pdf", "notes.txt", ".hidden.pdf", ".git/x.pdf", "out/a.pdf"]);
        let output = folder.path().join("out");
        let found = find(&[folder.path().to_owned()], Some(&output), 1).unwrap();
        assert_eq!(stems(&found), ["a", "b/1", "b/2"]);
        assert_eq!(found[2].name, "2.JPEG");
        // The output folder may be the input folder itself.
        let found = find(&[folder.path().to_owned()], Some(folder.path()), 1).unwrap();
        assert_eq!(stems(&found), ["a", "b/1", "b/2", "out/a"]);
    }

    #[test]
    fn several_folders_keep_their_names() {
        let folder = tree(&["x/1.pdf", "y/1.pdf", "z.bin"]);
        let args = ["x", "y/", "z.bin"].map(|name| folder.path().join(name));
        assert_eq!(stems(&find(&args, None, 1).unwrap()), ["x/1", "y/1", "z"]);
    }

    #[test]
    fn a_pattern_matches_files_at_any_depth() {
        let folder = tree(&["in/a/1.pdf", "in/b/c/2.pdf", "in/b/c/2.txt", "in/.x/3.pdf", "in/[4].pdf"]);
        let pattern = |text: &str| folder.path().join(text);
        let found = |text: &str| find(&[pattern(text)], None, 1);
        assert_eq!(stems(&found("in/**/*.pdf").unwrap()), ["[4]", "a/1", "b/c/2"]);
        assert_eq!(stems(&found("in/*/*.pdf").unwrap()), ["a/1"]);
        // A file that exists is no pattern.
        assert_eq!(stems(&found("in/[4].pdf").unwrap()), ["[4]"]);
        assert!(found("in/*.png").unwrap()[0].fault.as_deref() == Some("no file matches"));
        assert!(found("in/***").unwrap_err().to_string().contains("not a valid pattern"));
    }

    #[test]
    fn a_folder_without_documents_is_reported_and_does_not_stop_the_others() {
        let folder = tree(&["empty/notes.txt", "a.pdf"]);
        let found = find(&[folder.path().join("empty"), folder.path().join("a.pdf")], None, 1).unwrap();
        assert!(found[0].fault.as_ref().unwrap().contains("no documents (.pdf"));
        assert!(found[1].fault.is_none());
    }

    #[test]
    fn objects_keep_their_names_or_their_keys() {
        let find = |args: &[&str]| {
            let args: Vec<PathBuf> = args.iter().map(PathBuf::from).collect();
            find(&args, None, 1)
        };
        let one = find(&["s3://acme-scans/2026/a.pdf"]).unwrap();
        assert_eq!((stems(&one), one[0].name.as_str()), (vec!["a".to_owned()], "a.pdf"));
        let several = find(&["s3://acme-scans/2026/a.pdf", "s3://acme-scans/../b//c.pdf"]).unwrap();
        assert_eq!(stems(&several), ["2026/a", "b/c"], "never outside of the output folder");
        assert!(several.iter().all(|input| input.fault.is_none()));
        let none = find(&["s3://acme-scans/2027/"]).unwrap();
        assert_eq!(none[0].fault.as_deref(), Some("there are no such documents"));
        assert!(find(&["s3://acme-scans"]).unwrap_err().to_string().contains("names no document"));
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tree(&["a/1.pdf"]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/loop")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("a/1.pdf"), folder.path().join("link.pdf")).unwrap();
        assert_eq!(stems(&find(&[folder.path().to_owned()], None, 1).unwrap()), ["a/1", "link"]);
    }
}
