//! The directories of a TIFF file, which EXIF data have too: pictures, and how they were held.
//!
//! Every number comes from the file: nothing is read outside of it, and no circle is followed.

const ORIENTATION: u16 = 0x0112;
const ENTRY_BYTES: usize = 12;

/// How a picture is to be turned; the numbers of EXIF, 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orientation(u8);

impl Default for Orientation {
    fn default() -> Self {
        Self(1)
    }
}

impl Orientation {
    fn new(number: u16) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| (1..=8).contains(number)).map(Self)
    }

    /// Whether width and height are exchanged.
    pub fn swaps_sides(self) -> bool {
        self.0 >= 5
    }

    /// From the picture's unit square to the page's; both have their first row above.
    pub fn matrix(self) -> [f32; 6] {
        match self.0 {
            2 => [-1.0, 0.0, 0.0, 1.0, 1.0, 0.0],
            3 => [-1.0, 0.0, 0.0, -1.0, 1.0, 1.0],
            4 => [1.0, 0.0, 0.0, -1.0, 0.0, 1.0],
            5 => [0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
            6 => [0.0, 1.0, -1.0, 0.0, 1.0, 0.0],
            7 => [0.0, -1.0, -1.0, 0.0, 1.0, 1.0],
            8 => [0.0, -1.0, 1.0, 0.0, 0.0, 1.0],
            _ => [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        }
    }
}

/// A TIFF file or EXIF data.
#[derive(Clone, Copy)]
pub(super) struct Tags<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl<'a> Tags<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.get(..4)? {
            b"II*\0" => Some(Self { bytes, is_little: true }),
            b"MM\0*" => Some(Self { bytes, is_little: false }),
            _ => None,
        }
    }

    /// Offsets of the directories, one per picture, `limit` at most.
    pub fn directories(self, limit: usize) -> Vec<u32> {
        let mut found = Vec::new();
        let mut next = self.u32(4);
        while let Some(offset) = next.filter(|offset| *offset != 0) {
            // A circle, or a directory outside of the file, ends the list.
            let Some(entries) = self.u16(offset as usize) else { break };
            if found.len() >= limit || found.contains(&offset) {
                break;
            }
            found.push(offset);
            next = self.u32(offset as usize + 2 + usize::from(entries) * ENTRY_BYTES);
        }
        found
    }

    pub fn orientation(self, directory: u32) -> Option<Orientation> {
        let start = directory as usize;
        let entries = usize::from(self.u16(start)?);
        let entry = (0..entries).map(|index| start + 2 + index * ENTRY_BYTES);
        let entry = entry.take_while(|entry| entry + ENTRY_BYTES <= self.bytes.len());
        let found = entry.into_iter().find(|entry| self.u16(*entry) == Some(ORIENTATION))?;
        Orientation::new(self.u16(found + 8)?)
    }

    fn u16(self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }
}

/// Makes this directory the first one: decoders of a single picture read that one.
pub(super) fn select(tiff: &mut [u8], directory: u32) {
    let bytes = match tiff.first() {
        Some(b'I') => directory.to_le_bytes(),
        _ => directory.to_be_bytes(),
    };
    if let Some(first) = tiff.get_mut(4..8) {
        first.copy_from_slice(&bytes);
    }
}

pub(super) fn exif_orientation(exif: &[u8]) -> Option<Orientation> {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let tags = Tags::parse(exif)?;
    tags.orientation(tags.u32(4)?)
}

/// Looks for EXIF data in the segments before the picture.
pub(super) fn jpeg_orientation(jpeg: &[u8]) -> Option<Orientation> {
    const APP1: u8 = 0xe1;
    const START_OF_SCAN: u8 = 0xda;
    let mut rest = jpeg.get(2..)?;
    loop {
        let [0xff, marker, high, low, ..] = *rest else { return None };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let segment = rest.get(4..2 + length)?;
        if marker == APP1 && segment.starts_with(b"Exif\0\0") {
            return exif_orientation(segment);
        }
        if marker == START_OF_SCAN {
            return None;
        }
        rest = &rest[2 + length..];
    }
}

/// Looks for EXIF data in the chunks of a PNG.
pub(super) fn png_orientation(png: &[u8]) -> Option<Orientation> {
    let mut rest = png.get(8..)?;
    loop {
        let length = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let data = rest.get(8..8_usize.checked_add(length)?)?;
        if &rest[4..8] == b"eXIf" {
            return exif_orientation(data);
        }
        // The checksum follows.
        rest = rest.get(12_usize.checked_add(length)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(is_little: bool, orientation: u16, next: u32) -> Vec<u8> {
        let short = |n: u16| if is_little { n.to_le_bytes() } else { n.to_be_bytes() };
        let long = |n: u32| if is_little { n.to_le_bytes() } else { n.to_be_bytes() };
        let mut bytes = if is_little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        bytes.extend(long(8));
        bytes.extend(short(1));
        bytes.extend([short(ORIENTATION), short(3)].concat());
        bytes.extend([long(1).as_slice(), &short(orientation), &[0, 0]].concat());
        bytes.extend(long(next));
        bytes
    }

    #[test]
    fn orientation_is_found_in_each_container() {
        for is_little in [true, false] {
            let exif = tags(is_little, 6, 0);
            assert_eq!(exif_orientation(&exif), Some(Orientation(6)));
            let segment = [b"Exif\0\0".as_slice(), &exif].concat();
            let length = (segment.len() as u16 + 2).to_be_bytes();
            let jpeg =
                [b"\xff\xd8\xff\xe0\0\x04JF\xff\xe1".as_slice(), &length, &segment, b"\xff\xda"].concat();
            assert_eq!(jpeg_orientation(&jpeg), Some(Orientation(6)));
            let length = (exif.len() as u32).to_be_bytes();
            let png = [b"\x89PNG\r\n\x1a\n\0\0\0\x01IHDRx0000".as_slice(), &length, b"eXIf", &exif].concat();
            assert_eq!(png_orientation(&png), Some(Orientation(6)));
            // Cut anywhere, nothing is found and nothing fails.
            for end in 0..jpeg.len() - 20 {
                assert_eq!(jpeg_orientation(&jpeg[..end]), None);
            }
            for end in 0..png.len() {
                assert_eq!(png_orientation(&png[..end]), None);
            }
        }
        assert_eq!(exif_orientation(&tags(true, 9, 0)), None);
        assert_eq!(exif_orientation(&tags(true, 0, 0)), None);
    }

    #[test]
    fn directories_in_a_circle_or_outside_of_the_file_end() {
        let found = |next| Tags::parse(&tags(true, 1, next)).unwrap().directories(10);
        assert_eq!(found(0), [8]);
        assert_eq!(found(8), [8]);
        assert_eq!(found(4_000_000_000), [8]);
        assert_eq!(found(u32::MAX), [8]);
    }

    #[test]
    fn a_turned_picture_fills_the_page() {
        for number in 1..=8 {
            let [a, b, c, d, e, f] = Orientation(number).matrix();
            let corner = |u: f32, v: f32| (a * u + c * v + e, b * u + d * v + f);
            let mut corners = [corner(0.0, 0.0), corner(1.0, 0.0), corner(0.0, 1.0), corner(1.0, 1.0)];
            corners.sort_by(|one, other| one.partial_cmp(other).unwrap());
            assert_eq!(corners, [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)], "{number}");
        }
        // Held with its left side up: the first pixel is at the upper right.
        let [_, _, _, _, e, f] = Orientation(6).matrix();
        assert_eq!((e, f), (1.0, 0.0));
    }
}
