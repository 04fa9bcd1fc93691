//! What goes over the pipes: two lengths, a JSON head, raw bytes.
//!
//! ```text
//! | head bytes: u32 | body bytes: u32 | head: JSON | body |
//! ```
//!
//! `shared/pdf/src/ocr/wire.rs` has the other end.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

const MAX_HEAD_BYTES: usize = 1 << 16;
/// The largest PNG of 40 million pixels is 120 MB.
const MAX_BODY_BYTES: usize = 160 << 20;

/// Asks for the words of an image, which is the body: JPEG or PNG.
#[derive(Serialize, Deserialize)]
pub struct Request {
    pub dpi: u32,
    /// After this, the words found so far are the answer.
    pub milliseconds: u64,
}

#[derive(Serialize, Deserialize)]
pub enum Reply {
    /// The language data is missing or unusable: no page can be recognized.
    NoLanguages(String),
    /// The body is the [`Page`] as JSON.
    Words,
    /// The image can't be read, for this reason.
    Failed(String),
}

#[derive(Serialize, Deserialize)]
pub struct Page {
    /// Size of the image in pixels.
    pub width: u32,
    pub height: u32,
    pub words: Vec<Word>,
    /// Long straight lines, horizontal and vertical.
    pub lines: Vec<Box>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Word {
    pub text: String,
    pub area: Box,
    /// 0 to 1.
    pub confidence: f32,
    /// Height of the line's letters in points, ascenders and descenders included.
    pub points: u32,
    /// How often the page must be turned by 90 degrees clockwise to have the word upright; its box is on the
    /// page as it was given.
    pub turns: u8,
    /// Words of one line have the same number, and lines of one block.
    pub line: u32,
    pub block: u32,
}

/// In pixels from the top left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Box {
    pub x0: u32,
    pub y0: u32,
    pub x1: u32,
    pub y1: u32,
}

pub fn read<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<(M, Vec<u8>)> {
    let mut length = || -> io::Result<usize> {
        let mut bytes = [0; 4];
        from.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes) as usize)
    };
    let (head, body) = (length()?, length()?);
    if head > MAX_HEAD_BYTES || body > MAX_BODY_BYTES {
        return Err(io::Error::other("the frame is larger than allowed"));
    }
    let mut json = vec![0; head];
    from.read_exact(&mut json)?;
    let mut bytes = vec![0; body];
    from.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&json)?, bytes))
}

pub fn write(to: &mut impl Write, head: &impl Serialize, body: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(head)?;
    for length in [json.len(), body.len()] {
        to.write_all(&u32::try_from(length).map_err(io::Error::other)?.to_be_bytes())?;
    }
    to.write_all(&json)?;
    to.write_all(body)?;
    to.flush()
}
