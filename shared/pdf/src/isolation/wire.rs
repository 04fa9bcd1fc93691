//! The messages between parent and child.

use std::io;

use everypage_core::{
    document::{
        Block, Confidence, Doubt, ImageFormat, MAX_IMAGES, PageBox, PageImage, PageReading, Reason,
        WithoutImages, plain_text,
    },
    ids::PageNumber,
    ports::pdf::{PdfError, PdfLimits, ReadOptions},
};
use serde::{Deserialize, Serialize};

/// No `Debug`: it may contain a password.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// Opens the document, which the child has as a descriptor.
    Open { password: Option<String>, limits: PdfLimits },
    /// The body is the layers as JSON. The child sends [`Reply::Part`]s; the document is closed then.
    Searchable,
    /// The child sends one [`Reply::Page`] per page, in order.
    Read { pages: Vec<PageNumber>, options: ReadOptions, careful: bool },
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Reply {
    Opened {
        pages: u32,
    },
    OpenFailed(WireError),
    /// The body is the next part of a PDF.
    Part {
        is_last: bool,
    },
    /// There is no PDF.
    Failed(String),
    /// The body is the blocks as JSON, then the image. The text is made of the blocks.
    Page {
        number: PageNumber,
        reason: Reason,
        page: PageBox,
        images: Vec<PageBox>,
        confidence: Confidence,
        doubts: Vec<Doubt>,
        without_images: Option<WithoutImages>,
        block_bytes: usize,
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
    BadImage(String),
    PasswordNeeded,
    PasswordWrong,
    NoPages,
    TooLarge { bytes: u64, limit: u64 },
    TooManyPages { pages: u32, limit: u32 },
    NotSearchable(String),
    ParserDied(String),
    Unavailable(String),
}

impl From<PdfError> for WireError {
    fn from(error: PdfError) -> Self {
        match error {
            PdfError::Empty => Self::Empty,
            PdfError::NotAPdf(reason) => Self::NotAPdf(reason),
            PdfError::Corrupt(reason) => Self::Corrupt(reason),
            PdfError::BadImage(reason) => Self::BadImage(reason),
            PdfError::PasswordNeeded => Self::PasswordNeeded,
            PdfError::PasswordWrong => Self::PasswordWrong,
            PdfError::NoPages => Self::NoPages,
            PdfError::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            PdfError::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            PdfError::NotSearchable(reason) => Self::NotSearchable(reason),
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
            WireError::BadImage(reason) => Self::BadImage(sanitize(&reason)),
            WireError::PasswordNeeded => Self::PasswordNeeded,
            WireError::PasswordWrong => Self::PasswordWrong,
            WireError::NoPages => Self::NoPages,
            WireError::TooLarge { bytes, limit } => Self::TooLarge { bytes, limit },
            WireError::TooManyPages { pages, limit } => Self::TooManyPages { pages, limit },
            WireError::NotSearchable(reason) => Self::NotSearchable(sanitize(&reason)),
            WireError::ParserDied(reason) => Self::ParserDied(sanitize(&reason)),
            WireError::Unavailable(reason) => Self::Unavailable(sanitize(&reason)),
        }
    }
}

/// The blocks of a page with the most text that is allowed, and with many cells.
const MAX_BLOCK_BYTES: usize = 64 << 20;

/// Longer than any message of MuPDF or of this crate.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// Replaces all but printable ASCII: MuPDF quotes names from the file, which may contain control
/// sequences for terminals and logs.
pub(super) fn sanitize(message: &str) -> String {
    let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    message.chars().map(printable).take(MAX_MESSAGE_CHARACTERS).collect()
}

impl Reply {
    /// Splits a reading into head, blocks and image.
    pub fn page(reading: PageReading) -> io::Result<(Self, Vec<u8>, Vec<u8>)> {
        let PageReading {
            number,
            text: _,
            page,
            blocks,
            images,
            reason,
            confidence,
            doubts,
            without_images,
            image,
            fault,
        } = reading;
        let (image, bytes) = match image {
            Some(PageImage { format, width_px, height_px, bytes }) => {
                (Some(ImageHead { format, width_px, height_px }), bytes)
            }
            None => (None, Vec::new()),
        };
        let blocks = serde_json::to_vec(&blocks)?;
        Ok((
            Self::Page {
                number,
                reason,
                page,
                images,
                confidence,
                doubts,
                without_images,
                block_bytes: blocks.len(),
                image,
                fault,
            },
            blocks,
            bytes,
        ))
    }

    /// Joins a page's reply and body. `None` for another reply or a malformed body: the child is broken.
    pub fn into_page(self, mut body: Vec<u8>) -> Option<PageReading> {
        let Self::Page {
            number,
            reason,
            page,
            mut images,
            confidence,
            doubts,
            without_images,
            block_bytes,
            image,
            fault,
        } = self
        else {
            return None;
        };
        if block_bytes > body.len()
            || block_bytes > MAX_BLOCK_BYTES
            || (image.is_none() && block_bytes != body.len())
        {
            return None;
        }
        let bytes = body.split_off(block_bytes);
        let blocks: Vec<Block> = serde_json::from_slice(&body).ok()?;
        let image = image.map(|ImageHead { format, width_px, height_px }| PageImage {
            format,
            width_px,
            height_px,
            bytes,
        });
        let (text, fault) = (plain_text(&blocks), fault.as_deref().map(sanitize));
        images.truncate(MAX_IMAGES);
        Some(PageReading {
            number,
            text,
            page,
            blocks,
            images,
            reason,
            confidence,
            doubts,
            without_images,
            image,
            fault,
        })
    }
}
