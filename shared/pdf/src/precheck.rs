//! Checks of a file's type, size and header, before any parser opens it.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use everypage_core::{
    document::DocumentKind,
    ports::pdf::{PdfError, PdfLimits},
};

/// Identifies one state of one file, so that a file replaced under the same name is detected.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub path: PathBuf,
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
}

/// Refuses a file that is missing, empty, too large or not a document by its header.
pub(crate) fn check(path: &Path, limits: &PdfLimits) -> Result<FileIdentity, PdfError> {
    let unreadable = |error: io::Error| PdfError::Unavailable(format!("the file can't be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(PdfError::NotAPdf("it is not a file".into()));
    }
    if meta.len() == 0 {
        return Err(PdfError::Empty);
    }
    if meta.len() > limits.max_file_bytes {
        return Err(PdfError::TooLarge { bytes: meta.len(), limit: limits.max_file_bytes });
    }
    let mut start = Vec::new();
    file.take(DocumentKind::HEADER_BYTES as u64).read_to_end(&mut start).map_err(unreadable)?;
    kind(&start)?;
    Ok(FileIdentity {
        path: path.to_owned(),
        inode: (meta.dev(), meta.ino()),
        bytes: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}

/// The type of a document, by its first bytes.
pub(crate) fn kind(bytes: &[u8]) -> Result<DocumentKind, PdfError> {
    let start = bytes.get(..DocumentKind::HEADER_BYTES).unwrap_or(bytes);
    DocumentKind::detect(start).ok_or_else(|| PdfError::NotAPdf(detected_type(start)))
}

/// Describes the file's actual type: senders confuse files more often than they send broken ones.
fn detected_type(start: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 8] = [
        (b"GIF8", "a GIF image"),
        (b"II+\0", "a BigTIFF image"),
        (b"MM\0+", "a BigTIFF image"),
        (b"PK\x03\x04", "a ZIP archive or an Office document"),
        (b"\xd0\xcf\x11\xe0", "an old Office document"),
        (b"{\\rtf", "an RTF document"),
        (b"%!PS", "PostScript"),
        (b"<", "HTML or XML"),
    ];
    let trimmed = start.trim_ascii_start();
    match KNOWN.iter().find(|(magic, _)| trimmed.starts_with(magic)) {
        Some((_, name)) => format!("it looks like {name}"),
        None => "it starts like none of them".into(),
    }
}
