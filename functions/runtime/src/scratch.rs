//! Where a function keeps files for a while.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

const PREFIX: &str = "everypage-";

/// Makes a folder of this process's own the one for temporary files, and removes those of dead ones.
/// Lambda starts a function that it killed anew over the files of its earlier life, and a disk that
/// fills up with them fails documents that have nothing to do with it.
pub fn start_afresh() -> io::Result<()> {
    let own = fresh(&std::env::temp_dir(), process::id())?;
    // Refused where somebody has chosen another folder before: then that is where files go.
    let _ = tempfile::env::override_temp_dir(&own);
    Ok(())
}

fn fresh(folder: &Path, process: u32) -> io::Result<PathBuf> {
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|of| of.parse().ok());
        // A number may come back: whatever lies under ours is of an earlier life.
        if of.is_some_and(|of: u32| of == process || !Path::new(&format!("/proc/{of}")).exists()) {
            // Another may be at it, and what stays is no reason not to start.
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
    fn files_of_earlier_lives_go_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (living, nobody) = (process::id(), u32::MAX);
        for name in
            [format!("{PREFIX}{nobody}"), format!("{PREFIX}{living}"), format!("{PREFIX}1"), "others".into()]
        {
            fs::create_dir(folder.path().join(&name)).unwrap();
            fs::write(folder.path().join(&name).join("left.pdf"), "x").unwrap();
        }
        let own = fresh(folder.path(), living).unwrap();
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        assert!(!folder.path().join(format!("{PREFIX}{nobody}")).exists());
        assert!(folder.path().join(format!("{PREFIX}1/left.pdf")).exists(), "process 1 lives");
        assert!(folder.path().join("others/left.pdf").exists());
    }
}
