//! Which processes drive jobs, and which of them are still alive.
//!
//! Every driving process holds a lock on a file of its own for as long as it lives. The kernel
//! lets go of it however the process ends, so work of the dead can be taken over at once instead
//! of after a timeout.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

pub struct Owner {
    path: PathBuf,
    _lock: File,
}

impl Owner {
    pub fn register(folder: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // Locked before it has its name: nobody can find it unlocked while its process lives.
        let temporary = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        temporary.as_file().try_lock().map_err(io::Error::from)?;
        let path = folder.join(name);
        let lock = temporary.persist(&path).map_err(|error| error.error)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Is the process of this name still there? What can't be told counts as alive: taking over the
/// work of the living would be worse than waiting.
pub fn is_alive(folder: &Path, name: &str) -> bool {
    match File::open(folder.join(name)) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        // Shared, so that two who look at the same time do not take each other for the owner.
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock | TryLockError::Error(_))),
    }
}

/// Processes that died without a word: their files are still there.
pub fn dead(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.') && !is_alive(folder, name)).collect()
}

/// Removes the file that a dead process left behind, once there is nothing else of it.
pub fn forget(folder: &Path, name: &str) {
    let _ = fs::remove_file(folder.join(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_while_it_holds_its_file_and_not_after() {
        let folder = tempfile::tempdir().unwrap();
        let living = Owner::register(folder.path(), "a").unwrap();
        assert!(is_alive(folder.path(), "a"));
        // What a killed process leaves: the file, and no lock.
        fs::write(folder.path().join("b"), "").unwrap();
        assert!(!is_alive(folder.path(), "b"));
        assert!(!is_alive(folder.path(), "never was"));
        assert_eq!(dead(folder.path()), ["b"]);
        forget(folder.path(), "b");
        assert!(folder.path().join("a").exists() && !folder.path().join("b").exists());
        drop(living);
        assert!(!is_alive(folder.path(), "a"));
    }
}
