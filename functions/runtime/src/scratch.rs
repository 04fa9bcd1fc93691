//! The folder for temporary files of a function.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

const PREFIX: &str = "everypage-";

/// Makes a new folder of this process the one for temporary files, and removes those of dead processes.
///
/// After Lambda killed a function, it starts it again over the files of the killed process. A disk full
/// of them would fail documents that have nothing to do with them.
pub fn use_fresh_temp_dir() -> io::Result<()> {
    let own = fresh(&std::env::temp_dir(), process::id())?;
    // Fails where another folder was set before, which then stays.
    let _ = tempfile::env::override_temp_dir(&own);
    Ok(())
}

fn fresh(folder: &Path, process: u32) -> io::Result<PathBuf> {
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|id| id.parse().ok());
        // Process ids are reused: files under this process's own id are from an earlier process.
        let is_dead = |id: u32| id == process || !Path::new(&format!("/proc/{id}")).exists();
        if owner.is_some_and(is_dead) {
            // Another process may be removing it too, and what remains is no reason not to start.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let own = folder.join(format!("{PREFIX}{process}"));
    fs::create_dir_all(&own)?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_processes_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (living, dead) = (process::id(), u32::MAX);
        for name in
            [format!("{PREFIX}{dead}"), format!("{PREFIX}{living}"), format!("{PREFIX}1"), "others".into()]
        {
            fs::create_dir(folder.path().join(&name)).unwrap();
            fs::write(folder.path().join(&name).join("left.pdf"), "x").unwrap();
        }
        let own = fresh(folder.path(), living).unwrap();
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        assert!(!folder.path().join(format!("{PREFIX}{dead}")).exists());
        assert!(folder.path().join(format!("{PREFIX}1/left.pdf")).exists(), "process 1 is alive");
        assert!(folder.path().join("others/left.pdf").exists());
    }
}
