//! The formats that a document may have.

/// The type of a file, by its content; its name does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    Pdf,
    Png,
    Jpeg,
    Tiff,
    WebP,
}

/// PDF readers accept up to this many bytes before the header.
const MAX_HEADER_OFFSET: usize = 1024;

impl DocumentKind {
    pub const ALL: [Self; 5] = [Self::Pdf, Self::Png, Self::Jpeg, Self::Tiff, Self::WebP];

    /// As much of a file as [`detect`](Self::detect) looks at.
    pub const HEADER_BYTES: usize = MAX_HEADER_OFFSET + 5;

    /// The kind of a file that starts with these bytes.
    pub fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x89, b'P', b'N', b'G', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some(Self::Tiff),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => {
                let header = &start[..start.len().min(Self::HEADER_BYTES)];
                header.windows(5).any(|bytes| bytes == b"%PDF-").then_some(Self::Pdf)
            }
        }
    }

    /// The kind that a file's name promises.
    pub fn by_name(name: &str) -> Option<Self> {
        let extension = name.rsplit_once('.')?.1.to_ascii_lowercase();
        Self::ALL.into_iter().find(|kind| kind.extensions().contains(&extension.as_str()))
    }

    pub fn by_mime(mime: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.mime() == mime)
    }

    pub fn is_image(self) -> bool {
        self != Self::Pdf
    }

    pub fn mime(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Tiff => "image/tiff",
            Self::WebP => "image/webp",
        }
    }

    /// Extensions of file names, in lower case.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Pdf => &["pdf"],
            Self::Png => &["png"],
            Self::Jpeg => &["jpg", "jpeg"],
            Self::Tiff => &["tif", "tiff"],
            Self::WebP => &["webp"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        let kinds: [(&[u8], Option<DocumentKind>); 9] = [
            (b"%PDF-1.7", Some(DocumentKind::Pdf)),
            (b"\nmail header\n%PDF-1.7", Some(DocumentKind::Pdf)),
            (b"\x89PNG\r\n\x1a\n%PDF-", Some(DocumentKind::Png)),
            (b"\xff\xd8\xff\xe0", Some(DocumentKind::Jpeg)),
            (b"II*\0", Some(DocumentKind::Tiff)),
            (b"MM\0*", Some(DocumentKind::Tiff)),
            (b"RIFF0000WEBPVP8 ", Some(DocumentKind::WebP)),
            (b"RIFF0000WAVE", None),
            (b"", None),
        ];
        for (start, kind) in kinds {
            assert_eq!(DocumentKind::detect(start), kind, "{start:?}");
        }
        assert_eq!(DocumentKind::by_name("a.b/scan.TIFF"), Some(DocumentKind::Tiff));
        assert_eq!(DocumentKind::by_name("jpg"), None);
        assert_eq!(DocumentKind::by_mime("image/webp"), Some(DocumentKind::WebP));
        let late = [vec![b' '; 2000], b"%PDF-1.7".to_vec()].concat();
        assert_eq!(DocumentKind::detect(&late), None);
    }
}
