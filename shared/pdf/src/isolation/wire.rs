//! The messages between parent and child.

use everypage_core::{
    document::{ImageFormat, PageImage, PageReading, Reason},
    ids::PageNumber,
    ports::pdf::{PdfError, PdfLimits, ReadOptions},
};
use serde::{Deserialize, Serialize};

/// No `Debug`: it may contain a password.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// The body is the file's path, which need not be UTF-8.
    Open { password: Option<String>, limits: PdfLimits },
    /// The child sends one [`Reply::Page`] per page, in order.
    Read { pages: Vec<PageNumber>, options: ReadOptions, careful: bool },
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Reply {
    Opened {
        pages: u32,
    },
    OpenFailed(WireError),
    /// The body is the text, then the image.
    Page {
        number: PageNumber,
        reason: Reason,
        text_bytes: usize,
        image: Option<ImageHead>,
        fault: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ImageHead {
    format: ImageFormat,
    width_px: u32,
    height_px: u32,
}

/// [`PdfError`] in serializable form.
#[derive(Serialize, Deserialize)]
pub(crate) enum WireError {
    Empty,
    NotAPdf(String),
    Corrupt(String),
    PasswordNeeded,
    PasswordWrong,
    NoPages,
    TooLarge { bytes: u64, limit: u64 },
    TooManyPages { pages: u32, limit: u32 },
    ParserDied(String),
    Unavailable(String),
}

impl From<PdfError> for WireError {
    fn from(error: PdfError) -> Self {
        match error {
            PdfError::Empty => Self::Empty,
            PdfError::NotAPdf(reason) => Self::NotAPdf(reason),
            PdfError::Corrupt(reason) => Self::Corrupt(reason),
            PdfError::PasswordNeeded => Self::PasswordNeeded,
            PdfError::PasswordWrong => Self::PasswordWrong,
            PdfError::NoPages => Self::NoPages,
            PdfError::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            PdfError::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            PdfError::ParserDied(reason) => Self::ParserDied(reason),
            PdfError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

impl From<WireError> for PdfError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Empty => Self::Empty,
            WireError::NotAPdf(reason) => Self::NotAPdf(sanitize(&reason)),
            WireError::Corrupt(reason) => Self::Corrupt(sanitize(&reason)),
            WireError::PasswordNeeded => Self::PasswordNeeded,
            WireError::PasswordWrong => Self::PasswordWrong,
            WireError::NoPages => Self::NoPages,
            WireError::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            WireError::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            WireError::ParserDied(reason) => Self::ParserDied(sanitize(&reason)),
            WireError::Unavailable(reason) => Self::Unavailable(sanitize(&reason)),
        }
    }
}

/// Longer than any message of MuPDF or of this crate.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// Replaces all but printable ASCII: MuPDF quotes names from the file, which may contain control
/// sequences for terminals and logs.
fn sanitize(message: &str) -> String {
    let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    message.chars().map(printable).take(MAX_MESSAGE_CHARACTERS).collect()
}

impl Reply {
    /// Splits a reading into head, text and image without copying.
    pub fn page(reading: PageReading) -> (Self, String, Vec<u8>) {
        let PageReading { number, text, reason, image, fault } = reading;
        let (image, bytes) = match image {
            Some(PageImage { format, width_px, height_px, bytes }) => {
                (Some(ImageHead { format, width_px, height_px }), bytes)
            }
            None => (None, Vec::new()),
        };
        (Self::Page { number, reason, text_bytes: text.len(), image, fault }, text, bytes)
    }

    /// Joins a page's reply and body. `None` for another reply or a malformed body: the child is broken.
    pub fn into_page(self, mut body: Vec<u8>) -> Option<PageReading> {
        let Self::Page { number, reason, text_bytes, image, fault } = self else {
            return None;
        };
        if text_bytes > body.len() || (image.is_none() && text_bytes != body.len()) {
            return None;
        }
        let bytes = body.split_off(text_bytes);
        let text = String::from_utf8(body).ok()?;
        let image = image.map(|ImageHead { format, width_px, height_px }| PageImage {
            format,
            width_px,
            height_px,
            bytes,
        });
        Some(PageReading { number, text, reason, image, fault: fault.as_deref().map(sanitize) })
    }
}
