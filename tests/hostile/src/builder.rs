//! A small PDF writer that makes every kind of page, valid or invalid.

use std::{fmt::Write as _, io::Read as _};

use flate2::{Compression, read::ZlibEncoder};

pub const A4: (f32, f32) = (595.0, 842.0);

/// One page: its content, and named extras for its resources.
#[derive(Clone)]
pub struct Page {
    pub size: (f32, f32),
    pub content: Vec<u8>,
    /// Objects to add: (resource name such as `/Im1`, kind such as `XObject`, whole object).
    pub extras: Vec<(String, &'static str, Vec<u8>)>,
    /// Entries of the content stream's dictionary.
    pub filter: String,
}

impl Page {
    pub fn new(content: impl Into<Vec<u8>>) -> Self {
        Self { size: A4, content: content.into(), extras: Vec::new(), filter: String::new() }
    }

    pub fn blank() -> Self {
        Self::new("")
    }

    /// Lines of text, on the upper half.
    pub fn prose(number: u32) -> Self {
        let mut content = String::new();
        let words = "The committee met again to discuss the report and its many findings";
        for line in 0..30 {
            let y = 760.0 - 16.0 * line as f32;
            content += &line_at(72.0, y, &format!("Page {number}, line {line}. {words}."));
        }
        Self::new(content)
    }

    pub fn size(mut self, width: f32, height: f32) -> Self {
        self.size = (width, height);
        self
    }

    pub fn draw(mut self, content: &str) -> Self {
        self.content.extend(content.as_bytes());
        self
    }

    /// A noisy RGB image, which compresses like a photo, over `x y width height`.
    pub fn image(self, at: (f32, f32, f32, f32)) -> Self {
        let name = format!("/Im{}", self.extras.len());
        let noise: Vec<u8> =
            (0..64 * 64 * 3_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let head =
            "/Type /XObject /Subtype /Image /Width 64 /Height 64 /BitsPerComponent 8 /ColorSpace /DeviceRGB";
        let (x, y, width, height) = at;
        self.draw(&format!("q {width} 0 0 {height} {x} {y} cm {name} Do Q\n")).extra(
            &name,
            "XObject",
            stream(head, &noise),
        )
    }

    pub fn extra(mut self, name: &str, kind: &'static str, object: impl Into<Vec<u8>>) -> Self {
        self.extras.push((name.to_owned(), kind, object.into()));
        self
    }
}

/// One line of text in 12 points.
pub fn line_at(x: f32, y: f32, text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('(', "\\(").replace(')', "\\)");
    format!("BT /F1 12 Tf {x} {y} Td ({escaped}) Tj ET\n")
}

pub fn stream(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dictionary} /Length {} >>\nstream\n", data.len()).into_bytes();
    object.extend(data);
    object.extend(b"\nendstream");
    object
}

pub fn deflate(data: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    // Reading from and writing to memory does not fail.
    let _ = ZlibEncoder::new(data, Compression::fast()).read_to_end(&mut compressed);
    compressed
}

pub fn document(pages: &[Page]) -> Vec<u8> {
    with_count(pages, pages.len() as i64)
}

/// Like [`document`], claiming `count` pages.
pub fn with_count(pages: &[Page], count: i64) -> Vec<u8> {
    // 1 catalog, 2 page tree, 3 font; then per page: page, content, extras.
    let mut file = File::default();
    file.object("<< /Type /Catalog /Pages 2 0 R >>");
    file.object("");
    file.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>");
    let mut kids = String::new();
    for page in pages {
        let number = file.objects.len() + 1;
        let _ = write!(kids, "{number} 0 R ");
        let named = |kind: &str| -> String {
            let of_kind = page.extras.iter().enumerate().filter(|(_, (_, of, _))| *of == kind);
            of_kind.map(|(index, (name, ..))| format!("{name} {} 0 R ", number + 2 + index)).collect()
        };
        let (width, height) = page.size;
        let (fonts, objects_drawn, content) = (named("Font"), named("XObject"), number + 1);
        file.object(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {content} 0 R \
                 /Resources << /Font << /F1 3 0 R {fonts}>> /XObject << {objects_drawn}>> >> >>"
        ));
        file.object(stream(&page.filter, &page.content));
        for (_, _, object) in &page.extras {
            file.object(refer(object, number + 2));
        }
    }
    file.objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {count} >>").into_bytes();
    file.bytes()
}

/// Replaces @0, @1, ... by references to the extras of the page.
fn refer(object: &[u8], first: usize) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(object) else {
        return object.to_vec();
    };
    let mut text = text.to_owned();
    for index in (0..40).rev() {
        text = text.replace(&format!("@{index}"), &format!("{} 0 R", first + index));
    }
    text.into_bytes()
}

/// Numbered objects, the first of which is the catalog.
#[derive(Clone, Default)]
pub struct File {
    pub objects: Vec<Vec<u8>>,
    /// Additional entries of the trailer.
    pub trailer: String,
}

impl File {
    /// Adds an object and returns its number.
    pub fn object(&mut self, object: impl Into<Vec<u8>>) -> usize {
        self.objects.push(object.into());
        self.objects.len()
    }

    /// The objects, and the offset of each.
    pub fn body(&self) -> (Vec<u8>, Vec<usize>) {
        let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut offsets = Vec::with_capacity(self.objects.len());
        for (object, number) in self.objects.iter().zip(1..) {
            offsets.push(file.len());
            file.extend(format!("{number} 0 obj\n").as_bytes());
            file.extend(object);
            file.extend(b"\nendobj\n");
        }
        (file, offsets)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (mut file, offsets) = self.body();
        let (start, size) = (file.len(), offsets.len() + 1);
        file.extend(table(&offsets));
        let more = &self.trailer;
        file.extend(
            format!("trailer\n<< /Size {size} /Root 1 0 R {more}>>\nstartxref\n{start}\n%%EOF\n").as_bytes(),
        );
        file
    }
}

/// The cross-reference table of objects 1, 2, ...
pub(crate) fn table(offsets: &[usize]) -> Vec<u8> {
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", offsets.len() + 1);
    for offset in offsets {
        let _ = writeln!(table, "{offset:010} 00000 n ");
    }
    table.into_bytes()
}
