//! What parent and child say to each other.

use everypage_core::{
    domain::{
        document::{ImageFormat, PageImage, PageReading, Reason},
        ids::PageNumber,
    },
    ports::pdf::{PdfError, PdfLimits, ReadOptions},
};
use serde::{Deserialize, Serialize};

/// No `Debug`: it may hold a password.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// The body is the file's path, which need not be UTF-8.
    Open { password: Option<String>, limits: PdfLimits },
    /// Answered by one [`Reply::Page`] per page, in order.
    Read { pages: Vec<PageNumber>, options: ReadOptions, careful: bool },
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Reply {
    Opened {
        pages: u32,
    },
    Refused(Refusal),
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

/// [`PdfError`], as it can be written down.
#[derive(Serialize, Deserialize)]
pub(crate) enum Refusal {
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

impl From<PdfError> for Refusal {
    fn from(error: PdfError) -> Self {
        match error {
            PdfError::Empty => Self::Empty,
            PdfError::NotAPdf(why) => Self::NotAPdf(why),
            PdfError::Corrupt(why) => Self::Corrupt(why),
            PdfError::PasswordNeeded => Self::PasswordNeeded,
            PdfError::PasswordWrong => Self::PasswordWrong,
            PdfError::NoPages => Self::NoPages,
            PdfError::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            PdfError::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            PdfError::ParserDied(why) => Self::ParserDied(why),
            PdfError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl From<Refusal> for PdfError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Empty => Self::Empty,
            Refusal::NotAPdf(why) => Self::NotAPdf(plain(&why)),
            Refusal::Corrupt(why) => Self::Corrupt(plain(&why)),
            Refusal::PasswordNeeded => Self::PasswordNeeded,
            Refusal::PasswordWrong => Self::PasswordWrong,
            Refusal::NoPages => Self::NoPages,
            Refusal::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            Refusal::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            Refusal::ParserDied(why) => Self::ParserDied(plain(&why)),
            Refusal::Unavailable(why) => Self::Unavailable(plain(&why)),
        }
    }
}

/// Longer than anything that MuPDF or we have to say.
const MOST_WORDS: usize = 300;

/// MuPDF quotes names from the file, which may hold whatever a terminal or a log obeys.
fn plain(words: &str) -> String {
    let plain = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    words.chars().map(plain).take(MOST_WORDS).collect()
}

impl Reply {
    /// Takes a reading apart into head, text and image, copying neither.
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

    /// `None` if this is no page, or not a sound one: the child is not to be believed.
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
        Some(PageReading { number, text, reason, image, fault: fault.as_deref().map(plain) })
    }
}
