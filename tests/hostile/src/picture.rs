//! Small writers of PNG and TIFF files, valid or invalid.

use flate2::Crc;

use crate::builder::deflate;

/// An RGB picture: width, height, and its rows.
pub struct Pixels {
    pub width: u32,
    pub height: u32,
    pub rgb: Vec<u8>,
}

impl Pixels {
    pub fn new(width: u32, height: u32, color: impl Fn(u32, u32) -> [u8; 3]) -> Self {
        let rgb = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| color(x, y));
        Self { width, height, rgb: rgb.collect() }
    }
}

pub fn png(pixels: &Pixels) -> Vec<u8> {
    let row = pixels.width as usize * 3;
    let filtered: Vec<u8> = pixels.rgb.chunks(row).flat_map(|row| [&[0], row].concat()).collect();
    png_of(pixels.width, pixels.height, &deflate(&filtered))
}

/// A PNG that claims this size, with this compressed data.
pub fn png_of(width: u32, height: u32, data: &[u8]) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &header));
    file.extend(chunk(b"IDAT", data));
    file.extend(chunk(b"IEND", b""));
    file
}

pub fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(data);
    [&(data.len() as u32).to_be_bytes()[..], name, data, &sum.sum().to_be_bytes()].concat()
}

/// An entry of a directory: its tag, type, count and value.
pub type Entry = (u16, u16, u32, u32);

/// The entries of an uncompressed picture whose rows start at `data`.
pub fn tiff_entries(pixels: &Pixels, data: u32) -> Vec<Entry> {
    vec![
        (256, 4, 1, pixels.width),
        (257, 4, 1, pixels.height),
        // Eight bits per sample: more than two values are stored elsewhere, one is enough for all.
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, 1, data),
        (277, 3, 1, 3),
        (278, 4, 1, pixels.height),
        (279, 4, 1, pixels.rgb.len() as u32),
    ]
}

/// A directory at `offset` of its file.
pub fn tiff_directory(entries: &[Entry], next: u32) -> Vec<u8> {
    let mut bytes = (entries.len() as u16).to_le_bytes().to_vec();
    for (tag, kind, count, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(next.to_le_bytes());
    bytes
}

/// A TIFF with these pictures; `extra` is added to each directory and must have larger tags.
pub fn tiff(pictures: &[Pixels], extra: &[Entry]) -> Vec<u8> {
    let mut file = b"II*\0\x08\0\0\0".to_vec();
    for (index, pixels) in pictures.iter().enumerate() {
        let offset = file.len() as u32;
        let mut entries = tiff_entries(pixels, 0);
        entries.extend(extra);
        entries.sort();
        let directory_bytes = 2 + entries.len() as u32 * 12 + 4;
        let data = offset + directory_bytes;
        let padded = (pixels.rgb.len() as u32).next_multiple_of(2);
        let next = if index + 1 < pictures.len() { data + padded } else { 0 };
        for entry in &mut entries {
            if entry.0 == 273 {
                entry.3 = data;
            }
        }
        file.extend(tiff_directory(&entries, next));
        file.extend(&pixels.rgb);
        file.resize((data + padded) as usize, 0);
    }
    file
}
