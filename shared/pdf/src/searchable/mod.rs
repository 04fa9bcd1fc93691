//! Searchable PDFs: the pages of a document, with invisible text where they have none of their own.

mod fit;
mod font;
mod line;

use std::fmt::Write as _;

use everypage_core::{
    document::{LayerSpan, PageBox, PageWord},
    ports::pdf::PageLayer,
};
use mupdf::{
    Buffer, Matrix,
    pdf::{PdfDocument, PdfObject, PdfPage, PdfWriteOptions},
};

use self::{fit::Area, font::Glyphs};
use crate::{
    document::message,
    image::{ImageFile, Picture},
    layout::{
        self,
        content::{Direction, GlyphLine},
    },
    page::{self, Sheet},
};

/// The words of a page's own text.
pub(crate) fn words_of(lines: &[GlyphLine]) -> Vec<PageWord> {
    let mut words = Vec::new();
    for (number, line) in (0..).zip(lines) {
        let turns = match line.direction {
            Direction::Right => 0,
            Direction::Up => 1,
            Direction::Left => 2,
            Direction::Down => 3,
        };
        for glyphs in line.glyphs.split(|glyph| glyph.c.is_whitespace()).filter(|glyphs| !glyphs.is_empty()) {
            let area = glyphs.iter().fold(page::Area::empty(), |area, glyph| area.union(&glyph.area));
            let text = glyphs.iter().map(|glyph| glyph.c).collect();
            let area = layout::page_box(&area);
            words.push(PageWord { text, area, line: number, turns, ..PageWord::default() });
        }
    }
    words
}

/// The name of the font in each page's resources.
const FONT: &str = "EverypageText";
/// Where a page's text goes whose place is not known: inside of these shares of its sides.
const MARGIN: f32 = 0.06;

/// Adds the layers to a PDF. A page that can't be changed stays as it is.
pub(crate) fn add_layers(pdf: &mut PdfDocument, layers: &[PageLayer]) -> Result<Vec<u8>, String> {
    let mut glyphs = Glyphs::default();
    let font = pdf.create_object().map_err(message)?;
    for layer in layers {
        // A page that is broken has no text either, and the others are no worse for it.
        let _ = add_layer(pdf, &font, &mut glyphs, layer);
    }
    write_font(pdf, font, &glyphs).map_err(message)?;
    write(pdf)
}

/// Makes a PDF of an image, each picture a page.
pub(crate) fn from_image(file: &ImageFile, layers: &[PageLayer]) -> Result<Vec<u8>, String> {
    let mut pdf = PdfDocument::new();
    for index in 0..file.page_count() as usize {
        match file.picture(index) {
            Ok(picture) => add_picture(&mut pdf, &picture).map_err(message)?,
            // Page numbers never shift.
            Err(_) => drop(pdf.new_page((595.0, 842.0)).map_err(message)?),
        }
    }
    add_layers(&mut pdf, layers)
}

fn add_picture(pdf: &mut PdfDocument, picture: &Picture) -> Result<(), mupdf::Error> {
    let (width, height) = picture.size;
    let mut page = pdf.new_page((width, height))?;
    let image = pdf.add_image(&picture.image)?;
    let mut object = page.object();
    let mut resources = pdf.new_dict()?;
    let mut images = pdf.new_dict()?;
    images.dict_put("Picture", image)?;
    resources.dict_put("XObject", images)?;
    object.dict_put("Resources", resources)?;
    // In a PDF the first row of a picture is at the top of its unit square, and y goes up.
    let Matrix { a, b, c, d, e, f } = picture.matrix();
    let content = format!("q {a} {} {} {d} {} {} cm /Picture Do Q\n", -b, -c, c + e, height - d - f);
    page.insert_contents(pdf, content.as_bytes(), true)?;
    Ok(())
}

fn add_layer(
    pdf: &mut PdfDocument,
    font: &PdfObject,
    glyphs: &mut Glyphs,
    layer: &PageLayer,
) -> Result<(), mupdf::Error> {
    let index = i32::try_from(layer.page.get() - 1).unwrap_or(i32::MAX);
    let mut page = PdfPage::try_from(pdf.load_page(index)?)?;
    let bounds = page.bounds()?;
    let size = (bounds.x1 - bounds.x0, bounds.y1 - bounds.y0);
    let content = content(glyphs, &layer.spans, size);
    if content.is_empty() {
        return Ok(());
    }
    // From the page as it is shown, y down, to the coordinates of its content.
    let Some(back) = page.ctm()?.invert() else { return Ok(()) };
    let Matrix { a, b, c, d, e, f } = back;
    let content = format!("q {a} {b} {c} {d} {e} {f} cm\n{content}Q\n");
    add_font(pdf, &mut page, font)?;
    page.wrap_contents(pdf)?;
    page.insert_contents(pdf, content.as_bytes(), true)?;
    Ok(())
}

