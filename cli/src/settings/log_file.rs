//! A log file that is rotated by size: `FILE`, `FILE.1`, `FILE.2` …

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    max_size: u64,
    max_backups: u32,
}

impl RotatingFile {
    pub fn open(path: &Path, max_size: u64, max_backups: u32) -> io::Result<Self> {
        let file = append_to(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, max_size, max_backups })
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.max_backups).rev() {
            // Missing in the beginning, or moved by another process.
            let _ = fs::rename(self.backup(number), self.backup(number + 1));
        }
        match self.max_backups {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, self.backup(1))?,
        }
        self.file = append_to(&self.path)?;
        self.size = self.file.metadata()?.len();
        Ok(())
    }
}

/// A new file is for its owner only: lines have names of documents and tenants.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for RotatingFile {
    /// Writes a whole line; a file that can't be rotated grows instead of losing lines.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + line.len() as u64 > self.max_size {
            let _ = self.rotate();
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = RotatingFile::open(&path, 20, 2).unwrap();
        for number in 0..7 {
            log.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        drop(log);
        // It continues where it was.
        RotatingFile::open(&path, 20, 2).unwrap().write_all(b"line 7\n").unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("log"), "line 6\nline 7\n");
        assert_eq!(text("log.1"), "line 4\nline 5\n");
        assert_eq!(text("log.2"), "line 2\nline 3\n");
        assert!(!folder.path().join("log.3").exists());
        for name in ["log", "log.1"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name} can be read by others: {mode:o}");
        }
    }

    #[test]
    fn without_backups_the_file_starts_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = RotatingFile::open(&path, 5, 0).unwrap();
        log.write_all(b"aaaa").unwrap();
        log.write_all(b"bbbb").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "bbbb");
    }
}
