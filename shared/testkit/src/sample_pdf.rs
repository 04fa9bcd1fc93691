//! Sample PDFs of any length, for tests that need real documents.

use std::fmt::Write;

/// `pages` pages, each with a heading that names it, a few lines of text and a picture.
pub fn with_pictures(pages: u32) -> Vec<u8> {
    document((0..pages as usize).map(|page| chapter(page + 1) + PICTURE))
}

/// `pages` pages, each with a heading that names it and a few lines of text.
pub fn text_only(pages: u32) -> Vec<u8> {
    document((0..pages as usize).map(|page| chapter(page + 1)))
}

/// One page per text, with nothing on it but that text and a picture.
pub fn pages_with_text(texts: &[&str]) -> Vec<u8> {
    document(texts.iter().map(|text| format!("BT /F 12 Tf 72 760 Td ({text}) Tj ET\n") + PICTURE))
}

const PICTURE: &str = "q 300 0 0 200 140 300 cm /I Do Q\n";

fn chapter(page: usize) -> String {
    let mut content = format!("BT /F 20 Tf 72 760 Td (Chapter {page}) Tj ET\n");
    for (line, words) in LINES.iter().enumerate() {
        let _ = writeln!(content, "BT /F 11 Tf 72 {} Td ({words}, page {page}.) Tj ET", 720 - 18 * line);
    }
    content
}

fn document(contents: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let pages = contents.len();
    let mut pdf = Pdf::default();
    let kids = (0..pages).fold(String::new(), |mut kids, page| {
        let _ = write!(kids, "{} 0 R ", 5 + 2 * page);
        kids
    });
    pdf.object("<</Type/Catalog/Pages 2 0 R>>");
    pdf.object(&format!("<</Type/Pages/Count {pages}/Kids[{kids}]>>"));
    pdf.object("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>");
    // Sixteen grey squares: enough to be a picture, too small to slow a test down.
    let picture = "<</Type/XObject/Subtype/Image/Width 4/Height 4/ColorSpace/DeviceGray/BitsPerComponent 8\
                   /Filter/ASCIIHexDecode/Length 33>>\nstream\n00408090C0F010305070A0B0D0E02060>\nendstream";
    pdf.object(picture);
    for (content, page) in contents.zip(1..) {
        let stream = 4 + 2 * page;
        pdf.object(&format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {stream} 0 R\
             /Resources<</Font<</F 3 0 R>>/XObject<</I 4 0 R>>>>>>"
        ));
        pdf.object(&format!("<</Length {}>>\nstream\n{content}endstream", content.len()));
    }
    pdf.finish()
}

const LINES: [&str; 4] = [
    "The ferry left the northern quay at seven with forty passengers and a crate of lemons",
    "By noon the fog had lifted and the lighthouse keeper wrote down nine sails to the west",
    "No one remembered who had painted the old warehouse green or when its clock had stopped",
    "In the evening the band played until the last lamps along the promenade were put out",
];

#[derive(Default)]
struct Pdf {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Pdf {
    fn object(&mut self, body: &str) {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(b"%PDF-1.7\n");
        }
        self.offsets.push(self.bytes.len());
        let number = self.offsets.len();
        self.bytes.extend_from_slice(format!("{number} 0 obj\n{body}\nendobj\n").as_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        let start = self.bytes.len();
        let size = self.offsets.len() + 1;
        let mut table = format!("xref\n0 {size}\n0000000000 65535 f \n");
        for offset in &self.offsets {
            let _ = writeln!(table, "{offset:010} 00000 n ");
        }
        let _ = write!(table, "trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n");
        self.bytes.extend_from_slice(table.as_bytes());
        self.bytes
    }
}