/// The text of a page as operators, in points from its upper left corner.
fn content(glyphs: &mut Glyphs, spans: &[LayerSpan], (width, height): (f32, f32)) -> String {
    let page = [width * MARGIN, height * MARGIN, width * (1.0 - MARGIN), height * (1.0 - MARGIN)];
    let mut out = String::new();
    for span in spans {
        match span {
            LayerSpan::Line { words, turns } => {
                write_line(&mut out, glyphs, words, *turns, Sheet { width, height });
            }
            LayerSpan::Text { text, area: place } => {
                let area = place.filter(|area| !area.is_empty()).map_or(page, area);
                for line in fit::lines(text, area) {
                    let (hex, fit::Line { x, baseline, size, stretch, .. }) =
                        (glyphs.encode(&line.text), &line);
                    // Rendering mode 3 paints nothing; y goes down here, so the text is turned over.
                    let _ = writeln!(
                        out,
                        "BT 3 Tr /{FONT} {size:.2} Tf {stretch:.2} Tz 1 0 0 -1 {x:.2} {baseline:.2} Tm <{hex}> Tj ET"
                    );
                }
            }
        }
    }
    out
}

/// Words in their boxes, on the page turned upright.
fn write_line(out: &mut String, glyphs: &mut Glyphs, words: &[(String, PageBox)], turns: u8, sheet: Sheet) {
    let upright = |area: &PageBox| {
        let [x0, y0, x1, y1] = self::area(*area);
        sheet.upright(page::Area::new(x0, y0, x1, y1), turns)
    };
    let words: Vec<(&str, page::Area)> =
        words.iter().map(|(text, area)| (text.as_str(), upright(area))).collect();
    let Some(line) = line::line(&words) else { return };
    let [a, b, c, d, e, f] = sheet.matrix(turns);
    let (size, slope) = (line.size, line.slope);
    let _ = write!(out, "q {a} {b} {c} {d} {e:.2} {f:.2} cm BT 3 Tr /{FONT} {size:.2} Tf ");
    for word in &line.words {
        let (hex, stretch) = (glyphs.encode(&word.text), word.stretch);
        let _ = write!(
            out,
            "1 {slope:.4} {slope:.4} -1 {:.2} {:.2} Tm {stretch:.2} Tz <{hex}> Tj ",
            word.x, word.y
        );
        if let Some(stretch) = word.space {
            let _ = write!(out, "{stretch:.2} Tz <{}> Tj ", glyphs.encode(" "));
        }
    }
    out.push_str("ET Q\n");
}

fn area(area: PageBox) -> Area {
    [area.left() as f32, area.top() as f32, area.right() as f32, area.bottom() as f32]
}

/// Adds the font to the page's resources; those that it inherits are kept.
fn add_font(pdf: &PdfDocument, page: &mut PdfPage, font: &PdfObject) -> Result<(), mupdf::Error> {
    let mut object = page.object();
    let mut resources = match object.get_dict_inheritable("Resources")? {
        Some(resources) if resources.is_dict()? => resources,
        _ => pdf.new_dict()?,
    };
    let mut fonts = match resources.get_dict("Font")? {
        Some(fonts) if fonts.is_dict()? => fonts,
        _ => pdf.new_dict()?,
    };
    fonts.dict_put(FONT, font.try_clone()?)?;
    resources.dict_put("Font", fonts)?;
    object.dict_put("Resources", resources)
}

fn write_font(pdf: &mut PdfDocument, mut font: PdfObject, glyphs: &Glyphs) -> Result<(), mupdf::Error> {
    let reference = |object: &PdfObject| object.as_indirect();
    let true_type = glyphs.true_type();
    let entries = pdf.new_object_from_str(&format!("<< /Length1 {} >>", true_type.len()))?;
    let file = pdf.add_stream(&Buffer::from_bytes(&true_type)?, Some(&entries), false)?;
    let map = pdf.add_stream(&Buffer::from_bytes(glyphs.to_unicode().as_bytes())?, None, false)?;
    let descriptor = pdf.new_object_from_str(&format!(
        "<< /Type /FontDescriptor /FontName /{FONT} /Flags 5 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 800 \
         /Descent -200 /CapHeight 800 /StemV 80 /FontFile2 {} 0 R >>",
        reference(&file)?
    ))?;
    let descriptor = pdf.add_object(&descriptor)?;
    let glyphs = pdf.new_object_from_str(&format!(
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{FONT} /CIDToGIDMap /Identity /DW {} \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor {} 0 R >>",
        font::ADVANCE,
        reference(&descriptor)?
    ))?;
    let glyphs = pdf.add_object(&glyphs)?;
    let whole = pdf.new_object_from_str(&format!(
        "<< /Type /Font /Subtype /Type0 /BaseFont /{FONT} /Encoding /Identity-H /DescendantFonts [{} 0 R] \
         /ToUnicode {} 0 R >>",
        reference(&glyphs)?,
        reference(&map)?
    ))?;
    font.write_object(&whole)
}

fn write(pdf: &PdfDocument) -> Result<Vec<u8>, String> {
    let mut options = PdfWriteOptions::default();
    // Objects that nothing refers to are left out; what is compressed stays as it is.
    options.set_compress(true).set_garbage_level(1);
    let mut bytes = Vec::new();
    pdf.write_to_with_options(&mut bytes, options).map_err(message)?;
    Ok(bytes)
}
