//! Blobs as files of one folder. Every file is created atomically.

use std::{
    fs, io,
    io::Write,
    path::{Component, Path, PathBuf},
};

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    blobs::{Blobs, LocalFile, Stored},
};

#[derive(Clone)]
pub struct FolderBlobs {
    root: PathBuf,
}

impl FolderBlobs {
    pub fn new(root: PathBuf) -> Result<Self, Fault> {
        fs::create_dir_all(&root).map_err(|error| fault(&root, error))?;
        Ok(Self { root })
    }

    /// Keys are relative paths of plain names; anything else is refused.
    fn path(&self, key: &str) -> Result<PathBuf, Fault> {
        let relative = Path::new(key);
        if relative.components().all(|part| matches!(part, Component::Normal(_))) {
            Ok(self.root.join(relative))
        } else {
            Err(Fault::broken("blobs", format!("{key:?} is not a blob key: it must be a relative path")))
        }
    }
}

fn fault(path: &Path, error: io::Error) -> Fault {
    Fault::unreachable("blobs", format!("{}: {error}", path.display()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Fault::unreachable("blobs", error))?
}

/// Creates a folder that survives a power cut: its name is durable only once its parent is synced.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    create_folder(parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::File::open(parent)?.sync_all(),
    }
}

/// Fills a temporary file in the folder of the target, flushes it and renames it; `Existed` when the
/// name is taken. A crash leaves at most a temporary file, which is never read.
fn create(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> Result<Stored, Fault> {
    if path.exists() {
        return Ok(Stored::Existed);
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder).map_err(|error| fault(folder, error))?;
    let mut temporary =
        tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(|error| fault(folder, error))?;
    fill(temporary.as_file_mut()).map_err(|error| fault(path, error))?;
    temporary.as_file().sync_data().map_err(|error| fault(path, error))?;
    match temporary.persist_noclobber(path) {
        Ok(_) => {
            // The name is durable only once its folder is synced.
            fs::File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| fault(folder, error))?;
            Ok(Stored::Created)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(Stored::Existed),
        Err(error) => Err(fault(path, error.error)),
    }
}

#[async_trait]
impl Blobs for FolderBlobs {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        let path = self.path(key)?;
        blocking(move || create(&path, |file| file.write_all(&bytes))).await
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        let (path, source) = (self.path(key)?, file.to_owned());
        blocking(move || create(&path, |file| io::copy(&mut fs::File::open(&source)?, file).map(|_| ())))
            .await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        let path = self.path(key)?;
        blocking(move || match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(&path, error)),
        })
        .await
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        let path = self.path(key)?;
        blocking(move || Ok(path.is_file().then(|| LocalFile::permanent(path)))).await
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        let path = self.path(key)?;
        blocking(move || match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(&path, error)),
        })
        .await
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        // Prefixes are folders here; callers only pass whole ones.
        let path = self.path(prefix)?;
        blocking(move || match fs::remove_dir_all(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(&path, error)),
        })
        .await
    }
}
