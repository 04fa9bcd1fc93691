//! Makes the layout's input from MuPDF's structured text.

use mupdf::{
    DisplayList, TextChar, TextPageFlags,
    text_page::{TextBlockType, TextCharFlags},
};

use super::{geometry::Area, text_quality::CharacterCounts};
use crate::layout::content::{Direction, FontStyle, Glyph, GlyphLine, PageContent};

/// The text of a page: what the layout needs, and what the classification needs.
pub(crate) struct TextContent {
    pub content: PageContent,
    /// Areas of lines.
    pub lines: Vec<Area>,
    pub characters: CharacterCounts,
    /// Bytes of text.
    pub bytes: usize,
}

impl TextContent {
    pub fn extract(list: &DisplayList, page: Area) -> Result<Self, mupdf::Error> {
        // Without PRESERVE_LIGATURES, ligatures become letters. CLIP leaves out invisible text: outside
        // of the page, and past the end of a spreadsheet's cell. It is worth its fifth of the time.
        let structured = list.to_text_page(TextPageFlags::CLIP)?;
        let content = PageContent { page, ..PageContent::default() };
        let mut text = Self { content, lines: Vec::new(), characters: CharacterCounts::default(), bytes: 0 };
        for block in structured.blocks().filter(|block| block.r#type() == TextBlockType::Text) {
            for line in block.lines() {
                let mut out = GlyphLine::default();
                for (index, item) in line.chars().enumerate() {
                    let c = item.char().unwrap_or(char::REPLACEMENT_CHARACTER);
                    text.characters.count(c);
                    text.bytes += c.len_utf8();
                    let (quad, flags) = (item.quad(), item.flags());
                    if index == 0 {
                        out.direction = direction(quad.ur.x - quad.ul.x, quad.ur.y - quad.ul.y);
                    }
                    let mut area = Area::empty();
                    for point in [quad.ul, quad.ur, quad.ll, quad.lr] {
                        area.include(point.x, point.y);
                    }
                    out.glyphs.push(Glyph {
                        c,
                        area,
                        baseline: item.origin().y,
                        size: item.size(),
                        is_synthetic: flags.contains(TextCharFlags::SYNTHETIC),
                        style: style(&item, flags),
                    });
                }
                if out.glyphs.iter().any(|glyph| !glyph.c.is_whitespace()) {
                    text.lines.push(Area::from(line.bounds()));
                    text.content.lines.push(out);
                }
            }
        }
        Ok(text)
    }
}

fn direction(dx: f32, dy: f32) -> Direction {
    if dx.abs() >= dy.abs() {
        if dx >= 0.0 { Direction::Right } else { Direction::Left }
    } else if dy >= 0.0 {
        Direction::Down
    } else {
        Direction::Up
    }
}

fn style(item: &TextChar<'_>, flags: TextCharFlags) -> FontStyle {
    // Names are not used: those that are no UTF-8 end the process in the `mupdf` crate.
    let font = item.font();
    FontStyle {
        bold: flags.contains(TextCharFlags::BOLD) || font.as_ref().is_some_and(mupdf::Font::is_bold),
        italic: font.as_ref().is_some_and(mupdf::Font::is_italic),
        mono: font.as_ref().is_some_and(mupdf::Font::is_monospaced),
    }
}
