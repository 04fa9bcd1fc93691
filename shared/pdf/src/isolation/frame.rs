//! The frames on the pipes to a child: two lengths, a JSON head, raw bytes.
//!
//! ```text
//! | head bytes: u32 | body bytes: u32 | head: JSON | body |
//! ```

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Heads are small; a child that announces a larger one is broken or hostile.
const MAX_HEAD_BYTES: usize = 1 << 20;
/// Text of at most 8 MiB and an image: the largest PNG of 40 million pixels is 120 MB.
const MAX_BODY_BYTES: usize = 160 << 20;
const TOO_LARGE: &str = "the frame is larger than allowed";

/// Encodes the lengths and the head.
fn head(message: &impl Serialize, body: usize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    if json.len() > MAX_HEAD_BYTES || body > MAX_BODY_BYTES {
        return Err(io::Error::other(TOO_LARGE));
    }
    let mut bytes = Vec::with_capacity(8 + json.len());
    for length in [json.len(), body] {
        bytes.extend(u32::try_from(length).map_err(io::Error::other)?.to_be_bytes());
    }
    bytes.extend(json);
    Ok(bytes)
}

fn lengths(prefix: [u8; 8]) -> io::Result<(usize, usize)> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let head = u32::from_be_bytes([a, b, c, d]) as usize;
    let body = u32::from_be_bytes([e, f, g, h]) as usize;
    if head > MAX_HEAD_BYTES || body > MAX_BODY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LARGE));
    }
    Ok((head, body))
}

/// Writes a frame, blocking, in the child.
pub(crate) fn write(to: &mut impl Write, message: &impl Serialize, body: &[&[u8]]) -> io::Result<()> {
    to.write_all(&head(message, body.iter().map(|part| part.len()).sum())?)?;
    for part in body {
        to.write_all(part)?;
    }
    to.flush()
}

/// Reads a frame, blocking, in the child.
pub(crate) fn read<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<(M, Vec<u8>)> {
    let mut prefix = [0; 8];
    from.read_exact(&mut prefix)?;
    let (head, body) = lengths(prefix)?;
    let mut json = vec![0; head];
    from.read_exact(&mut json)?;
    let mut bytes = vec![0; body];
    from.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&json)?, bytes))
}

pub(crate) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
    body: &[u8],
) -> io::Result<()> {
    let mut bytes = head(message, body.len())?;
    bytes.extend(body);
    to.write_all(&bytes).await?;
    to.flush().await
}

pub(crate) async fn receive<M: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<(M, Vec<u8>)> {
    let mut prefix = [0; 8];
    from.read_exact(&mut prefix).await?;
    let (head, body) = lengths(prefix)?;
    let mut json = vec![0; head];
    from.read_exact(&mut json).await?;
    let mut bytes = vec![0; body];
    from.read_exact(&mut bytes).await?;
    Ok((serde_json::from_slice(&json)?, bytes))
}
