//! A font of empty glyphs, for text that is there to be found and copied and not to be seen.
//!
//! Readers want a font in the file: this one is as small as a TrueType font can be, with as many empty glyphs as
//! the text has different characters. What they mean is in the map to Unicode.

use std::{collections::HashMap, fmt::Write as _};

/// Units per em, and the advance of every glyph.
const EM: u16 = 1000;
pub(super) const ADVANCE: u16 = 500;
/// Entries of one section of a character map.
const MAX_SECTION: usize = 100;

/// Gives each character of a document a glyph.
#[derive(Default)]
pub(super) struct Glyphs {
    codes: HashMap<char, u16>,
    characters: Vec<char>,
}

impl Glyphs {
    /// The text as a hexadecimal string of a content stream. Characters over the 65,535th are left out.
    pub fn encode(&mut self, text: &str) -> String {
        let mut hex = String::with_capacity(text.len() * 4);
        for character in text.chars() {
            if let Some(code) = self.code(character) {
                let _ = write!(hex, "{code:04X}");
            }
        }
        hex
    }

    fn code(&mut self, character: char) -> Option<u16> {
        if let Some(code) = self.codes.get(&character) {
            return Some(*code);
        }
        // Glyph 0 is the missing one.
        let code = u16::try_from(self.characters.len() + 1).ok().filter(|code| *code < u16::MAX)?;
        self.codes.insert(character, code);
        self.characters.push(character);
        Some(code)
    }

    /// The map from codes to Unicode.
    pub fn to_unicode(&self) -> String {
        let mut map = String::from(
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
             /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n\
             /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n\
             1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n",
        );
        for (section, characters) in self.characters.chunks(MAX_SECTION).enumerate() {
            let _ = writeln!(map, "{} beginbfchar", characters.len());
            for (index, character) in characters.iter().enumerate() {
                let _ = write!(map, "<{:04X}> <", section * MAX_SECTION + index + 1);
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(map, "{unit:04X}");
                }
                map.push_str(">\n");
            }
            map.push_str("endbfchar\n");
        }
        map.push_str("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n");
        map
    }

    /// The font file.
    pub fn true_type(&self) -> Vec<u8> {
        let glyphs = u16::try_from(self.characters.len() + 1).unwrap_or(u16::MAX);
        let tables: [(&[u8; 4], Vec<u8>); 7] = [
            (b"cmap", cmap()),
            (b"glyf", vec![0; 4]),
            (b"head", head()),
            (b"hhea", hhea()),
            (b"hmtx", hmtx(glyphs)),
            // Every glyph begins and ends where the first does: none has an outline.
            (b"loca", vec![0; (usize::from(glyphs) + 1) * 2]),
            (b"maxp", maxp(glyphs)),
        ];
        let count = tables.len() as u16;
        let mut font = words(&[0x0001, 0x0000, count, 64, 2, count * 16 - 64]);
        let mut offset = font.len() + tables.len() * 16;
        for (name, table) in &tables {
            font.extend(*name);
            font.extend(checksum(table).to_be_bytes());
            font.extend((offset as u32).to_be_bytes());
            font.extend((table.len() as u32).to_be_bytes());
            offset += table.len().next_multiple_of(4);
        }
        for (_, table) in &tables {
            font.extend(table);
            font.resize(font.len().next_multiple_of(4), 0);
        }
        font
    }
}

fn words(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

fn checksum(table: &[u8]) -> u32 {
    table.chunks(4).fold(0_u32, |sum, bytes| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        sum.wrapping_add(u32::from_be_bytes(word))
    })
}

/// A map of characters that has none: text is encoded by glyph.
fn cmap() -> Vec<u8> {
    let table = words(&[4, 24, 0, 2, 2, 0, 0, 0xffff, 0, 0xffff, 1, 0]);
    [words(&[0, 1, 3, 1]), 12_u32.to_be_bytes().to_vec(), table].concat()
}

fn head() -> Vec<u8> {
    let mut head = words(&[1, 0, 1, 0, 0, 0, 0x5f0f, 0x3cf5, 0, EM]);
    // No dates.
    head.extend([0; 16]);
    // Bounding box, style, smallest size, direction, short offsets, format of outlines.
    head.extend(words(&[0, 0, EM, EM, 0, 8, 2, 0, 0]));
    head
}

fn hhea() -> Vec<u8> {
    words(&[1, 0, 800, (-200_i16).cast_unsigned(), 0, ADVANCE, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1])
}

fn hmtx(glyphs: u16) -> Vec<u8> {
    let mut metrics = words(&[ADVANCE, 0]);
    metrics.resize(metrics.len() + usize::from(glyphs - 1) * 2, 0);
    metrics
}

fn maxp(glyphs: u16) -> Vec<u8> {
    words(&[1, 0, glyphs, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_a_code_and_a_meaning() {
        let mut glyphs = Glyphs::default();
        assert_eq!(glyphs.encode("abba 日😀"), "000100020002000100030004".to_owned() + "0005");
        let map = glyphs.to_unicode();
        assert!(map.contains("<0001> <0061>") && map.contains("<0004> <65E5>"), "{map}");
        assert!(map.contains("<0005> <D83DDE00>"), "{map}");
        let many: String = (0..300).filter_map(|n| char::from_u32(0x4e00 + n)).collect();
        glyphs.encode(&many);
        assert_eq!(glyphs.to_unicode().matches("beginbfchar").count(), 4);
    }
}
