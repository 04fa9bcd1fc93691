//! Which of the processes that drive jobs are still alive.
//!
//! Every driving process holds a lock on a file of its own while it lives. The kernel releases the
//! lock however the process ends, so another process takes over its work immediately instead of
//! after a timeout.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// The lock file of this process; dropping it removes the file.
pub struct LivenessLock {
    path: PathBuf,
    _lock: File,
}

impl LivenessLock {
    pub fn acquire(folder: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // Locked before it is renamed: no other process finds it unlocked while this one lives.
        let temporary = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        temporary.as_file().try_lock().map_err(io::Error::from)?;
        let path = folder.join(name);
        let lock = temporary.persist(&path).map_err(|error| error.error)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process of this name still runs. When that can't be determined it counts as alive:
/// taking over the work of a live process would be worse than waiting.
pub fn is_alive(folder: &Path, name: &str) -> bool {
    match File::open(folder.join(name)) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        // Shared, so that two processes that check at the same time both see a dead owner.
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock | TryLockError::Error(_))),
    }
}

/// Processes that died without removing their lock files.
pub fn dead(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.') && !is_alive(folder, name)).collect()
}

/// Removes the lock file of a dead process, once everything else of it was taken over.
pub fn remove(folder: &Path, name: &str) {
    let _ = fs::remove_file(folder.join(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_while_it_holds_its_file_and_not_after() {
        let folder = tempfile::tempdir().unwrap();
        let living = LivenessLock::acquire(folder.path(), "a").unwrap();
        assert!(is_alive(folder.path(), "a"));
        // A killed process leaves the file without a lock.
        fs::write(folder.path().join("b"), "").unwrap();
        assert!(!is_alive(folder.path(), "b"));
        assert!(!is_alive(folder.path(), "never was"));
        assert_eq!(dead(folder.path()), ["b"]);
        remove(folder.path(), "b");
        assert!(folder.path().join("a").exists() && !folder.path().join("b").exists());
        drop(living);
        assert!(!is_alive(folder.path(), "a"));
    }
}
